#include "sparseconv/engine.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>

#include "gemm_core/base/parallel.hpp"
#include "sparseconv/batch_rows.hpp"
#include "sparseconv/devices.hpp"
#include "sparseconv/executor.hpp"

namespace sparseconv {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

// Values that are not finite are read as 0, as voxelize reads those of a cloud. Returns a warning,
// or nothing.
std::string clear_non_finite(base::Tensor& features) {
  std::int64_t bad = 0;
  base::visit_dtype<float, base::half_t>(features.dtype(), "features", [&]<class T>() {
    const base::Tensor& original = features;
    const T* values = original.data<T>();
    for (std::int64_t i = 0; i < original.numel(); ++i) {
      bad += !std::isfinite(static_cast<float>(values[i]));
    }
    if (bad == 0) return;
    base::Tensor cleared = original.clone();
    T* to = cleared.data<T>();
    for (std::int64_t i = 0; i < cleared.numel(); ++i) {
      if (!std::isfinite(static_cast<float>(to[i]))) to[i] = T(0.0f);
    }
    features = cleared;
  });
  return bad == 0 ? "" : base::concat("features: ", bad, " non-finite values are read as 0");
}

// Of cell 0, where nothing had to be shifted.
std::array<double, 3> origin_of(const ModelInput& input) {
  if (!input.range) return {};
  return {(*input.range)[0], (*input.range)[1], (*input.range)[2]};
}

// The executors of the devices asked for. A frame goes to the one with the fewest in flight.
class Executors {
 public:
  Executors(const Plan& plan, const EngineOptions& options, const ExecutorOptions& of_each) {
    for (const base::Device device : parse_devices(options.device)) {
      ExecutorOptions own = of_each;
      own.device = device;
      executors_.push_back(make_executor(plan, own));
    }
    in_flight_ = std::vector<std::atomic<int>>(executors_.size());
  }
  // use(executor)
  template <class Use>
  void with_one(const Use& use) {
    std::size_t chosen = 0;
    for (std::size_t i = 1; i < executors_.size(); ++i) {
      if (in_flight_[i].load() < in_flight_[chosen].load()) chosen = i;
    }
    struct Flight {
      std::atomic<int>& count;
      explicit Flight(std::atomic<int>& c) : count(c) { ++count; }
      ~Flight() { --count; }
    } const flight(in_flight_[chosen]);
    use(*executors_[chosen]);
  }

