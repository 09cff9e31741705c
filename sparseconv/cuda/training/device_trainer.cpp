#include "sparseconv/training/device_trainer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "sparseconv/cuda/room.hpp"
#include "sparseconv/cuda/training/device_tape.hpp"
#include "sparseconv/cuda/training/loss_kernels.hpp"
#include "sparseconv/cuda/training/lovasz_kernels.hpp"
#include "sparseconv/training/losses.hpp"

namespace sparseconv::cuda {
namespace {

using base::DType;
using training::kIgnore;
using training::OptimiserOptions;

template <class T>
void copy_to(base::cuda::Buffer<T>& to, std::span<const T> from) {
  ENSURE(from.size() == to.size(), "trainer: ", from.size(), " numbers for ", to.size(),
         " on the device");
  if (!from.empty())
    CUDA_CHECK(cudaMemcpy(to.data(), from.data(), from.size_bytes(), cudaMemcpyHostToDevice));
}
template <class T>
void copy_from(const base::cuda::Buffer<T>& from, std::vector<T>& to) {
  to.resize(from.size());
  if (!to.empty())
    CUDA_CHECK(cudaMemcpy(to.data(), from.data(), from.nbytes(), cudaMemcpyDeviceToHost));
}
base::cuda::Buffer<float> zeros(std::size_t count) {
  base::cuda::Buffer<float> buffer(count);
  CUDA_CHECK(cudaMemset(buffer.data(), 0, buffer.nbytes()));
  return buffer;
}

class CudaTrainer final : public training::DeviceTrainer {
 public:
  CudaTrainer(const Model& model, const training::TrainOptions& options, std::size_t output,
              int device)
      : options_(options),
        output_(output),
        device_(device),
        tape_(model,
              {.batch_norm_momentum = options.batch_norm_momentum,
               .recomputes = options.recomputes,
               .dtype = base::parse_dtype(options.dtype),
               .usual_rows = options.usual_rows},
              device) {
    const base::cuda::DeviceGuard guard(device_);
    const training::Parameters parameters(model, tape_.plan());
    const std::size_t count = parameters.values.size();
    first_ = zeros(count);
    if (options_.optimiser.kind == OptimiserOptions::Kind::adamw) second_ = zeros(count);
    if (options_.ema_decay > 0) {
      average_ = base::cuda::Buffer<float>(count);
      copy_to<float>(average_, parameters.values);
    }
    std::vector<std::uint8_t> decays(count / at(kDecayGroup) + 1, 0);
    for (const auto& entry : parameters.trained()) {
      if (!entry.decays) continue;
      std::fill(decays.begin() + entry.offset / kDecayGroup,
                decays.begin() + (entry.offset + entry.size + kDecayGroup - 1) / kDecayGroup, 1);
    }
    decays_ = base::cuda::Buffer<std::uint8_t>(decays.size());
    copy_to<std::uint8_t>(decays_, decays);
    norm_scratch_ =
        base::cuda::Buffer<double>(at(cuda::norm_scratch(static_cast<std::int64_t>(count)) + 1));
    host_norm_ = base::cuda::PinnedBuffer<double>(1);
    const auto& weights = options_.loss.class_weights;
    class_weights_ = base::cuda::Buffer<float>(weights.size());
    copy_to<float>(class_weights_, weights);
    CUDA_CHECK(cudaDeviceSynchronize());
  }

  void run(const FrameInput& input, std::span<const std::int32_t> labels,
           training::StepReport& report) override {
    const base::cuda::DeviceGuard guard(device_);
    // Labels are looked at while the device is at work.
    tape_.begin(input);
    double weight = 0;
    try {
      weight = weight_of(labels, input.voxels.rows(), report);
    } catch (...) {
      CUDA_CHECK(cudaStreamSynchronize(tape_.stream()));
      throw;
    }
    // Gradients in f16 want a loss of order 1 a row, not a mean: they are scaled by a power of two
    // near the number of rows, and by less where one overflows.
    const bool is_f16 = tape_.storage() == DType::f16;
    constexpr double kSmaller = 1.0 / 16, kLeast = 1.0 / 65536;
    scale_ = is_f16 && weight > 1 ? std::exp2(std::floor(std::log2(weight))) : 1.0;
    if (is_f16) scale_ = std::min(scale_, most_for_lovasz());
    for (bool has_begun = true;; has_begun = false, scale_ *= kSmaller) {
      run_once(input, labels, weight, has_begun, report);
      const bool is_over = is_f16 && std::isfinite(report.loss) &&
                           !std::isfinite(report.gradient_norm) && scale_ * kSmaller >= kLeast;
      if (!is_over) break;
    }
    report.maps_ms = tape_.maps_ms();
    report.forward_ms = tape_.forward_ms();
    report.backward_ms = tape_.backward_ms();
    const std::int32_t* classes = host_predictions_.data();
    report.predictions.assign(classes, classes + input.voxels.rows());
  }

