#include "sparseconv/executor.hpp"

#include <chrono>
#include <deque>
#include <fstream>
#include <mutex>

#include "gemm_core/collective/aligned_buffer.hpp"
#include "gemm_core/device/elementwise.hpp"
#include "gemm_core/device/gather_conv.hpp"
#include "sparseconv/cpu/frame.hpp"
#include "sparseconv/cpu/ops.hpp"

namespace sparseconv {
namespace {

using base::DType;
using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// High-water mark of the process's resident memory; 0 where the system does not say.
std::int64_t peak_process_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

// What one run needs besides the weights; kept between runs, so that equal or smaller frames
// allocate no activations.
struct Workspace {
  cpu::Frame frame;
  Placement placement;
  gemm_core::AlignedBuffer arena;
  char* start = nullptr;                       // of the arena
  std::vector<gemm_core::Epilogue> epilogues;  // of each step; operands of `add` are set per frame
  std::vector<base::ConstTensorView> inputs;
};

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(const Plan& plan, const ExecutorOptions& options)
      : plan_(plan),
        dtype_(options.dtype),
        storage_(options.dtype == DType::tf32 ? DType::f32 : options.dtype),
        caches_maps_(options.cache_maps),
        memory_(options.memory ? options.memory : std::make_shared<base::BlockCache>()) {
    for (const PlanStep& step : plan_.steps) {
      weights_.emplace_back();
      if (step.kind == PlanStep::Kind::convolution) weights_.back() = pack(step);
      weight_bytes_ += weights_.back().data ? weights_.back().nbytes() : 0;
    }
  }

  void run(const FrameInput& input, FrameOutput& output) const override {
    const auto start = Clock::now();
    const std::unique_ptr<Workspace, Return> workspace(take(), Return{this});
    Workspace& w = *workspace;
    const bool has_maps =
        caches_maps_ && !w.frame.levels.empty() && w.frame.levels[0] == input.voxels.coordinates;
    if (!has_maps) rebuild(w.frame, input);
    place_buffers(plan_, w.frame.rows, static_cast<int>(base::bytes(storage_)), w.placement);
    w.start = reinterpret_cast<char*>(
        w.arena.reserve(w.placement.bytes / static_cast<std::int64_t>(sizeof(float))));
    output.timing.maps = milliseconds_since(start);

    const auto network_start = Clock::now();
    load_input(w, input.voxels.features);
    output.outputs.assign(plan_.outputs.size(), {});
    for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
      run_step(w, s, input, output);
      if (output.after_step) output.after_step(s);
    }
    store_outputs(w, output);
    output.timing.network = milliseconds_since(network_start);
    output.memory = {weight_bytes_, w.frame.nbytes(), w.placement.bytes, w.placement.largest_two,
                     peak_process_bytes()};
    if (!caches_maps_) w.frame.clear();
  }

 private:
  gemm_core::PackedConvWeights pack(const PlanStep& step) const {
    const std::int64_t cout = step.weight.size(0);
    return gemm_core::pack_conv_weights({.weight = step.weight.data<float>(),
                                         .cout = cout,
                                         .taps = step.taps,
                                         .cin = step.inputs[0].channels,
                                         .groups = step.groups,
                                         .compute = dtype_});
  }

  // --- workspaces -----------------------------------------------------------------------------

  struct Return {
    const CpuExecutor* executor;
    void operator()(Workspace* workspace) const { executor->give_back(workspace); }
  };

