// Preparations of FrameRunner: which kernel runs each layer, maps and schedules for those kernels,
// memory, launches.
#include <algorithm>

#include "gemm_core/atom/activation.hpp"
#include "sparseconv/cuda/frame_runner.hpp"

namespace sparseconv::cuda {
namespace {

using gemm_core::cuda::GatherConv;
using gemm_core::cuda::LayerChoice;
using gemm_core::cuda::TilePart;
using Kind = PlanStep::Kind;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

base::ConstTensorView constant(const base::TensorView& v) {
  return {v.data, v.dtype, v.device, v.shape, v.stride};
}

bool is_pool(Kind kind) {
  return kind == Kind::max_pool || kind == Kind::avg_pool || kind == Kind::sum_pool;
}

std::int64_t slots_for(std::int64_t rows) {
  return std::max<std::int64_t>(
             1, (rows + gemm_core::kSlotAlignment - 1) / gemm_core::kSlotAlignment) *
         gemm_core::kSlotAlignment;
}

}  // namespace

void FrameRunner::prepare(const FrameShape& shape) {
  is_prepared_ = false;
  shape_ = shape;
  steps_.clear();
  schedule_jobs_.clear();
  records_.clear();
  schedule_scratch_.clear();
  identities_.clear();
  identity_memory_.clear();
  outputs_.clear();
  const auto choices = choose_layers();
  maps_.emplace(make_spec(choices));
  FrameCapacity capacity;
  for (const int level : device_plan_.levels_of_sets)
    capacity.rows.push_back(shape_.rows[at(level)]);
  capacity.is_input_sorted = shape_.is_sorted;
  maps_->reserve(capacity);

  place_buffers(plan_, shape_.rows, static_cast<int>(base::bytes(device_plan_.storage)),
                placement_);
  if (at(placement_.bytes) > arena_.size()) {
    arena_.reset();  // before the larger one is asked for
    arena_ = base::cuda::Buffer<std::uint8_t>(at(placement_.bytes));
  }
  if (device_plan_.padded_input > 0) {
    const auto bytes =
        at(shape_.rows[0] * device_plan_.padded_input * base::bytes(device_plan_.storage));
    if (bytes > padded_input_.size()) padded_input_ = base::cuda::Buffer<std::uint8_t>(bytes);
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
  if (at(partial_floats) > partials_.size())
    partials_ = base::cuda::Buffer<float>(at(partial_floats));
  for (std::size_t level = 0; level < plan_.levels.size(); ++level) {
    if (plan_.levels[level].kind != Level::Kind::points) continue;
    point_rows_ = base::cuda::Buffer<std::int64_t>(at(shape_.rows[level]));
  }
  prepare_outputs();
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    try {
      steps_.push_back(prepare_step(s, choices[s]));
    } catch (const base::Error& error) {
      base::fail("node '", plan_.steps[s].node, "': ", error.what());
    }
  }
  network_ = base::cuda::Graph::capture(stream_.get(), [&] {
    for (const Launch& step : steps_) step(stream_.get());
  });
  is_prepared_ = true;
}

bool FrameRunner::suits_matrix_cores(const PlanStep& step) const {
  const std::int64_t bytes = base::bytes(device_plan_.storage);
  const auto is_aligned = [&](const PlanSlice& slice) {
    return slice.channel * bytes % 16 == 0 &&
           plan_.buffers[at(slice.buffer)].channels * bytes % 16 == 0;
  };
  if (step.groups != 1 || step.taps > gemm_core::kMaxMaskedTaps ||
      device_plan_.dtype == base::DType::f32)
    return false;
  if (!base::cuda::device_info(device_plan_.device).has_wgmma()) return false;
  if (!device_plan_.reads_padded_input(step) && !is_aligned(step.inputs[0])) return false;
  if (!is_aligned(step.output)) return false;
  return std::all_of(step.epilogue.begin(), step.epilogue.end(), [&](const PlanEpilogueNode& node) {
    using gemm_core::Activation;
    if (node.kind == gemm_core::EpilogueNode::Kind::add) return is_aligned(node.aux);
    return node.kind != gemm_core::EpilogueNode::Kind::activate ||
           node.activation == Activation::identity || node.activation == Activation::relu ||
           node.activation == Activation::leaky_relu;
  });
}

// Rows that a level of a street scan has, whatever the frame: kernels and orders are chosen by the
// plan alone, so that a frame's bits depend on nothing that ran before it.
std::int64_t FrameRunner::nominal_rows(int level) const {
  const Level& l = plan_.levels[at(level)];
  if (l.kind == Level::Kind::input || l.kind == Level::Kind::points) return 100000;
  if (l.kind == Level::Kind::global || l.source < 0) return 1;
  const std::int64_t source = nominal_rows(l.source);
  const bool is_stride_one = l.geometry.stride == std::array{1, 1, 1};
  if (is_stride_one) return source;
  return l.kind == Level::Kind::strided ? source * 45 / 100 : source * 2;
}

// One order a map: that of the layer with the most work. Instances follow the shapes of each layer.
std::vector<LayerChoice> FrameRunner::choose_layers() const {
  std::vector<LayerChoice> choices(plan_.steps.size());
  std::vector<std::int64_t> most_work(plan_.maps.size(), 0);
  std::vector<bool> planes(plan_.maps.size(), false);
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    const PlanStep& step = plan_.steps[s];
    if (step.kind != Kind::convolution || !suits_matrix_cores(step)) continue;
    const std::int64_t cin = device_plan_.weights[s].cin, cout = device_plan_.weights[s].cout;
    choices[s] = gemm_core::cuda::choose_instance(device_plan_.dtype, cin, cout,
                                                  nominal_rows(step.output_level));
    if (step.map < 0 || choices[s].instance == nullptr) continue;
    const bool has_planes = plan_.maps[at(step.map)].geometry.kernel == std::array{3, 3, 3};
    if (cin * cout > most_work[at(step.map)]) {
      most_work[at(step.map)] = cin * cout;
      planes[at(step.map)] = choices[s].planes && has_planes;
    }
  }
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    choices[s].planes = plan_.steps[s].map >= 0 && planes[at(plan_.steps[s].map)];
  }
  return choices;
}

