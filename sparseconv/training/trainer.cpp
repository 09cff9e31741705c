#include "sparseconv/training/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <optional>
#include <utility>

#include "gemm_core/base/parallel.hpp"
#include "gemm_core/device/elementwise.hpp"
#include "sparseconv/engine.hpp"
#include "sparseconv/training/checkpoint.hpp"
#include "sparseconv/training/device_trainer.hpp"
#include "sparseconv/training/losses.hpp"
#include "sparseconv/training/optimiser.hpp"
#include "sparseconv/training/tape.hpp"

namespace sparseconv::training {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

Model validated(Model model) {
  validate(model);
  return model;
}

// The output that labels are compared with.
std::size_t label_output(const Model& model, const Plan& plan) {
  const auto wanted = static_cast<std::int64_t>(model.classes.size());
  ENSURE(wanted > 0, "trainer: the model has no classes");
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    const PlanOutput& output = plan.outputs[i];
    const bool is_on_input =
        output.level == 0 ||
        plan.levels[static_cast<std::size_t>(output.level)].kind == Level::Kind::points;
    if (!output.is_dense && is_on_input && output.channels == wanted) return i;
  }
  base::fail("trainer: no output on the input's voxels has ", wanted,
             " channels, as many as the model has classes");
}

const char* name_of(OptimiserOptions::Kind kind) {
  return kind == OptimiserOptions::Kind::sgd ? "sgd" : "adamw";
}

void check(const TrainOptions& o) {
  check(o.schedule);
  ENSURE(o.clip_norm >= 0, "trainer: clip_norm ", o.clip_norm, " is negative");
  ENSURE(o.ema_decay >= 0 && o.ema_decay < 1, "trainer: ema_decay ", o.ema_decay,
         " is not in [0, 1)");
}

}  // namespace

struct Trainer::Impl {
  Impl(Model m, const TrainOptions& o)
      : model(validated(std::move(m))),
        options(o),
        tape(model, {.batch_norm_momentum = o.batch_norm_momentum,
                     .recomputes = o.recomputes,
                     .dtype = base::parse_dtype(o.dtype)}),
        output(label_output(model, tape.plan())),
        optimiser(o.optimiser, tape.parameters()),
        threads(o.threads) {
    check(options);
    check(options.loss, static_cast<std::int64_t>(model.classes.size()));
    if (options.ema_decay > 0) average = tape.parameters().values;
    const base::Device where = base::parse_device(options.device);
    if (!where.is_cpu()) device = make_device_trainer(model, options, output, where);
  }

  StepReport step(const Batch& batch);
  // The output in f32; `converted` holds it where it is stored in another type.
  base::ConstTensorView logits(base::Tensor& converted) const;
  void run_on_cpu(const FrameInput& input, const Batch& batch, StepReport& report);
  void run_on_device(const FrameInput& input, const Batch& batch, StepReport& report);
  [[noreturn]] void fail_on_loss(const FrameInput& input, double loss);
  [[noreturn]] void fail_on_gradient();
  void update_statistics();
  void update(StepReport& report);
  // What the host says of weights and optimiser is what the device has.
  void fetch();
  std::span<const float> given_weights() {
    fetch();
    return average.empty() ? tape.parameters().values : average;
  }
  Model filled(std::span<const float> weights) const {
    return tape.parameters().filled(model, weights);
  }
  // The first steps count more, so that the average forgets where training began.
  double average_keep() const {
    const auto n = static_cast<double>(optimiser.steps);
    return std::min(options.ema_decay, (1 + n) / (10 + n));
  }
  void require_same_graph(const Model& other) const;

  Model model;
  TrainOptions options;
  Tape tape;
  std::size_t output;
  Optimiser optimiser;
  base::Threads threads;
  std::vector<float> average;  // of the weights; empty without ema_decay
  // Where steps run elsewhere; tape, optimiser and average then mirror what stands there.
  std::unique_ptr<DeviceTrainer> device;
  bool is_mirror_old = false;
  std::int64_t steps = 0;
  mutable std::mutex mutex;
  mutable std::optional<Engine> engine;  // of predict(); gone when the weights move
};

