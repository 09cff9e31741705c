// Preparations of FrameRunner for frames of one shape: maps, memory, launches, the graph.
#include <algorithm>

#include "sparseconv/cuda/frame_runner.hpp"
#include "sparseconv/cuda/room.hpp"

namespace sparseconv::cuda {

using gemm_core::cuda::LayerChoice;
using Kind = PlanStep::Kind;

void FrameRunner::prepare(const FrameShape& shape) {
  is_prepared_ = is_roomy_ = false;
  cached_ = nullptr;
  shape_ = shape;
  frame_.reset();
  network_.reset();
  steps_.clear();
  tables_.clear();
  outputs_.clear();
  const auto choices = choose_layers();
  // Orders of rows follow the size of the batch.
  if (maps_ && maps_batch_size_ != shape_.batch_size) maps_.reset();
  maps_batch_size_ = shape_.batch_size;
  if (!maps_) maps_.emplace(make_spec(choices));
  FrameCapacity capacity;
  for (const int level : device_plan_.levels_of_sets)
    capacity.rows.push_back(shape_.rows[at(level)]);
  capacity.is_input_sorted = shape_.is_sorted;
  maps_->reserve(capacity);
  // What maps have room for is the bound: so they and the steps agree on what exceeds it.
  for (std::size_t set = 0; set < capacity.rows.size(); ++set) {
    shape_.rows[at(device_plan_.levels_of_sets[set])] = maps_->row_capacity(static_cast<int>(set));
  }
  if (shape_.is_cloud) {
    if (!voxelizer_) voxelizer_.emplace(*device_plan_.voxelize);
    voxelizer_->reserve({.points = std::min(shape_.points, maps_->row_capacity(0)),
                         .clouds = shape_.batch_size,
                         .keys = maps_->input_keys(),
                         .has_positions = plan_.needs_positions});
  }
  prepare_memory(choices);
  prepare_outputs();
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    try {
      steps_.push_back(prepare_step(s, choices[s]));
      if (device_plan_.measures) steps_.back() = measured(s, std::move(steps_.back()));
    } catch (const base::cuda::OutOfMemory&) {
      throw;
    } catch (const base::Error& error) {
      base::fail("node '", plan_.steps[s].node, "': ", error.what());
    }
  }
  if (shape_.is_captured) {
    frame_ = base::cuda::Graph::capture(stream_.get(), [&] {
      const cudaStream_t stream = stream_.get();
      begin_.record_in_graph(stream);
      launch_maps(stream);
      after_maps_.record_in_graph(stream);
      launch_input(stream);
      for (const Launch& step : steps_) step(stream);
      launch_outputs(stream);
      after_network_.record_in_graph(stream);
    });
  }
  is_prepared_ = true;
}

void FrameRunner::prepare_memory(const std::vector<LayerChoice>& choices) {
  place_buffers(bytes_plan_, shape_.rows, 1, placement_);
  make_room(arena_, at(placement_.bytes));
  const std::int64_t rows = shape_.rows[0];
  if (device_plan_.padded_input > 0) {
    const auto bytes = at(rows * device_plan_.padded_input * base::bytes(device_plan_.storage));
    make_room(padded_input_, bytes);
    if (bytes > 0) CUDA_CHECK(cudaMemsetAsync(padded_input_.data(), 0, bytes, stream_.get()));
  }
  std::int64_t partial_floats = 0;
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    const PlanStep& step = plan_.steps[s];
    if (choices[s].instance == nullptr || !choices[s].planes) continue;
    partial_floats =
        std::max(partial_floats, gemm_core::cuda::partial_floats(*choices[s].instance,
                                                                 shape_.rows[at(step.output_level)],
                                                                 device_plan_.weights[s].cout));
  }
  make_room(partials_, at(partial_floats));
  make_room(host_keys_, at(rows));
  make_room(sizes_, 2);
  make_room(host_sizes_, 2);
  if (!shape_.is_cloud) {
    const auto bytes = at(rows * plan_.input.channels * base::bytes(shape_.features));
    make_room(features_, bytes);
    make_room(host_features_, bytes);
  }
  row_keys_.reset();
  if (plan_.needs_positions && !shape_.is_sorted) make_room(row_keys_, at(rows));
  if (shape_.has_points) {
    make_room(host_point_rows_, at(shape_.points));
    if (!shape_.is_cloud) make_room(point_rows_, at(shape_.points));
    if (!shape_.is_cloud && plan_.needs_positions) {
      make_room(positions_, at(3 * shape_.points));
      make_room(host_positions_, at(3 * shape_.points));
    }
  }
  if (gives_labels()) {
    const auto labels = at(shape_.has_points ? shape_.points : rows);
    make_room(classes_, labels);
    make_room(host_classes_, labels);
  }
  if (device_plan_.measures) {
    make_room(largest_, plan_.steps.size());
    CUDA_CHECK(cudaMemsetAsync(largest_.data(), 0, largest_.nbytes(), stream_.get()));
  }
  make_room(batch_rows_, at(shape_.batch_size));
  make_room(host_batch_rows_, at(shape_.batch_size));
  make_room(mismatches_, plan_.checks.size());
  make_room(host_status_, maps_->status_size() + plan_.checks.size() +
                              (voxelizer_ ? voxelizer_->status_size() : 0));
}

void FrameRunner::prepare_outputs() {
  for (const PlanOutput& planned : plan_.outputs) {
    OutputMemory& memory = outputs_.emplace_back();
    if (gives_labels() && !planned.is_dense) continue;
    std::int64_t floats = shape_.rows[at(planned.level)] * planned.channels;
    if (planned.is_dense) {
      const auto shape = shape_of_level(planned.level);
      ENSURE(shape.has_value(), "node '", planned.node,
             "': to_dense needs a spatial shape, and neither the model nor the input gives one");
      const PlanStep& step =
          *std::find_if(plan_.steps.begin(), plan_.steps.end(), [&](const PlanStep& s) {
            return s.kind == Kind::to_dense && &plan_.outputs[at(s.dense_output)] == &planned;
          });
      floats = base::checked_product(
          {shape_.batch_size, step.inputs[0].channels, (*shape)[0], (*shape)[1], (*shape)[2]});
    }
    memory.device = base::cuda::Buffer<float>(at(floats));
    if (gives_labels()) continue;
    memory.host = base::cuda::PinnedBuffer<float>(at(floats));
    const bool has_keys = !planned.is_dense && planned.level != 0 &&
                          device_plan_.set_of_level[at(planned.level)] >= 0;
    if (has_keys) memory.keys = base::cuda::PinnedBuffer<Key>(at(shape_.rows[at(planned.level)]));
  }
}

}  // namespace sparseconv::cuda