FrameSpec FrameRunner::make_spec(const std::vector<LayerChoice>& choices) {
  FrameSpec spec;
  for (const int level : device_plan_.levels_of_sets) {
    const Level& l = plan_.levels[at(level)];
    SetSpec set;
    set.kind = l.kind == Level::Kind::input     ? SetSpec::Kind::input
               : l.kind == Level::Kind::strided ? SetSpec::Kind::strided
                                                : SetSpec::Kind::generative;
    set.source = l.source >= 0 ? device_plan_.set_of_level[at(l.source)] : -1;
    set.geometry = l.geometry;
    spec.sets.push_back(set);
  }
  for (const PlanMap& map : plan_.maps) {
    spec.maps.push_back({.kind = map.kind,
                         .geometry = map.geometry,
                         .input = device_plan_.set_of_level[at(map.input)],
                         .output = device_plan_.set_of_level[at(map.output)],
                         .forward = map.forward,
                         .order = RowOrder::none,
                         .needs_canonical = false});
  }
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    const PlanStep& step = plan_.steps[s];
    if (step.map < 0 || choices[s].instance == nullptr) continue;
    spec.maps[at(step.map)].order = choices[s].planes ? RowOrder::planes : RowOrder::single;
  }
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    const PlanStep& step = plan_.steps[s];
    if (step.map < 0 || choices[s].instance != nullptr) continue;
    MapSpec& map = spec.maps[at(step.map)];
    // The SIMT kernel skips absent taps by tiles too, so it likes one order, where the taps fit.
    const bool takes_order = step.kind == Kind::convolution && map.order != RowOrder::planes &&
                             step.taps <= gemm_core::kMaxMaskedTaps;
    if (takes_order)
      map.order = RowOrder::single;
    else if (step.kind == Kind::convolution || is_pool(step.kind))
      map.needs_canonical = true;
  }
  return spec;
}

