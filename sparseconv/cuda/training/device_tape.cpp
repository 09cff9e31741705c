// What DeviceTape decides once a model: where parameters stand, which kernel runs each product, and
// which maps they need.
#include "sparseconv/cuda/training/device_tape.hpp"

#include <algorithm>

#include "gemm_core/atom/activation.hpp"
#include "sparseconv/cuda/plan_sets.hpp"
#include "sparseconv/cuda/room.hpp"

namespace sparseconv::cuda {
namespace {

using base::DType;
using gemm_core::cuda::LayerChoice;
using Kind = PlanStep::Kind;

std::int64_t rounded_up(std::int64_t channels, std::int64_t multiple) {
  return (channels + multiple - 1) / multiple * multiple;
}

// Its own inverse when taps are taken in opposite order.
bool is_symmetric(const PlanMap& map) {
  return map.kind == KernelMap::Kind::convolution && map.input == map.output &&
         map.geometry == ConvGeometry::submanifold(map.geometry.kernel, map.geometry.dilation);
}

// Launches of the highest or the lowest priority there is.
base::cuda::Stream stream_of(bool is_urgent) {
  int least = 0, greatest = 0;
  CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream{};
  CUDA_CHECK(
      cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, is_urgent ? greatest : least));
  return base::cuda::Stream(stream);
}

template <class T>
base::cuda::Buffer<T> zeros(std::size_t count) {
  base::cuda::Buffer<T> buffer(count);
  if (count > 0) CUDA_CHECK(cudaMemset(buffer.data(), 0, buffer.nbytes()));
  return buffer;
}

template <class T>
base::cuda::Buffer<T> on_device(const std::vector<T>& values) {
  base::cuda::Buffer<T> buffer(values.size());
  if (!values.empty())
    CUDA_CHECK(cudaMemcpy(buffer.data(), values.data(), buffer.nbytes(), cudaMemcpyHostToDevice));
  return buffer;
}

}  // namespace

DeviceTape::DeviceTape(const Model& model, const training::TapeOptions& options, int device)
    : options_(options),
      device_(device),
      storage_(options.dtype == DType::tf32 ? DType::f32 : options.dtype),
      planned_(training::make_training_plan(model, {.input_gradient = options.input_gradient,
                                                    .recomputes = options.recomputes,
                                                    .lingers = kBeside})),
      plan_(planned_.plan),
      products_(plan_.steps.size()),
      offsets_(plan_.steps.size()),
      tables_(device) {
  ENSURE(options.dtype == DType::f32 || options.dtype == DType::tf32 ||
             options.dtype == DType::f16 || options.dtype == DType::bf16,
         "tape: element type ", base::name(options.dtype),
         " is none of float32, tf32, float16, bfloat16");
  ENSURE(base::cuda::device_count() > 0, "device cuda:", device, ": no CUDA device was found");
  base::cuda::register_memory();
  (void)base::cuda::device_info(device);  // names the device where there is no such
  const base::cuda::DeviceGuard guard(device);
  check_kernels_run_on(device);
  stream_ = stream_of(true);
  beside_ = stream_of(false);
  begin_ = base::cuda::Event::create();
  after_maps_ = base::cuda::Event::create();
  after_forward_ = base::cuda::Event::create();
  after_backward_ = base::cuda::Event::create();
  place_parameters(model);
  pad_buffers();
  PlanSets sets(plan_);
  set_of_level_ = std::move(sets.set_of_level);
  levels_of_sets_ = std::move(sets.levels_of_sets);
  choose_back_maps();
  choose_products();
  maps_.emplace(make_spec());
  pack_products();
  dense_.resize(plan_.outputs.size());
  CUDA_CHECK(cudaDeviceSynchronize());
}

void DeviceTape::place_parameters(const Model& model) {
  const training::Parameters host(model, plan_);
  values_ = on_device(host.values);
  gradients_ = zeros<float>(host.values.size());
  statistics_ = on_device(host.statistics);
  batch_ = zeros<double>(host.statistics.size());
  std::int64_t vectors = 0;
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    const PlanStep& step = plan_.steps[s];
    if (step.parameters < 0) continue;
    Offsets& of_step = offsets_[s];
    const Node& node = model.nodes[at(step.parameters)];
    of_step.weight = host.entry(step.parameters, "weight").offset;
    if (node.op == Op::batch_norm || node.bias)
      of_step.bias = host.entry(step.parameters, "bias").offset;
    if (node.op != Op::batch_norm) continue;
    of_step.eps = node.eps;
    of_step.running_mean = host.entry(step.parameters, "running_mean").offset;
    of_step.running_variance = host.entry(step.parameters, "running_var").offset;
    of_step.vectors = vectors;
    vectors += 5 * rounded_up(step.output.channels, 8);
  }
  norm_vectors_ = zeros<float>(at(vectors));
}

