#include "sparseconv/cuda/frame_runner.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "sparseconv/cuda/room.hpp"

namespace sparseconv::cuda {

FrameRunner::FrameRunner(const DevicePlan& device_plan)
    : device_plan_(device_plan),
      plan_(device_plan.plan),
      bytes_plan_(device_plan.in_bytes()),
      stream_(base::cuda::Stream::create()),
      begin_(base::cuda::Event::create()),
      after_maps_(base::cuda::Event::create()),
      after_network_(base::cuda::Event::create()),
      tables_(device_plan.device) {}

void FrameRunner::run(const FrameInput& input, FrameOutput& output) {
  const Coordinates& coordinates = *input.voxels.coordinates;
  const FrameFacts facts{.rows = input.voxels.rows(),
                         .points = input.points(),
                         .batch_size = coordinates.batch_size(),
                         .spatial_shape = coordinates.spatial_shape(),
                         .coordinates = input.voxels.coordinates,
                         .has_points = input.has_points,
                         .features = input.voxels.features.dtype()};
  const auto sizes = run_frame(
      facts, [&] { copy_in(input); }, output);
  collect(facts, sizes, output);
  if (device_plan_.caches_maps) cached_ = facts.coordinates;
}

bool FrameRunner::run_clouds(std::span<const io::Cloud* const> clouds, FrameOutput& output,
                             CloudVoxels& voxels) {
  using Clock = std::chrono::steady_clock;
  FrameFacts facts{.batch_size = static_cast<std::int32_t>(clouds.size()),
                   .spatial_shape = device_plan_.voxelize->spatial_shape,
                   .coordinates = nullptr,
                   .has_points = true};
  for (const io::Cloud* cloud : clouds) facts.points += cloud->size();
  facts.rows = facts.points;
  const auto start = Clock::now();
  const auto sizes = run_frame(
      facts,
      [&] {
        voxelizer_->upload(clouds, stream_.get());
        output.timing.voxelize =
            std::chrono::duration<double, std::milli>(Clock::now() - start).count();
      },
      output);
  const auto outcome =
      voxelizer_->check({host_status_.data() + maps_->status_size() + plan_.checks.size(),
                         voxelizer_->status_size()});
  const bool has_replaced =
      std::any_of(outcome.replaced.begin(), outcome.replaced.end(), [](auto n) { return n > 0; });
  if (outcome.misfits > 0 || outcome.has_overflow) return false;
  if (clouds.size() > 1) {
    // What is counted for all clouds together cannot be said of each.
    const std::int32_t* const rows = host_batch_rows_.data();
    const bool has_empty = std::count(rows, rows + clouds.size(), 0) > 0;
    if (outcome.non_finite > 0 || has_replaced || has_empty) return false;
  }
  collect_voxels(clouds, outcome, voxels);
  facts.rows = outcome.voxels;
  facts.coordinates = voxels.coordinates;
  collect(facts, sizes, output);
  return true;
}

FrameMaps::Sizes FrameRunner::run_frame(const FrameFacts& facts,
                                        const std::function<void()>& upload, FrameOutput& output) {
  const FrameShape wanted = shape_for(facts);
  if (!is_prepared_for(wanted)) {
    prepare(wanted);
  } else if (is_roomy_) {
    tighten();
  }
  // A level that outgrew its bound shows at the end of the frame only; then the frame runs again
  // with larger bounds. What derives from that level may turn out larger still.
  for (;;) {
    output.warnings.clear();
    upload();
    FrameMaps::Sizes sizes = enqueue(facts, output);
    if (!sizes.exceeds) {
      learn(sizes);
      return sizes;
    }
    FrameShape larger = shape_;
    for (std::size_t set = 0; set < sizes.rows.size(); ++set) {
      std::int64_t& rows = larger.rows[at(device_plan_.levels_of_sets[set])];
      if (sizes.rows[set] > rows) rows = with_room(sizes.rows[set]);
    }
    prepare(larger);
  }
}

FrameMaps::Sizes FrameRunner::enqueue(const FrameFacts& facts, FrameOutput& output) {
  const auto coordinates = std::exchange(cached_, nullptr);
  const bool has_maps = coordinates != nullptr && coordinates == facts.coordinates;
  if (has_maps && !output.after_step) {
    if (!network_) {
      network_ = base::cuda::Graph::capture(stream_.get(), [&] {
        launch_input(stream_.get());
        for (const Launch& step : steps_) step(stream_.get());
        launch_outputs(stream_.get());
      });
    }
    begin_.record(stream_.get());
    after_maps_.record(stream_.get());
    network_.launch(stream_.get());
    after_network_.record(stream_.get());
  } else {
    launch_frame(facts, output);
  }
  copy_out(facts);
  stream_.synchronize();

  const std::size_t status_size = maps_->status_size();
  const FrameMaps::Sizes sizes = maps_->check({host_status_.data(), status_size});
  if (sizes.exceeds) return sizes;
  for (std::size_t i = 0; i < plan_.checks.size(); ++i) {
    const std::int32_t mismatch = host_status_.data()[status_size + i];
    if (mismatch == 0) continue;
    const auto rows = [&](int level) {
      return sizes.rows[at(device_plan_.set_of_level[at(level)])];
    };
    const LevelCheck& check = plan_.checks[i];
    const std::string where =
        rows(check.first) != rows(check.second)
            ? base::concat(rows(check.first), " and ", rows(check.second), " rows")
            : base::concat("they differ from row ", 0x7fffffff - mismatch);
    base::fail("node '", check.node, "': its inputs stand on different coordinates: ", where);
  }
  output.timing.maps = base::cuda::elapsed_ms(begin_, after_maps_);
  output.timing.network = base::cuda::elapsed_ms(after_maps_, after_network_);
  output.memory = {.weights = device_plan_.weight_bytes(),
                   .maps = maps_->nbytes() + (voxelizer_ ? voxelizer_->nbytes() : 0),
                   .activations = static_cast<std::int64_t>(arena_.nbytes()),
                   .largest_two_tensors = placement_.largest_two,
                   .device = base::cuda::memory_use(device_plan_.device).peak};
  return sizes;
}

// One graph; where each step is to be timed, or the frame is larger than the graphs that were
// asked for, one launch after the other.
void FrameRunner::launch_frame(const FrameFacts& facts, FrameOutput& output) {
  const cudaStream_t stream = stream_.get();
  if (shape_.is_captured && !output.after_step) {
    frame_.launch(stream);
    return;
  }
  if (!shape_.is_captured) {
    output.warnings.push_back(base::concat(facts.rows,
                                           facts.coordinates == nullptr ? " points" : " voxels",
                                           " are more than the bound of ", device_plan_.row_bound,
                                           " rows of the captured frame: run without it"));
  }
  begin_.record(stream);
  launch_maps(stream);
  after_maps_.record(stream);
  launch_input(stream);
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    steps_[s](stream);
    if (!output.after_step) continue;
    stream_.synchronize();
    output.after_step(s);
  }
  launch_outputs(stream);
  after_network_.record(stream);
}