gemm_core::TileSchedule FrameRunner::schedule(const gemm_core::GatherTable& table, TilePart part,
                                              const gemm_core::cuda::Sm90Instance& instance,
                                              std::int64_t cout) {
  const int lists =
      gemm_core::cuda::lists_for(instance, cout, base::cuda::device_info(device_plan_.device));
  for (const auto& job : schedule_jobs_) {
    if (job.table.rows == table.rows && job.part == part && job.tile == instance.tile_m &&
        job.lists == lists) {
      return {job.tile, job.lists, job.pitch, job.records};
    }
  }
  const std::int32_t pitch =
      gemm_core::cuda::schedule_pitch(table.capacity, instance.tile_m, lists);
  records_.emplace_back(at(std::int64_t{pitch} * lists));
  schedule_scratch_.emplace_back(at(table.capacity / instance.tile_m + 1));
  schedule_jobs_.push_back({table, part, instance.tile_m, lists, pitch, records_.back().data(),
                            schedule_scratch_.back().data()});
  return {instance.tile_m, lists, pitch, records_.back().data()};
}

void FrameRunner::prepare_identity(int level) {
  if (identities_.contains(level)) return;
  IdentityTable table;
  table.capacity = slots_for(shape_.rows[at(level)]);
  auto& memory = identity_memory_.emplace_back(
      at(table.capacity + table.capacity / gemm_core::kSlotGroup + 8));
  table.iota = memory.data();
  table.masks = reinterpret_cast<std::uint32_t*>(memory.data() + table.capacity);
  table.plane_begin = memory.data() + table.capacity + table.capacity / gemm_core::kSlotGroup;
  identities_[level] = table;
}

void FrameRunner::prepare_outputs() {
  for (const PlanOutput& planned : plan_.outputs) {
    OutputMemory& memory = outputs_.emplace_back();
    std::int64_t floats = shape_.rows[at(planned.level)] * planned.channels;
    if (planned.is_dense) {
      const auto shape = spatial_shape_of(planned.level);
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
    memory.host = base::cuda::PinnedBuffer<float>(at(floats));
    const bool has_keys = !planned.is_dense && planned.level != 0 &&
                          device_plan_.set_of_level[at(planned.level)] >= 0;
    if (has_keys) memory.keys = base::cuda::PinnedBuffer<Key>(at(shape_.rows[at(planned.level)]));
  }
}

// --- steps
// -------------------------------------------------------------------------------------------------------------

FrameRunner::Launch FrameRunner::prepare_step(std::size_t index, const LayerChoice& choice) {
  const PlanStep& step = plan_.steps[index];
  const base::ConstTensorView input = constant(view(step.inputs[0]));
  const int level = step.input_level;
  if (step.kind == Kind::convolution) return prepare_convolution(index, choice);
  if (step.kind == Kind::to_dense) {
    OutputMemory& memory = outputs_[at(step.dense_output)];
    return [this, &memory, input, level, shape = *spatial_shape_of(level)](cudaStream_t stream) {
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
    case Kind::devoxelize:
      return [this, input, to](cudaStream_t stream) {
        gather_points(point_rows_.data(), to.view.shape[0], input, to, stream);
      };
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
  const RowCount rows = rows_of(step.output_level);
  a.row_count = rows.count;
  a.overlap = true;
  if (choice.instance != nullptr) {
    a.instance = choice.instance;
    if (step.map < 0) {
      prepare_identity(step.output_level);
      a.table = identities_[step.output_level].view();
    } else {
      a.table = maps_->view(step.map).table;
    }
    a.centre = schedule(a.table, TilePart::centre, *choice.instance, a.weights->cout);
    if (choice.planes) {
      a.outer = schedule(a.table, TilePart::outer, *choice.instance, a.weights->cout);
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

base::TensorView FrameRunner::view(const PlanSlice& slice, std::int64_t channels) const {
  const PlanBuffer& buffer = plan_.buffers[at(slice.buffer)];
  const base::DType storage = device_plan_.storage;
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

RowCount FrameRunner::rows_of(int level) const {
  const int set = device_plan_.set_of_level[at(level)];
  return {set >= 0 ? maps_->status() + set : nullptr, shape_.rows[at(level)]};
}

LevelRowsView FrameRunner::level_view(int level) const {
  const int set = device_plan_.set_of_level[at(level)];
  return {maps_->keys(set), maps_->rank_to_row(set), rows_of(level)};
}

}  // namespace sparseconv::cuda