// Rows of whole 16-byte chunks. Those of the input are filled up to a span of the gather kernels
// where that lets the first layer run on them (device_plan.cpp has the figures).
void DeviceTape::pad_buffers() {
  for (PlanBuffer& buffer : plan_.buffers) {
    channels_.push_back(buffer.channels);
    buffer.channels = rounded_up(buffer.channels, 8);
    buffer.is_f32 = false;
  }
  if (plan_.input.buffer < 0) return;
  constexpr std::int64_t kSpanChannels = 32, kMostPaddedToSpan = 8;
  PlanBuffer& input = plan_.buffers[at(plan_.input.buffer)];
  const bool has_own_buffer = channels_[at(plan_.input.buffer)] == plan_.input.channels;
  const bool has_kernels =
      options_.dtype != DType::f32 && base::cuda::device_info(device_).has_wgmma();
  const bool suits = std::none_of(plan_.steps.begin(), plan_.steps.end(), [&](const PlanStep& s) {
    if (s.output.buffer == plan_.input.buffer) return true;
    return s.kind == Kind::convolution && s.inputs[0].buffer == plan_.input.buffer &&
           (s.groups != 1 || s.taps > gemm_core::kMaxMaskedTaps);
  });
  if (has_own_buffer && has_kernels && suits && plan_.input.channels <= kMostPaddedToSpan)
    input.channels = kSpanChannels;
}

bool DeviceTape::is_aligned(const PlanSlice& slice) const {
  const std::int64_t bytes = base::bytes(storage_);
  return slice.channel * bytes % 16 == 0 &&
         plan_.buffers[at(slice.buffer)].channels * bytes % 16 == 0;
}

bool DeviceTape::has_simple_epilogue(const PlanStep& step) const {
  return std::all_of(step.epilogue.begin(), step.epilogue.end(), [&](const auto& node) {
    using gemm_core::Activation;
    if (node.kind == gemm_core::EpilogueNode::Kind::add) return is_aligned(node.aux);
    return node.kind != gemm_core::EpilogueNode::Kind::activate ||
           node.activation == Activation::identity || node.activation == Activation::relu ||
           node.activation == Activation::leaky_relu;
  });
}

// Which map leads gradients back through each step: a plan's own where it has it, else one that is
// derived from the step's.
void DeviceTape::choose_back_maps() {
  all_maps_ = plan_.maps;
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    const PlanStep& step = plan_.steps[s];
    Product& product = products_[s];
    const auto& inputs = planned_.backward[s].inputs;
    product.has_input_gradient = planned_.backward[s].runs && !inputs.empty() &&
                                 inputs[0].mode != training::GradientWrite::Mode::none;
    if (step.map < 0 || !product.has_input_gradient) continue;
    const PlanMap& map = plan_.maps[at(step.map)];
    product.is_mirrored = step.kind == Kind::convolution && is_symmetric(map);
    if (product.is_mirrored) {
      product.back_map = step.map;
    } else if (map.forward >= 0) {
      product.back_map = map.forward;
    } else {
      for (std::size_t m = 0; m < all_maps_.size() && product.back_map < 0; ++m) {
        if (all_maps_[m].forward == step.map) product.back_map = static_cast<int>(m);
      }
    }
    if (product.back_map >= 0) continue;
    product.back_map = static_cast<int>(all_maps_.size());
    all_maps_.push_back({.kind = KernelMap::Kind::inverse,
                         .geometry = map.geometry,
                         .input = map.output,
                         .output = map.input,
                         .forward = step.map});
  }
}

void DeviceTape::choose_products() {
  const bool has_kernels =
      options_.dtype != DType::f32 && base::cuda::device_info(device_).has_wgmma();
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    const PlanStep& step = plan_.steps[s];
    if (step.kind != Kind::convolution) continue;
    Product& product = products_[s];
    product.cin = step.inputs[0].channels;
    product.cout = step.output.channels;
    const bool takes_kernels =
        has_kernels && step.groups == 1 && step.taps <= gemm_core::kMaxMaskedTaps;
    if (!takes_kernels) continue;
    const bool has_aux = std::any_of(step.epilogue.begin(), step.epilogue.end(),
                                     [](const auto& node) { return node.aux.buffer >= 0; });
    const bool fills_buffer = channels_[at(step.output.buffer)] == step.output.channels;
    if (fills_buffer && !has_aux) product.cout = rounded_up(product.cout, 8);
    const bool reads_input = step.inputs[0].buffer == plan_.input.buffer;
    if (reads_input && channels_[at(plan_.input.buffer)] == step.inputs[0].channels)
      product.cin = plan_.buffers[at(plan_.input.buffer)].channels;
    const bool are_aligned = is_aligned(step.inputs[0]) && is_aligned(step.output);
    if (are_aligned && has_simple_epilogue(step)) {
      product.forward_choice = gemm_core::cuda::choose_instance(
          {.compute = options_.dtype,
           .cin = product.cin,
           .cout = product.cout,
           .rows = nominal_rows(plan_, step.output_level, options_.usual_rows),
           .taps = step.taps});
    }
    if (are_aligned && product.has_input_gradient) {
      product.backward_choice = gemm_core::cuda::choose_instance(
          {.compute = options_.dtype,
           .cin = product.cout,
           .cout = step.inputs[0].channels,
           .rows = nominal_rows(plan_, step.input_level, options_.usual_rows),
           .taps = step.taps});
    }
  }
}

