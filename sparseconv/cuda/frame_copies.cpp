// Copies of FrameRunner: a frame's values to the device, results from it.
#include <algorithm>
#include <cstring>

#include "gemm_core/base/parallel.hpp"
#include "sparseconv/cuda/frame_runner.hpp"
#include "sparseconv/cuda/room.hpp"
#include "sparseconv/voxel_grid.hpp"

namespace sparseconv::cuda {
namespace {

template <class T>
void send(T* to, const base::cuda::PinnedBuffer<T>& from, std::int64_t count, cudaStream_t stream) {
  if (count <= 0) return;
  CUDA_CHECK(
      cudaMemcpyAsync(to, from.data(), at(count) * sizeof(T), cudaMemcpyHostToDevice, stream));
}

template <class T>
void fetch(base::cuda::PinnedBuffer<T>& to, std::size_t first, const T* from, std::int64_t count,
           cudaStream_t stream) {
  if (count <= 0) return;
  CUDA_CHECK(cudaMemcpyAsync(to.data() + first, from, at(count) * sizeof(T), cudaMemcpyDeviceToHost,
                             stream));
}

// By several threads: a dense map is tens of MB.
void copy_values(base::Tensor& to, const base::cuda::PinnedBuffer<float>& from) {
  constexpr std::int64_t kAtOnce = std::int64_t{1} << 18;
  if (to.numel() == 0) return;
  float* const values = to.data<float>();
  base::parallel_blocks(to.numel(), kAtOnce, [&](std::int64_t begin, std::int64_t end) {
    std::copy(from.data() + begin, from.data() + end, values + begin);
  });
}

}  // namespace

void FrameRunner::copy_in(const FrameInput& input) {
  const cudaStream_t stream = stream_.get();
  const std::int64_t rows = input.voxels.rows(), points = input.points();
  const base::Tensor& features = input.voxels.features;
  if (features.nbytes() > 0) {
    std::memcpy(host_features_.data(), features.data(), at(features.nbytes()));
    send(features_.data(), host_features_, features.nbytes(), stream);
  }
  const auto keys = input.voxels.coordinates->keys();
  std::copy(keys.begin(), keys.end(), host_keys_.data());
  send(maps_->input_keys(), host_keys_, rows, stream);
  if (row_keys_.size() > 0) send(row_keys_.data(), host_keys_, rows, stream);
  host_sizes_.data()[0] = static_cast<std::int32_t>(rows);
  host_sizes_.data()[1] = static_cast<std::int32_t>(points);
  send(sizes_.data(), host_sizes_, 2, stream);
  if (!input.has_points) return;
  std::transform(input.point_rows.begin(), input.point_rows.end(), host_point_rows_.data(),
                 [](std::int64_t row) { return static_cast<std::int32_t>(row); });
  send(point_rows_.data(), host_point_rows_, points, stream);
  if (!plan_.needs_positions) return;
  const auto* positions = reinterpret_cast<const double*>(input.point_positions.data());
  std::copy(positions, positions + 3 * points, host_positions_.data());
  send(positions_.data(), host_positions_, 3 * points, stream);
}

std::int64_t FrameRunner::label_rows(const FrameFacts& facts) const {
  return facts.has_points ? facts.points : facts.rows;
}

void FrameRunner::copy_out(const FrameFacts& facts) {
  const cudaStream_t stream = stream_.get();
  for (std::size_t i = 0; i < plan_.outputs.size() && !gives_labels(); ++i) {
    const PlanOutput& planned = plan_.outputs[i];
    OutputMemory& memory = outputs_[i];
    auto count = static_cast<std::int64_t>(memory.device.size());
    if (!planned.is_dense) {
      const Level::Kind kind = plan_.levels[at(planned.level)].kind;
      const std::int64_t rows = kind == Level::Kind::input    ? facts.rows
                                : kind == Level::Kind::points ? facts.points
                                                              : shape_.rows[at(planned.level)];
      count = rows * planned.channels;
    }
    fetch(memory.host, 0, memory.device.data(), count, stream);
    if (memory.keys.size() > 0) {
      fetch(memory.keys, 0, maps_->keys(device_plan_.set_of_level[at(planned.level)]),
            static_cast<std::int64_t>(memory.keys.size()), stream);
    }
  }
  if (gives_labels()) fetch(host_classes_, 0, classes_.data(), label_rows(facts), stream);
  if (shape_.is_cloud && shape_.batch_size > 1)
    fetch(host_batch_rows_, 0, batch_rows_.data(), shape_.batch_size, stream);
  if (shape_.is_cloud && !gives_labels()) {
    fetch(host_keys_, 0, maps_->keys(0), facts.rows, stream);
    fetch(host_point_rows_, 0, voxelizer_->point_to_voxel(), facts.points, stream);
  } else if (shape_.is_cloud && shape_.batch_size > 1) {
    fetch(host_point_rows_, 0, voxelizer_->point_to_voxel(), facts.points, stream);
  }
  const std::size_t of_maps = maps_->status_size(), of_checks = plan_.checks.size();
  fetch(host_status_, 0, maps_->status(), static_cast<std::int64_t>(of_maps), stream);
  fetch(host_status_, of_maps, mismatches_.data(), static_cast<std::int64_t>(of_checks), stream);
  if (shape_.is_cloud) {
    fetch(host_status_, of_maps + of_checks, voxelizer_->status(),
          static_cast<std::int64_t>(voxelizer_->status_size()), stream);
  }
}

void FrameRunner::collect(const FrameFacts& facts, const FrameMaps::Sizes& sizes,
                          FrameOutput& output) const {
  output.outputs.clear();
  if (gives_labels()) {
    const std::uint16_t* classes = host_classes_.data();
    output.classes.emplace(classes, classes + label_rows(facts));
    return;
  }
  for (std::size_t i = 0; i < plan_.outputs.size(); ++i)
    output.outputs.push_back(collect_output(i, facts, sizes));
}

Output FrameRunner::collect_output(std::size_t index, const FrameFacts& facts,
                                   const FrameMaps::Sizes& sizes) const {
  const PlanOutput& planned = plan_.outputs[index];
  const OutputMemory& memory = outputs_[index];
  Output out;
  out.node = planned.node;
  if (planned.is_dense) {
    const auto [width, height, depth] = *shape_of_level(planned.level);
    const std::int64_t cells = depth * height * width * shape_.batch_size;
    const std::int64_t channels =
        cells == 0 ? planned.channels : static_cast<std::int64_t>(memory.host.size()) / cells;
    out.dense = base::Tensor::empty({shape_.batch_size, channels * depth, height, width},
                                    base::DType::f32, results_);
    copy_values(out.dense, memory.host);
    return out;
  }
  const Level::Kind kind = plan_.levels[at(planned.level)].kind;
  out.per_point = kind == Level::Kind::points;
  out.on_input = planned.level == 0;
  const int set = device_plan_.set_of_level[at(planned.level)];
  const std::int64_t rows = out.per_point ? facts.points : sizes.rows[at(set)];
  out.sparse.features = base::Tensor::empty({rows, planned.channels}, base::DType::f32, results_);
  copy_values(out.sparse.features, memory.host);
  if (out.on_input) {
    out.sparse.coordinates = facts.coordinates;
  } else if (!out.per_point) {
    out.sparse.coordinates = Coordinates::from_sorted_keys(
        {memory.keys.data(), memory.keys.data() + rows},
        {.batch_size = shape_.batch_size, .spatial_shape = shape_of_level(planned.level)});
  }
  return out;
}

void FrameRunner::collect_voxels(std::span<const io::Cloud* const> clouds,
                                 const DeviceVoxelizer::Outcome& outcome,
                                 CloudVoxels& voxels) const {
  voxels = {};
  const std::int32_t* rows = host_point_rows_.data();
  const bool has_rows = !gives_labels() || clouds.size() > 1;
  for (std::size_t c = 0; c < clouds.size(); ++c) {
    const std::int64_t points = clouds[c]->size();
    voxels.rows_of_cloud.push_back(clouds.size() > 1 ? host_batch_rows_.data()[c] : outcome.voxels);
    voxels.dropped_of_cloud.push_back(has_rows ? std::count(rows, rows + points, -1)
                                               : outcome.non_finite + outcome.out_of_range);
    if (!gives_labels())
      voxels.point_to_voxel.insert(voxels.point_to_voxel.end(), rows, rows + points);
    rows += points;
  }
  if (clouds.size() == 1) {
    voxels.warnings = sparseconv::detail::cell_warnings(
        *clouds[0], {.non_finite = outcome.non_finite,
                     .outside = outcome.out_of_range,
                     .kept = clouds[0]->size() - outcome.non_finite - outcome.out_of_range});
    for (std::size_t f = 0; f < outcome.replaced.size(); ++f) {
      if (outcome.replaced[f] == 0) continue;
      voxels.warnings.push_back(sparseconv::detail::replaced_warning(
          outcome.replaced[f], device_plan_.voxelize->features[f]));
    }
  }
  if (gives_labels()) return;
  voxels.coordinates = Coordinates::from_sorted_keys(
      {host_keys_.data(), host_keys_.data() + outcome.voxels},
      {.batch_size = shape_.batch_size, .spatial_shape = shape_.spatial_shape});
}

}  // namespace sparseconv::cuda
