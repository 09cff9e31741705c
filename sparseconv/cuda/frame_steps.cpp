// The launches of FrameRunner: one a step of the plan.
#include <algorithm>

#include "sparseconv/cuda/frame_runner.hpp"
#include "sparseconv/cuda/magnitudes.hpp"
#include "sparseconv/cuda/room.hpp"

namespace sparseconv::cuda {
namespace {

using gemm_core::cuda::GatherConv;
using gemm_core::cuda::LayerChoice;
using gemm_core::cuda::TilePart;
using Kind = PlanStep::Kind;

}  // namespace

FrameRunner::Launch FrameRunner::prepare_step(std::size_t index, const LayerChoice& choice) {
  const PlanStep& step = plan_.steps[index];
  if (device_plan_.plan.extras[index].is_absorbed) return [](cudaStream_t) {};
  const base::ConstTensorView input = constant(view(step.inputs[0]));
  const int level = step.input_level;
  if (step.kind == Kind::convolution) return prepare_convolution(index, choice);
  if (step.kind == Kind::to_dense) {
    OutputMemory& memory = outputs_[at(step.dense_output)];
    return [this, &memory, input, level, shape = *shape_of_level(level)](cudaStream_t stream) {
      if (memory.device.size() == 0) return;
      CUDA_CHECK(cudaMemsetAsync(memory.device.data(), 0, memory.device.nbytes(), stream));
      to_dense(level_view(level), input, memory.device.data(), shape, stream);
    };
  }
  const Destination to = destination(step.output);
  const RowCount rows = rows_of(step.output_level);
  switch (step.kind) {
    case Kind::elementwise:
      return [input, to, rows, e = epilogue(index)](cudaStream_t stream) {
        elementwise(input, e, to, rows, stream);
      };
    case Kind::global_max:
    case Kind::global_avg:
      return [this, input, to, level, kind = step.kind](cudaStream_t stream) {
        global_pool(kind, level_view(level), input, to, shape_.batch_size, stream);
      };
    case Kind::merge:
      return prepare_merge(index);
    case Kind::devoxelize:
      return prepare_devoxelize(index);
    default: {
      const DeviceMapView map = maps_->view(step.map);
      const PoolStep pooling{step.kind, map.canonical, map.row_capacity, map.table.taps,
                             step.implicit_zero};
      return [input, to, rows, pooling](cudaStream_t stream) {
        pool(pooling, input, to, rows, stream);
      };
    }
  }
}

FrameRunner::Launch FrameRunner::prepare_convolution(std::size_t index, const LayerChoice& choice) {
  const PlanStep& step = plan_.steps[index];
  gemm_core::cuda::GatherConvArguments a;
  a.weights = &device_plan_.weights[index];
  a.input = constant(view(step.inputs[0], a.weights->cin));
  a.output = view(step.output, a.weights->cout);
  a.epilogue = epilogue(index);
  a.aux_factors = device_plan_.plan.extras[index].factors;
  const RowCount rows = rows_of(step.output_level);
  a.row_count = rows.count;
  a.overlap = true;
  if (device_plan_.plan.extras[index].own_weight.defined()) {
    a.own_weights = &device_plan_.own_weights[index];
    a.own_input = constant(view(step.inputs[1]));
  }
  if (choice.instance != nullptr) {
    a.instance = choice.instance;
    const int level = step.output_level;
    a.table = step.map < 0 ? tables_.identity(level, shape_.rows[at(level)]).view()
                           : maps_->view(step.map).table;
    a.centre = tables_.schedule(a.table, TilePart::centre, *choice.instance, a.weights->cout);
    if (choice.planes) {
      a.outer = tables_.schedule(a.table, TilePart::outer, *choice.instance, a.weights->cout);
      a.partials = partials_.data();
    }
  } else if (step.map >= 0) {
    const DeviceMapView map = maps_->view(step.map);
    a.canonical = map.canonical;
    a.canonical_pitch = map.row_capacity;
    if (a.canonical == nullptr) a.table = map.table;
  }
  auto conv = std::make_shared<GatherConv>(a);
  return [conv](cudaStream_t stream) { conv->run(stream); };
}

// The step, and then the largest magnitude of what it wrote.
FrameRunner::Launch FrameRunner::measured(std::size_t index, Launch launch) {
  const PlanStep& step = plan_.steps[index];
  if (step.kind == Kind::to_dense || device_plan_.plan.extras[index].is_absorbed) return launch;
  return [launch = std::move(launch), output = constant(view(step.output)),
          rows = rows_of(step.output_level), to = largest_.data() + index](cudaStream_t stream) {
    launch(stream);
    find_largest(output, rows, to, stream);
  };
}

std::vector<float> FrameRunner::largest_magnitudes() const {
  std::vector<float> largest(largest_.size());
  CUDA_CHECK(cudaMemcpyAsync(largest.data(), largest_.data(), largest_.nbytes(),
                             cudaMemcpyDeviceToHost, stream_.get()));
  stream_.synchronize();
  return largest;
}

FrameRunner::Launch FrameRunner::prepare_merge(std::size_t index) {
  const PlanStep& step = plan_.steps[index];
  std::vector<MergePart> parts;
  const auto& levels = plan_.levels[at(step.output_level)].parts;
  for (std::size_t p = 0; p < step.inputs.size(); ++p) {
    const int set = device_plan_.set_of_level[at(levels[p].level)];
    parts.push_back({constant(view(step.inputs[p])), maps_->rank_to_row(set)});
  }
  return [parts, merged = maps_->merge(device_plan_.set_of_level[at(step.output_level)]),
          to = destination(step.output), rows = rows_of(step.output_level)](cudaStream_t stream) {
    merge(parts, merged, to, rows, stream);
  };
}

// A point takes the row of its own voxel where that is what it asks for; else rows are found by
// where it lies.
FrameRunner::Launch FrameRunner::prepare_devoxelize(std::size_t index) {
  const PlanStep& step = plan_.steps[index];
  const base::ConstTensorView input = constant(view(step.inputs[0]));
  const Destination to = destination(step.output);
  const bool is_own_voxel = step.input_level == 0 && (!step.trilinear || !shape_.has_points);
  if (is_own_voxel) {
    return [input, to, from = point_rows()](cudaStream_t stream) {
      gather_points(from, input, to, stream);
    };
  }
  make_room(blends_, at(point_rows().points.bound));
  const double* const positions = shape_.is_cloud ? voxelizer_->positions() : positions_.data();
  const BlendArguments arguments{
      .points = point_rows(),
      .positions = shape_.has_points ? positions : nullptr,
      .voxel_keys = row_keys_.size() > 0 ? row_keys_.data() : maps_->keys(0),
      .level = maps_->set(device_plan_.set_of_level[at(step.input_level)]),
      .transform = transform_of(plan_, step.input_level),
      .trilinear = step.trilinear};
  return [this, input, to, arguments](cudaStream_t stream) {
    find_blends(arguments, blends_.data(), stream);
    blend_points(blends_.data(), arguments.points.points, input, to, stream);
  };
}

base::TensorView FrameRunner::view(const PlanSlice& slice, std::int64_t channels) const {
  const PlanBuffer& buffer = plan_.buffers[at(slice.buffer)];
  const base::DType storage = device_plan_.type_of(slice);
  const base::Device device{base::Device::Kind::cuda, device_plan_.device};
  const std::int64_t rows = shape_.rows[at(buffer.level)];
  const std::int64_t width = channels > 0 ? channels : slice.channels;
  if (device_plan_.padded_input > 0 && slice.buffer == plan_.input.buffer) {
    auto* data = const_cast<std::uint8_t*>(padded_input_.data());
    return {data, storage, device, {rows, width}, {device_plan_.padded_input, 1}};
  }
  auto* data = const_cast<std::uint8_t*>(arena_.data());
  if (data != nullptr)
    data += placement_.offset[at(slice.buffer)] + slice.channel * base::bytes(storage);
  return {data, storage, device, {rows, width}, {buffer.channels, 1}};
}

Destination FrameRunner::destination(const PlanSlice& slice) const {
  return {view(slice), device_plan_.dtype == base::DType::tf32};
}

gemm_core::Epilogue FrameRunner::epilogue(std::size_t step) const {
  gemm_core::Epilogue e = device_plan_.epilogues[step];
  for (std::size_t i = 0; i < e.nodes.size(); ++i) {
    const PlanSlice& aux = plan_.steps[step].epilogue[i].aux;
    if (aux.buffer >= 0) e.nodes[i].aux = constant(view(aux));
  }
  return e;
}

// Points of the frame, or its rows where it has none.
RowCount FrameRunner::points() const {
  if (!shape_.has_points) return rows_of(0);
  return {shape_.is_cloud ? voxelizer_->point_count() : sizes_.data() + 1, shape_.points};
}

PointRows FrameRunner::point_rows() const {
  if (!shape_.has_points) return {nullptr, points()};
  return {shape_.is_cloud ? voxelizer_->point_to_voxel() : point_rows_.data(), points()};
}

RowCount FrameRunner::rows_of(int level) const {
  if (plan_.levels[at(level)].kind == Level::Kind::points) return points();
  const int set = device_plan_.set_of_level[at(level)];
  return {set >= 0 ? maps_->status() + set : nullptr, shape_.rows[at(level)]};
}

LevelRowsView FrameRunner::level_view(int level) const {
  const int set = device_plan_.set_of_level[at(level)];
  return {maps_->keys(set), maps_->rank_to_row(set), rows_of(level)};
}

}  // namespace sparseconv::cuda