  Workspace* take() const {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto workspace = std::move(idle_.back());
        idle_.pop_back();
        return workspace.release();
      }
    }
    auto workspace = std::make_unique<Workspace>();
    workspace->frame.cache = memory_;
    for (const PlanStep& step : plan_.steps) workspace->epilogues.push_back(epilogue_of(step));
    return workspace.release();
  }
  void give_back(Workspace* workspace) const {
    const std::lock_guard lock(mutex_);
    idle_.emplace_back(workspace);
  }

  static gemm_core::Epilogue epilogue_of(const PlanStep& step) {
    gemm_core::Epilogue epilogue;
    for (const auto& node : step.epilogue) {
      switch (node.kind) {
        case gemm_core::EpilogueNode::Kind::scale_shift:
          epilogue.scale_shift(node.scale.empty() ? nullptr : node.scale.data(),
                               node.shift.empty() ? nullptr : node.shift.data());
          break;
        case gemm_core::EpilogueNode::Kind::add:
          epilogue.add({});
          break;
        case gemm_core::EpilogueNode::Kind::activate:
          epilogue.activate(node.activation, node.slope);
          break;
      }
    }
    return epilogue;
  }

  base::TensorView view(const Workspace& w, const PlanSlice& slice) const {
    const auto b = static_cast<std::size_t>(slice.buffer);
    const PlanBuffer& buffer = plan_.buffers[b];
    const std::int64_t offset = w.placement.offset[b] + slice.channel * base::bytes(storage_);
    const std::int64_t rows = w.frame.rows[static_cast<std::size_t>(buffer.level)];
    void* const data = w.start == nullptr ? nullptr : w.start + offset;
    return {data, storage_, {}, {rows, slice.channels}, {buffer.channels, 1}};
  }
  static base::ConstTensorView constant(const base::TensorView& view) {
    return {view.data, view.dtype, view.device, view.shape, view.stride};
  }

  // A frame that failed half way must not pass for a cached one.
  void rebuild(cpu::Frame& frame, const FrameInput& input) const {
    try {
      build_frame(plan_, input.voxels.coordinates, input.points(), frame);
    } catch (...) {
      frame.clear();
      throw;
    }
  }

  // --- steps ----------------------------------------------------------------------------------

  void load_input(Workspace& w, const base::Tensor& features) const {
    gemm_core::elementwise(features.view(), {}, view(w, plan_.input));
  }

  void run_step(Workspace& w, std::size_t index, const FrameInput& frame,
                FrameOutput& output) const {
    const PlanStep& step = plan_.steps[index];
    try {
      dispatch(w, index, frame, output);
    } catch (const base::Error& error) {
      base::fail("node '", step.node, "': ", error.what());
    }
  }

  void dispatch(Workspace& w, std::size_t index, const FrameInput& frame,
                FrameOutput& output) const {
    using Kind = PlanStep::Kind;
    const PlanStep& step = plan_.steps[index];
    const base::ConstTensorView input = constant(view(w, step.inputs[0]));
    const auto& coordinates = w.frame.levels[static_cast<std::size_t>(step.input_level)];
    if (step.kind == Kind::to_dense) {
      auto& dense = output.outputs[static_cast<std::size_t>(step.dense_output)].dense;
      dense = cpu::to_dense(*coordinates, input, memory_);
      return;
    }
    const base::TensorView to = view(w, step.output);
    switch (step.kind) {
      case Kind::convolution:
        convolve(w, index, input, to);
        break;
      case Kind::elementwise:
        gemm_core::elementwise(input, epilogue(w, index), to);
        break;
      case Kind::max_pool:
      case Kind::avg_pool:
      case Kind::sum_pool:
        cpu::pool({step.kind, map(w, step).get(), step.implicit_zero}, input, to);
        break;
      case Kind::global_max:
      case Kind::global_avg:
        cpu::global_pool(step.kind, *coordinates, input, to);
        break;
      case Kind::merge:
        w.inputs.clear();
        for (const auto& slice : step.inputs) w.inputs.push_back(constant(view(w, slice)));
        cpu::merge(w.frame.merges[static_cast<std::size_t>(step.output_level)], w.inputs, to);
        break;
      case Kind::devoxelize:
        cpu::devoxelize({.coordinates = coordinates.get(),
                         .voxels = w.frame.levels[0].get(),
                         .frame = &frame,
                         .transform = transform_of(plan_, step.input_level),
                         .is_input_level = step.input_level == 0,
                         .trilinear = step.trilinear},
                        input, to);
        break;
      case Kind::to_dense:
        break;
      case Kind::batch_norm:
        base::fail("the plan was made for training");
    }
  }

  static const KernelMapPtr& map(const Workspace& w, const PlanStep& step) {
    return w.frame.maps[static_cast<std::size_t>(step.map)];
  }

  const gemm_core::Epilogue& epilogue(Workspace& w, std::size_t index) const {
    auto& nodes = w.epilogues[index].nodes;
    const auto& planned = plan_.steps[index].epilogue;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (planned[i].aux.buffer >= 0) nodes[i].aux = constant(view(w, planned[i].aux));
    }
    return w.epilogues[index];
  }

  void convolve(Workspace& w, std::size_t index, const base::ConstTensorView& input,
                const base::TensorView& to) const {
    const PlanStep& step = plan_.steps[index];
    if (to.shape[0] == 0) return;
    gemm_core::gather_conv({.input = input,
                            .neighbours = step.map < 0 ? nullptr : map(w, step)->table.data(),
                            .rows = to.shape[0],
                            .weights = &weights_[index],
                            .epilogue = epilogue(w, index),
                            .output = to});
  }

  void store_outputs(Workspace& w, FrameOutput& output) const {
    for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
      const PlanOutput& planned = plan_.outputs[i];
      Output& out = output.outputs[i];
      out.node = planned.node;
      const auto& coordinates = w.frame.levels[static_cast<std::size_t>(planned.level)];
      if (planned.is_dense) continue;
      out.per_point =
          plan_.levels[static_cast<std::size_t>(planned.level)].kind == Level::Kind::points;
      out.on_input = planned.level == 0;
      out.sparse.coordinates = coordinates;
      const auto from = constant(view(w, planned.value));
      out.sparse.features =
          base::Tensor::empty({from.shape[0], planned.channels}, DType::f32, memory_);
      gemm_core::elementwise(from, {}, out.sparse.features.view());
    }
  }

  const Plan& plan_;
  const DType dtype_, storage_;
  const bool caches_maps_;
  const base::BlockCachePtr memory_;
  std::deque<gemm_core::PackedConvWeights> weights_;  // of each step; empty where it has none
  std::int64_t weight_bytes_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Workspace>> idle_;
};

}  // namespace

std::unique_ptr<Executor> make_cpu_executor(const Plan& plan, const ExecutorOptions& options) {
  return std::make_unique<CpuExecutor>(plan, options);
}

}  // namespace sparseconv