  void update_statistics() override { tape_.update_statistics(); }

  void update(const training::DeviceUpdate& u) override {
    const base::cuda::DeviceGuard guard(device_);
    const auto& o = options_.optimiser;
    FlatUpdate flat{.values = tape_.values().data(),
                    .first = first_.data(),
                    .second = second_.data(),
                    .average = average_.data(),
                    .gradients = tape_.gradients().data(),
                    .decays = decays_.data(),
                    .count = static_cast<std::int64_t>(first_.size()),
                    .gradient_scale = static_cast<float>(u.gradient_scale / scale_),
                    .rate = static_cast<float>(u.rate),
                    .decay = static_cast<float>(o.weight_decay),
                    .average_keep = static_cast<float>(u.average_keep)};
    if (o.kind == OptimiserOptions::Kind::sgd) {
      update_sgd(flat, {static_cast<float>(o.momentum), o.nesterov}, tape_.stream());
      return;
    }
    const auto n = static_cast<double>(u.updates);
    update_adamw(flat,
                 {.beta1 = static_cast<float>(o.beta1),
                  .beta2 = static_cast<float>(o.beta2),
                  .eps = static_cast<float>(o.eps),
                  .step_size = static_cast<float>(u.rate / (1 - std::pow(o.beta1, n))),
                  .unbias = static_cast<float>(1 / std::sqrt(1 - std::pow(o.beta2, n)))},
                 tape_.stream());
  }

  void send(const training::Parameters& parameters, const training::Optimiser& optimiser,
            std::span<const float> average) override {
    const base::cuda::DeviceGuard guard(device_);
    CUDA_CHECK(cudaStreamSynchronize(tape_.stream()));
    copy_to<float>(tape_.values(), parameters.values);
    copy_to<float>(tape_.statistics(), parameters.statistics);
    copy_to<float>(first_, optimiser.first);
    copy_to<float>(second_, optimiser.second);
    copy_to<float>(average_, average);
    CUDA_CHECK(cudaDeviceSynchronize());
  }

  void fetch(training::Parameters& parameters, training::Optimiser& optimiser,
             std::vector<float>& average) override {
    const base::cuda::DeviceGuard guard(device_);
    CUDA_CHECK(cudaStreamSynchronize(tape_.stream()));
    copy_from(tape_.values(), parameters.values);
    copy_from(tape_.statistics(), parameters.statistics);
    copy_from(first_, optimiser.first);
    copy_from(second_, optimiser.second);
    copy_from(average_, average);
  }

  void fetch_gradients(training::Parameters& parameters) override {
    const base::cuda::DeviceGuard guard(device_);
    CUDA_CHECK(cudaStreamSynchronize(tape_.stream()));
    copy_from(tape_.gradients(), parameters.gradients);
    for (float& g : parameters.gradients) g = static_cast<float>(g / scale_);
  }

 private:
  // The sum of the labels' weights; counts them, each class's too.
  double weight_of(std::span<const std::int32_t> labels, std::int64_t rows,
                   training::StepReport& report) {
    training::check_labels(labels, rows, tape_.plan().outputs[output_].channels);
    const auto& weights = options_.loss.class_weights;
    positives_.assign(at(tape_.plan().outputs[output_].channels), 0);
    double weight = 0;
    for (const std::int32_t label : labels) {
      if (label == kIgnore) continue;
      ++report.labelled;
      ++positives_[at(label)];
      weight += weights.empty() ? 1.0 : weights[at(label)];
    }
    return weight;
  }

  // A row of a rare class may have the whole derivative of that class's loss.
  double most_for_lovasz() const {
    constexpr double kMost = 1024;
    std::int64_t present = 0, fewest = INT64_MAX;
    for (const std::int64_t n : positives_) {
      present += n > 0 ? 1 : 0;
      if (n > 0) fewest = std::min(fewest, n);
    }
    if (options_.loss.lovasz_weight == 0 || present == 0) return HUGE_VAL;
    const double most = kMost * static_cast<double>(present * fewest) / options_.loss.lovasz_weight;
    return std::max(1.0, std::exp2(std::floor(std::log2(most))));
  }