// One order a map: that of the product with the most work. All maps stand by output row too, for
// the gradients of weights.
FrameSpec DeviceTape::make_spec() {
  FrameSpec spec;
  spec.sets = set_specs(plan_, set_of_level_, levels_of_sets_);
  for (const PlanMap& map : all_maps_) {
    spec.maps.push_back({.kind = map.kind,
                         .geometry = map.geometry,
                         .input = set_of_level_[at(map.input)],
                         .output = set_of_level_[at(map.output)],
                         .forward = map.forward,
                         .order = RowOrder::none,
                         .needs_canonical = true});
  }
  std::vector<std::int64_t> most_work(all_maps_.size(), 0);
  const auto settle = [&](int map, const LayerChoice& choice, std::int64_t work) {
    if (map < 0 || choice.instance == nullptr || work <= most_work[at(map)]) return;
    most_work[at(map)] = work;
    const bool has_planes = all_maps_[at(map)].geometry.kernel == std::array{3, 3, 3};
    spec.maps[at(map)].order = choice.planes && has_planes ? RowOrder::planes : RowOrder::single;
  };
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    const Product& product = products_[s];
    settle(plan_.steps[s].map, product.forward_choice, product.cin * product.cout);
    settle(product.back_map, product.backward_choice, product.cin * product.cout);
  }
  const auto planes = [&](int map) {
    return map >= 0 && spec.maps[at(map)].order == RowOrder::planes;
  };
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    products_[s].forward_choice.planes = planes(plan_.steps[s].map);
    products_[s].backward_choice.planes = planes(products_[s].back_map);
  }
  return spec;
}

void DeviceTape::pack_products() {
  std::vector<gemm_core::cuda::PackWeightsJob> jobs;
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    const PlanStep& step = plan_.steps[s];
    if (step.kind != Kind::convolution) continue;
    Product& product = products_[s];
    const std::int64_t cin = step.inputs[0].channels, cout = step.output.channels;
    product.forward = gemm_core::cuda::zero_conv_weights(product.cout, step.taps, product.cin,
                                                         step.groups, options_.dtype);
    if (product.has_input_gradient)
      product.backward = gemm_core::cuda::zero_conv_weights(cin, step.taps, product.cout,
                                                            step.groups, options_.dtype);
    jobs.push_back({.weight = values_.data() + offsets_[s].weight,
                    .cout = cout,
                    .taps = step.taps,
                    .cin = cin,
                    .groups = step.groups,
                    .forward = &product.forward,
                    .backward = product.has_input_gradient ? &product.backward : nullptr,
                    .reverses_taps = product.is_mirrored});
  }
  packer_ = gemm_core::cuda::WeightPacker(jobs);
}

base::TensorView DeviceTape::view(const PlanSlice& slice, std::int64_t channels) const {
  const auto b = at(slice.buffer);
  const PlanBuffer& buffer = plan_.buffers[b];
  auto* data = const_cast<std::uint8_t*>(arena_.data());
  if (data != nullptr) data += placement_.offset[b] + slice.channel * base::bytes(storage_);
  const base::Device device{base::Device::Kind::cuda, device_};
  return {data,
          storage_,
          device,
          {shape_.rows[at(buffer.level)], channels > 0 ? channels : slice.channels},
          {buffer.channels, 1}};
}

RowCount DeviceTape::rows_of(int level) const {
  if (plan_.levels[at(level)].kind == Level::Kind::points) return rows_of(0);
  const int set = set_of_level_[at(level)];
  return {set >= 0 ? maps_->status() + set : nullptr, shape_.rows[at(level)]};
}

LevelRowsView DeviceTape::level_view(int level) const {
  const int set = set_of_level_[at(level)];
  return {maps_->keys(set), maps_->rank_to_row(set), rows_of(level)};
}

base::ConstTensorView DeviceTape::output(std::size_t index) const {
  return constant(view(plan_.outputs.at(index).value));
}
base::TensorView DeviceTape::output_gradient(std::size_t index) const {
  return view(planned_.output_gradients.at(index));
}
RowCount DeviceTape::output_rows(std::size_t index) const {
  return rows_of(plan_.outputs.at(index).level);
}
base::ConstTensorView DeviceTape::input_gradient() const {
  ENSURE(options_.input_gradient, "tape: made without input_gradient");
  return constant(view(planned_.input_gradient));
}
float* DeviceTape::dense_output(std::size_t index) { return dense_.at(index).values.data(); }
float* DeviceTape::dense_output_gradient(std::size_t index) {
  return dense_.at(index).gradients.data();
}

void DeviceTape::update_statistics() {
  if (options_.freezes_statistics || running_.empty()) return;
  const base::cuda::DeviceGuard guard(device_);
  sparseconv::cuda::update_statistics(
      running_jobs_.data(), static_cast<std::int32_t>(running_.size()), batch_.data(),
      statistics_.data(), options_.batch_norm_momentum, stream_.get());
}

std::int64_t DeviceTape::nbytes() const { return static_cast<std::int64_t>(arena_.nbytes()); }

}  // namespace sparseconv::cuda
