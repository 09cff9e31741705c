#include "sparseconv/cuda/frame_runner.hpp"

#include <algorithm>
#include <cstring>

namespace sparseconv::cuda {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

base::ConstTensorView constant(const base::TensorView& v) {
  return {v.data, v.dtype, v.device, v.shape, v.stride};
}

// Room for frames a little larger than the one that asks, so that few frames prepare anew.
std::int64_t with_room(std::int64_t rows) { return (rows + rows / 4 + 1023) / 1024 * 1024; }

template <class Buffer>
void make_room(Buffer& buffer, std::size_t count) {
  if (buffer.size() >= count) return;
  buffer.reset();
  buffer = Buffer(count);
}

CoordinatesPtr one_row_a_batch_entry(std::int32_t batch_size) {
  std::vector<Key> keys;
  for (std::int32_t b = 0; b < batch_size; ++b) keys.push_back(pack({b, 0, 0, 0}));
  return Coordinates::from_sorted_keys(std::move(keys),
                                       {.batch_size = batch_size, .spatial_shape = std::nullopt});
}

}  // namespace

FrameRunner::FrameRunner(const DevicePlan& device_plan)
    : device_plan_(device_plan),
      plan_(device_plan.plan),
      stream_(base::cuda::Stream::create()),
      begin_(base::cuda::Event::create()),
      after_maps_(base::cuda::Event::create()),
      after_network_(base::cuda::Event::create()) {}

void FrameRunner::run(const FrameInput& input, FrameOutput& output) {
  const FrameShape wanted = shape_for(input);
  if (!is_prepared_for(wanted)) prepare(wanted);
  // A level that outgrew its bound shows at the end of the frame only; then the frame runs again
  // with larger bounds. What derives from that level may turn out larger still.
  for (FrameMaps::Sizes sizes = enqueue(input, output); sizes.exceeds;
       sizes = enqueue(input, output)) {
    FrameShape larger = shape_;
    for (std::size_t set = 0; set < sizes.rows.size(); ++set) {
      std::int64_t& rows = larger.rows[at(device_plan_.levels_of_sets[set])];
      if (sizes.rows[set] > rows) rows = with_room(sizes.rows[set]);
    }
    prepare(larger);
  }
}

FrameMaps::Sizes FrameRunner::enqueue(const FrameInput& input, FrameOutput& output) {
  const cudaStream_t stream = stream_.get();
  copy_in(input);
  begin_.record(stream);
  maps_->build({.keys = host_keys_.data(),
                .rows = input.voxels.rows(),
                .device_rows = nullptr,
                .batch_size = shape_.batch_size,
                .spatial_shape = shape_.spatial_shape},
               stream);
  for (const auto& [level, table] : identities_) fill_identity(table, rows_of(level), stream);
  gemm_core::cuda::build_tile_schedules(schedule_jobs_, stream);
  after_maps_.record(stream);

  const base::Dims shape{input.voxels.rows(), plan_.input.channels};
  const base::Device device{base::Device::Kind::cuda, device_plan_.device};
  elementwise({features_.data(), input.voxels.features.dtype(), device, shape,
               base::row_major_strides(shape)},
              {}, destination(plan_.input), {nullptr, input.voxels.rows()}, stream);
  if (!output.after_step) {
    network_.launch(stream);
  } else {
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      steps_[s](stream);
      stream_.synchronize();
      output.after_step(s);
    }
  }
  after_network_.record(stream);
  copy_out(input.voxels.rows(), input.points());
  stream_.synchronize();

  const std::size_t status_size = maps_->status_size();
  const FrameMaps::Sizes sizes = maps_->check({host_status_.data(), status_size});
  if (sizes.exceeds) return sizes;
  for (std::size_t i = 0; i < plan_.checks.size(); ++i) {
    ENSURE(host_status_.data()[status_size + i] == 0, "node '", plan_.checks[i].node,
           "': its inputs stand on different coordinates");
  }
  collect(input, sizes, output);
  output.timing.maps = base::cuda::elapsed_ms(begin_, after_maps_);
  output.timing.network = base::cuda::elapsed_ms(after_maps_, after_network_);
  output.memory = {device_plan_.weight_bytes(), maps_->nbytes(),
                   static_cast<std::int64_t>(arena_.nbytes()), placement_.largest_two, 0};
  return sizes;
}