void FrameRunner::launch_maps(cudaStream_t stream) {
  if (shape_.is_cloud) voxelizer_->build(shape_.batch_size, stream);
  maps_->build({.keys = nullptr,
                .rows = shape_.rows[0],
                .device_rows = shape_.is_cloud ? voxelizer_->row_count() : sizes_.data(),
                .batch_size = shape_.batch_size,
                .spatial_shape = shape_.spatial_shape},
               stream,
               [&] { return tables_.build([this](int level) { return rows_of(level); }, stream); });
}

void FrameRunner::launch_input(cudaStream_t stream) {
  if (plan_.input.buffer < 0) return;
  const base::Dims shape{shape_.rows[0], plan_.input.channels};
  const base::Device device{base::Device::Kind::cuda, device_plan_.device};
  const void* features = features_.data();
  if (shape_.is_cloud) features = voxelizer_->features();
  elementwise({features, shape_.features, device, shape, base::row_major_strides(shape)}, {},
              destination(plan_.input), rows_of(0), stream);
}

// Values as fp32, or classes, where copies out find them; checks.
void FrameRunner::launch_outputs(cudaStream_t stream) {
  for (std::size_t i = 0; i < plan_.outputs.size() && !gives_labels(); ++i) {
    const PlanOutput& planned = plan_.outputs[i];
    if (planned.is_dense) continue;
    const base::Dims shape{shape_.rows[at(planned.level)], planned.channels};
    const base::TensorView to{outputs_[i].device.data(),
                              base::DType::f32,
                              {base::Device::Kind::cuda, device_plan_.device},
                              shape,
                              base::row_major_strides(shape)};
    elementwise(constant(view(planned.value)), {}, {to, false}, rows_of(planned.level), stream);
  }
  if (gives_labels()) {
    const PlanOutput& scores = plan_.outputs[at(device_plan_.label_output)];
    label_points({.scores = constant(view(scores.value)),
                  .points = point_rows(),
                  .by_point = plan_.levels[at(scores.level)].kind == Level::Kind::points},
                 classes_.data(), stream);
  }
  if (shape_.is_cloud && shape_.batch_size > 1)
    count_batch_rows(level_view(0), shape_.batch_size, batch_rows_.data(), stream);
  if (plan_.checks.empty()) return;
  CUDA_CHECK(cudaMemsetAsync(mismatches_.data(), 0, mismatches_.nbytes(), stream));
  for (std::size_t i = 0; i < plan_.checks.size(); ++i) {
    compare_levels(level_view(plan_.checks[i].first), level_view(plan_.checks[i].second),
                   mismatches_.data() + i, stream);
  }
}