  // `has_begun`: the tape is on its way forward.
  void run_once(const FrameInput& input, std::span<const std::int32_t> labels, double weight,
                bool has_begun, training::StepReport& report) {
    const std::int64_t rows = input.voxels.rows(), blocks = loss_blocks(rows);
    const cudaStream_t stream = tape_.stream();
    const auto count = static_cast<std::int64_t>(first_.size());
    double* const norm = norm_scratch_.data() + cuda::norm_scratch(count);
    for (bool is_done = false; !is_done; is_done = tape_.finish()) {
      if (!has_begun) tape_.begin(input);
      has_begun = false;
      reserve(tape_.output_rows(output_).bound);
      std::copy(labels.begin(), labels.end(), host_labels_.data());
      send_async(labels_.data(), host_labels_.data(), rows);
      launch_loss(rows, weight);
      tape_.backward();
      square_sum(tape_.gradients().data(), count, norm_scratch_.data(), norm, stream);
      fetch_async(host_norm_.data(), norm, 1);
      fetch_async(host_sums_.data(), sums_.data(), blocks);
      fetch_async(host_predictions_.data(), predictions_.data(), rows);
    }
    report.gradient_norm = std::sqrt(host_norm_.data()[0]) / scale_;
    report.correct = 0;
    double loss = 0;
    for (std::int64_t b = 0; b < blocks; ++b) {
      loss += host_sums_.data()[b].loss;
      report.correct += host_sums_.data()[b].correct;
    }
    report.loss = weight > 0 ? loss / weight : 0;
    if (options_.loss.lovasz_weight > 0)
      report.loss += options_.loss.lovasz_weight * lovasz_.loss();
  }

  void launch_loss(std::int64_t labels, double weight) {
    const RowCount rows = tape_.output_rows(output_);
    const double lovasz_weight = options_.loss.lovasz_weight;
    if (lovasz_weight > 0) {
      base::ConstTensorView logits = tape_.output(output_);
      logits.shape[0] = labels;
      lovasz_.enqueue(logits, labels_.data(), positives_, tape_.stream());
    }
    const bool has_lovasz = lovasz_weight > 0 && lovasz_.present() > 0;
    cross_entropy({.logits = tape_.output(output_),
                   .labels = labels_.data(),
                   .class_weights = class_weights_.size() > 0 ? class_weights_.data() : nullptr,
                   .label_smoothing = static_cast<float>(options_.loss.label_smoothing),
                   .focal_gamma = static_cast<float>(options_.loss.focal_gamma),
                   .lovasz = has_lovasz ? lovasz_.derivatives() : nullptr,
                   .lovasz_pitch = labels,
                   .lovasz_scale = static_cast<float>(
                       has_lovasz ? lovasz_weight * scale_ / lovasz_.present() : 0),
                   .gradient_scale = static_cast<float>(weight > 0 ? scale_ / weight : 0),
                   .gradient = tape_.output_gradient(output_),
                   .predictions = predictions_.data()},
                  rows, sums_.data(), tape_.stream());
  }

  void reserve(std::int64_t rows) {
    make_room(labels_, at(rows));
    make_room(predictions_, at(rows));
    make_room(sums_, at(loss_blocks(rows)));
    make_room(host_labels_, at(rows));
    make_room(host_predictions_, at(rows));
    make_room(host_sums_, at(loss_blocks(rows)));
  }

  template <class T>
  void send_async(T* to, const T* from, std::int64_t count) {
    if (count > 0)
      CUDA_CHECK(
          cudaMemcpyAsync(to, from, at(count) * sizeof(T), cudaMemcpyHostToDevice, tape_.stream()));
  }
  template <class T>
  void fetch_async(T* to, const T* from, std::int64_t count) {
    if (count > 0)
      CUDA_CHECK(
          cudaMemcpyAsync(to, from, at(count) * sizeof(T), cudaMemcpyDeviceToHost, tape_.stream()));
  }

  training::TrainOptions options_;
  std::size_t output_;
  int device_;
  DeviceTape tape_;
  double scale_ = 1;  // of the gradients of the last run()
  LovaszLoss lovasz_;
  std::vector<std::int64_t> positives_;  // rows of each class
  base::cuda::Buffer<float> first_, second_, average_, class_weights_;
  base::cuda::Buffer<std::uint8_t> decays_;
  base::cuda::Buffer<double> norm_scratch_;  // and the sum behind it
  base::cuda::Buffer<std::int32_t> labels_, predictions_;
  base::cuda::Buffer<LossSum> sums_;
  base::cuda::PinnedBuffer<double> host_norm_;
  base::cuda::PinnedBuffer<std::int32_t> host_labels_, host_predictions_;
  base::cuda::PinnedBuffer<LossSum> host_sums_;
};

}  // namespace
}  // namespace sparseconv::cuda

namespace sparseconv::training {

std::unique_ptr<DeviceTrainer> make_device_trainer(const Model& model, const TrainOptions& options,
                                                   std::size_t output, base::Device device) {
  return std::make_unique<cuda::CudaTrainer>(model, options, output, device.index);
}

}  // namespace sparseconv::training