void FrameRunner::copy_in(const FrameInput& input) {
  const cudaStream_t stream = stream_.get();
  const std::int64_t rows = input.voxels.rows();
  const base::Tensor& features = input.voxels.features;
  const auto bytes = at(features.nbytes());
  make_room(host_features_, bytes);
  make_room(features_, bytes);
  make_room(host_keys_, at(rows));
  if (bytes > 0) {
    std::memcpy(host_features_.data(), features.data(), bytes);
    CUDA_CHECK(cudaMemcpyAsync(features_.data(), host_features_.data(), bytes,
                               cudaMemcpyHostToDevice, stream));
  }
  const auto keys = input.voxels.coordinates->keys();
  std::copy(keys.begin(), keys.end(), host_keys_.data());
  if (plan_.needs_points) {
    // Rows that the bound has beyond the frame's points are absent.
    CUDA_CHECK(cudaMemsetAsync(point_rows_.data(), 0xff, point_rows_.nbytes(), stream));
    std::vector<std::int64_t> own(input.has_points ? 0 : at(rows));
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = static_cast<std::int64_t>(i);
    const std::int64_t* from = input.has_points ? input.point_rows.data() : own.data();
    if (input.points() > 0) {
      // From pageable memory: the call returns when the values have been taken.
      CUDA_CHECK(cudaMemcpyAsync(point_rows_.data(), from,
                                 at(input.points()) * sizeof(std::int64_t), cudaMemcpyHostToDevice,
                                 stream));
    }
  }
  make_room(host_status_, maps_->status_size() + plan_.checks.size());
  make_room(mismatches_, plan_.checks.size());
}

void FrameRunner::copy_out(std::int64_t input_rows, std::int64_t points) {
  const cudaStream_t stream = stream_.get();
  for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
    const PlanOutput& planned = plan_.outputs[i];
    OutputMemory& memory = outputs_[i];
    std::size_t count = memory.device.size();
    if (!planned.is_dense) {
      const Level::Kind kind = plan_.levels[at(planned.level)].kind;
      const std::int64_t bound = kind == Level::Kind::input    ? input_rows
                                 : kind == Level::Kind::points ? points
                                                               : shape_.rows[at(planned.level)];
      count = at(bound * planned.channels);
      const base::Dims shape{bound, planned.channels};
      const base::TensorView to{memory.device.data(),
                                base::DType::f32,
                                {base::Device::Kind::cuda, device_plan_.device},
                                shape,
                                base::row_major_strides(shape)};
      RowCount rows = rows_of(planned.level);
      rows.bound = bound;
      elementwise(constant(view(planned.value)), {}, {to, false}, rows, stream);
      if (memory.keys.size() > 0) {
        CUDA_CHECK(cudaMemcpyAsync(memory.keys.data(),
                                   maps_->keys(device_plan_.set_of_level[at(planned.level)]),
                                   memory.keys.nbytes(), cudaMemcpyDeviceToHost, stream));
      }
    }
    if (count > 0) download(memory.host.data(), memory.device, count, stream);
  }
  if (!plan_.checks.empty()) {
    CUDA_CHECK(cudaMemsetAsync(mismatches_.data(), 0, mismatches_.nbytes(), stream));
    for (std::size_t i = 0; i < plan_.checks.size(); ++i) {
      compare_levels(level_view(plan_.checks[i].first), level_view(plan_.checks[i].second),
                     mismatches_.data() + i, stream);
    }
    download(host_status_.data() + maps_->status_size(), mismatches_, plan_.checks.size(), stream);
  }
  CUDA_CHECK(cudaMemcpyAsync(host_status_.data(), maps_->status(),
                             maps_->status_size() * sizeof(std::int32_t), cudaMemcpyDeviceToHost,
                             stream));
}