FrameShape FrameRunner::shape_for(const FrameFacts& facts) const {
  FrameShape shape;
  shape.batch_size = facts.batch_size;
  shape.spatial_shape = facts.spatial_shape;
  shape.is_sorted = facts.coordinates == nullptr || facts.coordinates->is_sorted();
  shape.has_points = facts.has_points;
  shape.is_cloud = facts.coordinates == nullptr;
  shape.features = facts.features;
  shape.points = with_room(facts.points);
  const std::int64_t bound = device_plan_.row_bound;
  shape.is_captured = bound == 0 || facts.rows <= bound;
  const bool has_bound = bound > 0 && shape.is_captured;
  const std::int64_t rows = has_bound ? bound : with_room(facts.rows);
  if (has_bound) shape.points = std::max(shape.points, bound);
  shape.rows = bounds_(rows, facts.has_points ? shape.points : rows, shape.batch_size);
  return shape;
}

// Where the bounds turn out to be far above what frames need, the next frame prepares anew: memory
// that is cleared, launches and copies out follow the bounds. What was learnt only grows, so this
// happens once for a shape.
void FrameRunner::learn(const FrameMaps::Sizes& sizes) {
  const std::int64_t rows = sizes.rows.front();
  const bool has_bound = device_plan_.row_bound > 0;  // the user's; nothing is prepared anew
  if (rows == 0 || has_bound || !shape_.is_captured) return;
  bounds_.learn(sizes.rows, device_plan_.levels_of_sets);
  const auto sum = [](const std::vector<std::int64_t>& of) {
    return std::accumulate(of.begin(), of.end(), std::int64_t{0});
  };
  is_roomy_ = sum(shape_.rows) > 2 * sum(bounds_(shape_.rows[0], shape_.points, shape_.batch_size));
}

void FrameRunner::tighten() {
  FrameShape tight = shape_;
  tight.rows = bounds_(shape_.rows[0], shape_.points, shape_.batch_size);
  is_prepared_ = false;
  maps_.reset();
  arena_.reset();
  partials_.reset();
  prepare(tight);
}

bool FrameRunner::is_prepared_for(const FrameShape& shape) const {
  const bool is_same_kind =
      is_prepared_ && shape.batch_size == shape_.batch_size &&
      shape.spatial_shape == shape_.spatial_shape && shape.is_sorted == shape_.is_sorted &&
      shape.has_points == shape_.has_points && shape.is_cloud == shape_.is_cloud &&
      shape.features == shape_.features && shape.is_captured == shape_.is_captured;
  // The rows asked for have room to spare, so what is there may be smaller, as long as the frame
  // itself fits.
  return is_same_kind && shape.rows[0] <= shape_.rows[0] &&
         (!shape.has_points || shape.points <= shape_.points);
}

}  // namespace sparseconv::cuda