StepReport Trainer::Impl::step(const Batch& batch) {
  StepReport report;
  report.step = steps;
  report.learning_rate = learning_rate(options.schedule, steps);
  ENSURE(batch.voxels.coordinates != nullptr, "trainer: the batch has no coordinates");
  ENSURE(static_cast<std::int64_t>(batch.labels.size()) == batch.voxels.rows(),
         "trainer: ", batch.labels.size(), " labels for ", batch.voxels.rows(), " voxels");
  const FrameInput input{.voxels = within_shape(batch.voxels, model.input.spatial_shape)};
  if (device)
    run_on_device(input, batch, report);
  else
    run_on_cpu(input, batch, report);
  const auto start = Clock::now();
  update(report);
  report.update_ms = milliseconds_since(start);
  return report;
}

void Trainer::Impl::run_on_cpu(const FrameInput& input, const Batch& batch, StepReport& report) {
  auto start = Clock::now();
  tape.forward(input);
  base::Tensor converted;
  ClassLoss loss =
      class_loss(options.loss, logits(converted), batch.labels, tape.output_gradient(output));
  report.maps_ms = tape.maps_ms();
  report.forward_ms = milliseconds_since(start) - report.maps_ms;
  report.loss = loss.loss;
  report.labelled = loss.labelled;
  report.correct = loss.correct;
  report.predictions = std::move(loss.predictions);
  if (!std::isfinite(report.loss)) fail_on_loss(input, report.loss);
  start = Clock::now();
  tape.backward();
  report.gradient_norm = norm(tape.parameters().gradients);
  report.backward_ms = milliseconds_since(start);
  if (!std::isfinite(report.gradient_norm)) fail_on_gradient();
}

void Trainer::Impl::run_on_device(const FrameInput& input, const Batch& batch, StepReport& report) {
  device->run(input, batch.labels, report);
  if (!std::isfinite(report.loss)) {
    fetch();
    fail_on_loss(input, report.loss);
  }
  if (!std::isfinite(report.gradient_norm)) {
    device->fetch_gradients(tape.parameters());
    fail_on_gradient();
  }
}

// The message names where the first value comes from, as the CPU finds it.
void Trainer::Impl::fail_on_loss(const FrameInput& input, double loss) {
  const std::string node = tape.first_node_not_finite(input);
  base::fail("step ", steps, ": the loss is ", loss,
             node.empty() ? "" : "; the first value that is not finite comes from node '", node,
             node.empty() ? "" : "'");
}

void Trainer::Impl::fail_on_gradient() {
  base::fail("step ", steps, ": the gradient is not finite; the first such comes from node '",
             tape.first_gradient_not_finite(), "'");
}

void Trainer::Impl::fetch() {
  if (!is_mirror_old) return;
  device->fetch(tape.parameters(), optimiser, average);
  is_mirror_old = false;
}

base::ConstTensorView Trainer::Impl::logits(base::Tensor& converted) const {
  const base::ConstTensorView stored = tape.output(output);
  if (stored.dtype == base::DType::f32) return stored;
  converted = base::Tensor::empty(stored.shape, base::DType::f32);
  gemm_core::elementwise(stored, {}, converted.view());
  return std::as_const(converted).view();
}

void Trainer::Impl::update_statistics() {
  try {
    tape.update_statistics();
  } catch (const base::Error& error) {
    base::fail("step ", steps, ": ", error.what());
  }
}

void Trainer::Impl::update(StepReport& report) {
  engine.reset();
  if (device)
    device->update_statistics();
  else
    update_statistics();
  is_mirror_old = device != nullptr;
  ++steps;
  if (report.labelled == 0) return;
  const bool is_clipped = options.clip_norm > 0 && report.gradient_norm > options.clip_norm;
  const double scale = is_clipped ? options.clip_norm / report.gradient_norm : 1.0;
  if (device) {
    ++optimiser.steps;
    device->update({.rate = report.learning_rate,
                    .gradient_scale = scale,
                    .updates = optimiser.steps,
                    .average_keep = average_keep()});
    return;
  }
  optimiser.step(tape.parameters(), report.learning_rate, scale);
  if (average.empty()) return;
  const auto keep = static_cast<float>(average_keep());
  const auto& values = tape.parameters().values;
  constexpr std::int64_t kGrain = 65536;
  base::parallel_blocks(std::ssize(average), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      average[i] = keep * average[i] + (1 - keep) * values[i];
  });
}