 private:
  std::vector<std::unique_ptr<Executor>> executors_;
  std::vector<std::atomic<int>> in_flight_;
};

// The output that Result::label_output() would take, or -1.
int label_output_of(const Plan& plan, const Model& model) {
  const auto classes = static_cast<std::int64_t>(model.classes.size());
  for (std::size_t i = 0; i < plan.outputs.size() && classes > 0 && classes < kNoClass; ++i) {
    const PlanOutput& output = plan.outputs[i];
    const bool is_on_input =
        output.level == 0 ||
        plan.levels[static_cast<std::size_t>(output.level)].kind == Level::Kind::points;
    if (!output.is_dense && is_on_input && output.channels == classes) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

struct Engine::Impl {
  Impl(Model m, const EngineOptions& options)
      : model((validate(m), std::move(m))),
        plan(make_plan(model)),
        threads(options.threads),
        memory(std::make_shared<base::BlockCache>()),
        executors(plan, options,
                  {.dtype = base::parse_dtype(options.dtype),
                   .calibration = std::make_shared<Calibration>(),
                   .cache_maps = options.cache_maps,
                   .voxelize = voxelize_options(model.input),
                   .label_output = options.labels_only ? label_output_of(plan, model) : -1,
                   .row_bound = options.row_bound,
                   .memory_limit = options.memory_limit,
                   .memory = memory}) {
    forget_weights();
  }

  // The executors have their own, in the order in which they read them.
  void forget_weights() {
    for (PlanStep& step : plan.steps) step.weight = {};
    for (Node& node : model.nodes) node.weights.clear();
  }

  Model model;
  Plan plan;
  base::Threads threads;
  base::BlockCachePtr memory;
  mutable Executors executors;

  std::vector<Result> run_clouds(std::span<const io::Cloud* const> clouds) const;
  void run_voxelized(const Executor& executor, std::span<const io::Cloud* const> clouds,
                     FrameOutput& whole, CloudVoxels& made) const;
  Result run_voxels(SparseTensor input) const;
  VoxelizeOptions frame_options() const;
  base::Buffer<std::array<double, 3>> positions(std::span<const io::Cloud* const> clouds,
                                                const Voxels& voxels) const;
};

// Where points lie among the cells of the input, in centre coordinates.
base::Buffer<std::array<double, 3>> Engine::Impl::positions(
    std::span<const io::Cloud* const> clouds, const Voxels& voxels) const {
  base::Buffer<std::array<double, 3>> result(memory);
  result.reserve(static_cast<std::size_t>(voxels.points));
  for (std::size_t c = 0; c < clouds.size(); ++c) {
    const auto& origin = voxels.origins[c];
    for (std::int64_t i = 0; i < clouds[c]->size(); ++i) {
      auto position = clouds[c]->position(i);
      for (std::size_t axis = 0; axis < 3; ++axis) {
        position[axis] = (position[axis] - origin[axis]) / voxels.voxel_size[axis] - 0.5;
      }
      result.push_back(position);
    }
  }
  return result;
}

VoxelizeOptions Engine::Impl::frame_options() const {
  VoxelizeOptions options = voxelize_options(model.input);
  options.cache = memory;
  return options;
}

// Voxelises on the host, then runs.
void Engine::Impl::run_voxelized(const Executor& executor, std::span<const io::Cloud* const> clouds,
                                 FrameOutput& whole, CloudVoxels& made) const {
  const auto start = Clock::now();
  Voxels voxels = voxelize(clouds, frame_options());
  FrameInput frame{
      .voxels = voxels.tensor, .has_points = true, .point_rows = voxels.point_to_voxel};
  base::Buffer<std::array<double, 3>> where(memory);
  if (plan.needs_positions) where = positions(clouds, voxels);
  frame.point_positions = where;
  whole = {};
  whole.timing.voxelize = milliseconds_since(start);
  executor.run(frame, whole);
  made = {.coordinates = voxels.tensor.coordinates, .warnings = std::move(voxels.warnings)};
  for (std::int32_t c = 0; c < static_cast<std::int32_t>(clouds.size()); ++c) {
    const RowRange points = points_of_cloud(clouds, c);
    made.rows_of_cloud.push_back(rows_of_batch(*made.coordinates, c).size());
    made.dropped_of_cloud.push_back(std::count(voxels.point_to_voxel.begin() + points.begin,
                                               voxels.point_to_voxel.begin() + points.end, -1));
  }
  made.point_to_voxel = std::move(voxels.point_to_voxel);
  made.origins = std::move(voxels.origins);
}

std::vector<Result> Engine::Impl::run_clouds(std::span<const io::Cloud* const> clouds) const {
  ENSURE(clouds.size() <= static_cast<std::size_t>(kBatchMax), "engine: a batch of ", clouds.size(),
         " clouds, at most ", kBatchMax);
  if (clouds.empty()) return {};
  const auto start = Clock::now();
  FrameOutput whole;
  CloudVoxels voxels;
  executors.with_one([&](const Executor& executor) {
    if (!executor.run_clouds(clouds, whole, voxels)) run_voxelized(executor, clouds, whole, voxels);
  });

  std::vector<Result> results;
  std::int64_t first_row = 0;
  for (std::int32_t batch = 0; batch < static_cast<std::int32_t>(clouds.size()); ++batch) {
    const auto b = static_cast<std::size_t>(batch);
    const RowRange points = points_of_cloud(clouds, batch);
    Result result;
    if (clouds.size() == 1) {
      result.outputs = std::move(whole.outputs);
      result.row_classes = std::move(whole.classes);
      result.point_to_voxel = std::move(voxels.point_to_voxel);
    } else {
      for (const Output& output : whole.outputs) {
        result.outputs.push_back(output_of_batch(output, batch, points, memory));
      }
      if (whole.classes) {
        result.row_classes.emplace(whole.classes->begin() + points.begin,
                                   whole.classes->begin() + points.end);
      }
      if (!voxels.point_to_voxel.empty()) {
        const auto first = voxels.point_to_voxel.begin();
        result.point_to_voxel = {first + points.begin, first + points.end, memory};
      }
    }
    result.classes = model.classes;
    result.class_ids = model.class_ids;
    result.has_points = true;
    result.points = points.size();
    result.voxels = voxels.rows_of_cloud[b];
    result.dropped = voxels.dropped_of_cloud[b];
    result.voxel_size = model.input.voxel_size;
    result.origin = voxels.origins.empty() ? origin_of(model.input) : voxels.origins[b];
    for (auto& row : result.point_to_voxel) row -= row < 0 ? 0 : first_row;
    first_row += result.voxels;
    result.warnings = warnings_of_cloud(voxels.warnings, b, clouds.size());
    if (batch == 0) {
      result.warnings.insert(result.warnings.end(), whole.warnings.begin(), whole.warnings.end());
    }
    result.memory = whole.memory;
    result.timing = whole.timing;
    results.push_back(std::move(result));
  }
  const double total = milliseconds_since(start);
  for (Result& result : results) result.timing.total = total;
  return results;
}

Result Engine::Impl::run_voxels(SparseTensor input) const {
  const auto start = Clock::now();
  ENSURE(input.coordinates != nullptr, "engine: the input has no coordinates");
  input.check("engine");
  ENSURE(input.channels() == model.in_channels(), "the input has ", input.channels(),
         " channels, the model takes ", model.in_channels(), " (", joined(model.input.features),
         ")");
  Result result;
  const std::string warning = clear_non_finite(input.features);
  if (!warning.empty()) result.warnings.push_back(warning);
  FrameInput frame{.voxels = within_shape(input, model.input.spatial_shape)};
  FrameOutput whole;
  executors.with_one([&](const Executor& executor) { executor.run(frame, whole); });
  result.outputs = std::move(whole.outputs);
  result.row_classes = std::move(whole.classes);
  result.warnings.insert(result.warnings.end(), whole.warnings.begin(), whole.warnings.end());
  result.classes = model.classes;
  result.class_ids = model.class_ids;
  result.points = result.voxels = input.rows();
  result.timing = whole.timing;
  result.memory = whole.memory;
  result.timing.total = milliseconds_since(start);
  return result;
}

Engine::Engine(Model model, const EngineOptions& options)
    : impl_(std::make_unique<Impl>(std::move(model), options)) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;

const Model& Engine::model() const { return impl_->model; }

std::vector<Result> Engine::run(std::span<const io::Cloud* const> clouds) const {
  std::vector<Result> results;
  impl_->threads.run([&] { results = impl_->run_clouds(clouds); });
  return results;
}

Result Engine::run(const io::Cloud& cloud) const {
  const io::Cloud* const clouds[] = {&cloud};
  return std::move(run(clouds)[0]);
}

Result Engine::run(const SparseTensor& input) const {
  Result result;
  impl_->threads.run([&] { result = impl_->run_voxels(input); });
  return result;
}

Result Engine::run(const VoxelFile& file) const {
  Result result = run(file.tensor);
  const ModelInput& wanted = impl_->model.input;
  if (!file.feature_names.empty() && file.feature_names != wanted.features) {
    result.warnings.push_back("features are '" + joined(file.feature_names) +
                              "', the model was made for '" + joined(wanted.features) + "'");
  }
  result.point_to_voxel = file.point_to_voxel;
  result.origin = file.origin;
  result.voxel_size = file.voxel_size;
  return result;
}

std::vector<Engine::StepTime> Engine::profile(const SparseTensor& input) const {
  std::vector<StepTime> steps;
  impl_->threads.run([&] {
    FrameOutput output;
    auto last = Clock::now();
    output.after_step = [&](std::size_t index) {
      steps.push_back({impl_->plan.steps[index].node, milliseconds_since(last)});
      last = Clock::now();
    };
    const FrameInput frame{.voxels = within_shape(input, impl_->model.input.spatial_shape)};
    impl_->executors.with_one([&](const Executor& executor) { executor.run(frame, output); });
    if (!steps.empty())
      steps[0].milliseconds = std::max(0.0, steps[0].milliseconds - output.timing.maps);
  });
  return steps;
}

}  // namespace sparseconv