void FrameRunner::collect(const FrameInput& input, const FrameMaps::Sizes& sizes,
                          FrameOutput& output) const {
  output.outputs.assign(plan_.outputs.size(), {});
  for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
    const PlanOutput& planned = plan_.outputs[i];
    const OutputMemory& memory = outputs_[i];
    const Level::Kind kind = plan_.levels[at(planned.level)].kind;
    Output& out = output.outputs[i];
    out.node = planned.node;
    base::Tensor values;
    if (planned.is_dense) {
      const auto [width, height, depth] = *spatial_shape_of(planned.level);
      const std::int64_t cells = depth * height * width * shape_.batch_size;
      const std::int64_t channels =
          cells == 0 ? planned.channels : static_cast<std::int64_t>(memory.host.size()) / cells;
      out.dense = base::Tensor::empty({shape_.batch_size, channels * depth, height, width},
                                      base::DType::f32);
      if (out.dense.numel() > 0)
        std::memcpy(out.dense.data(), memory.host.data(), at(out.dense.nbytes()));
      continue;
    }
    const int set = device_plan_.set_of_level[at(planned.level)];
    const std::int64_t rows = kind == Level::Kind::points ? input.points()
                              : set >= 0                  ? sizes.rows[at(set)]
                                                          : shape_.rows[at(planned.level)];
    out.sparse.features = base::Tensor::empty({rows, planned.channels}, base::DType::f32);
    if (rows > 0)
      std::memcpy(out.sparse.features.data(), memory.host.data(), at(out.sparse.features.nbytes()));
    out.per_point = kind == Level::Kind::points;
    out.on_input = planned.level == 0;
    if (kind == Level::Kind::input) {
      out.sparse.coordinates = input.voxels.coordinates;
    } else if (kind == Level::Kind::global) {
      out.sparse.coordinates = one_row_a_batch_entry(shape_.batch_size);
    } else if (set >= 0) {
      out.sparse.coordinates = Coordinates::from_sorted_keys(
          {memory.keys.data(), memory.keys.data() + rows},
          {.batch_size = shape_.batch_size, .spatial_shape = spatial_shape_of(planned.level)});
    }
  }
}

FrameShape FrameRunner::shape_for(const FrameInput& input) const {
  const Coordinates& coordinates = *input.voxels.coordinates;
  FrameShape shape;
  shape.batch_size = coordinates.batch_size();
  shape.spatial_shape = coordinates.spatial_shape();
  shape.is_sorted = coordinates.is_sorted();
  for (std::size_t i = 0; i < plan_.levels.size(); ++i) {
    const Level& level = plan_.levels[i];
    const std::int64_t source = level.source >= 0 ? shape.rows[at(level.source)] : 0;
    std::int64_t rows = 0;
    switch (level.kind) {
      case Level::Kind::input:
        rows = with_room(input.voxels.rows());
        break;
      case Level::Kind::strided:
        // A cell per input where windows do not overlap; else a guess that most scans stay under.
        rows = level.geometry.kernel == level.geometry.stride ? source : with_room(source * 2);
        break;
      case Level::Kind::generative:
        rows = with_room(source * std::min(level.geometry.taps(), 8));
        break;
      case Level::Kind::global:
        rows = shape.batch_size;
        break;
      case Level::Kind::points:
        rows = with_room(input.points());
        break;
      case Level::Kind::merged:
        break;
    }
    shape.rows.push_back(plan_.is_level_used[i] ? rows : 0);
  }
  return shape;
}

bool FrameRunner::is_prepared_for(const FrameShape& shape) const {
  if (!is_prepared_ || shape.batch_size != shape_.batch_size ||
      shape.spatial_shape != shape_.spatial_shape || shape.is_sorted != shape_.is_sorted) {
    return false;
  }
  // The rows asked for have room to spare, so what is there may be smaller, as long as the frame
  // itself fits.
  for (std::size_t i = 0; i < shape.rows.size(); ++i) {
    const Level::Kind kind = plan_.levels[i].kind;
    const bool is_counted_on_host = kind == Level::Kind::input || kind == Level::Kind::points;
    if (is_counted_on_host && shape.rows[i] > shape_.rows[i]) return false;
  }
  return true;
}

std::optional<SpatialShape> FrameRunner::spatial_shape_of(int level) const {
  const Level& l = plan_.levels[at(level)];
  if (l.kind == Level::Kind::input) return shape_.spatial_shape;
  if (l.kind != Level::Kind::strided && l.kind != Level::Kind::generative) return std::nullopt;
  const auto source = spatial_shape_of(l.source);
  if (!source) return std::nullopt;
  return l.kind == Level::Kind::strided ? l.geometry.coarse_shape(*source)
                                        : l.geometry.fine_shape(*source);
}

}  // namespace sparseconv::cuda