void Trainer::Impl::require_same_graph(const Model& other) const {
  const auto count = std::min(model.nodes.size(), other.nodes.size());
  for (std::size_t i = 0; i < count; ++i) {
    const Node &mine = model.nodes[i], &theirs = other.nodes[i];
    ENSURE(mine.name == theirs.name && mine.op == theirs.op, "checkpoint: node ", i, " is '",
           theirs.name, "' (", name(theirs.op), "), the model has '", mine.name, "' (",
           name(mine.op), ")");
    for (const auto& [parameter, tensor] : mine.weights) {
      const auto found = theirs.weights.find(parameter);
      ENSURE(found != theirs.weights.end() && found->second.shape() == tensor.shape(),
             "checkpoint: node '", mine.name, "': ", parameter, " has shape ",
             found == theirs.weights.end() ? "none" : base::to_string(found->second.shape()),
             ", the model's has ", base::to_string(tensor.shape()));
    }
  }
  ENSURE(model.nodes.size() == other.nodes.size(), "checkpoint: it has ", other.nodes.size(),
         " nodes, the model ", model.nodes.size());
  ENSURE(model_graph_json(model) == model_graph_json(other),
         "checkpoint: its graph differs from the model's (same nodes and shapes, other keys)");
}

Trainer::Trainer(Model model, const TrainOptions& options)
    : impl_(std::make_unique<Impl>(std::move(model), options)) {}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;

StepReport Trainer::step(const Batch& batch) {
  StepReport report;
  impl_->threads.run([&] { report = impl_->step(batch); });
  return report;
}

std::int64_t Trainer::steps_done() const { return impl_->steps; }

std::vector<std::int32_t> Trainer::predict(const Batch& batch) const {
  const std::lock_guard lock(impl_->mutex);
  if (!impl_->engine)
    impl_->engine.emplace(model(), EngineOptions{.device = impl_->options.device,
                                                 .dtype = impl_->options.dtype,
                                                 .threads = impl_->options.threads});
  const Result result = impl_->engine->run(batch.voxels);
  const base::Tensor& logits = result.label_output().sparse.features;
  const std::int64_t classes = logits.size(1);
  std::vector<std::int32_t> labels;
  for (std::int64_t row = 0; row < logits.size(0); ++row) {
    const float* z = logits.data<float>() + row * classes;
    labels.push_back(static_cast<std::int32_t>(std::max_element(z, z + classes) - z));
  }
  return labels;
}

Model Trainer::model() const { return impl_->filled(impl_->given_weights()); }

void Trainer::save_checkpoint(const std::filesystem::path& path, const std::string& note) const {
  Impl& t = *impl_;
  t.fetch();
  try {
    t.tape.parameters().require_finite();
  } catch (const base::Error& error) {
    base::fail("checkpoint after step ", t.steps, ": ", error.what(),
               "; what was written before stays");
  }
  write_checkpoint(path, {.model = t.filled(t.tape.parameters().values),
                          .optimiser = name_of(t.options.optimiser.kind),
                          .steps = t.steps,
                          .updates = t.optimiser.steps,
                          .first = t.optimiser.first,
                          .second = t.optimiser.second,
                          .average = t.average,
                          .note = note});
}

std::string Trainer::resume(const std::filesystem::path& path) {
  Impl& t = *impl_;
  Checkpoint c = read_checkpoint(path);
  t.require_same_graph(c.model);
  const char* const wanted = name_of(t.options.optimiser.kind);
  ENSURE(c.optimiser == wanted, "checkpoint: written by the optimiser ", c.optimiser,
         ", this run uses ", wanted);
  Parameters loaded(c.model, t.tape.plan());
  const auto require = [&](const char* what, const std::vector<float>& got,
                           const std::vector<float>& expected) {
    ENSURE(got.size() == expected.size(), "checkpoint: ", what, " holds ", got.size(),
           " numbers, expected ", expected.size());
  };
  require("first", c.first, t.optimiser.first);
  require("second", c.second, t.optimiser.second);
  require("average", c.average, t.average);
  t.tape.parameters() = std::move(loaded);
  t.optimiser.first = std::move(c.first);
  t.optimiser.second = std::move(c.second);
  t.optimiser.steps = c.updates;
  t.average = std::move(c.average);
  t.steps = c.steps;
  if (t.device) t.device->send(t.tape.parameters(), t.optimiser, t.average);
  t.is_mirror_old = false;
  t.engine.reset();
  return c.note;
}

}  // namespace sparseconv::training
