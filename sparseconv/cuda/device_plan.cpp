#include "sparseconv/cuda/device_plan.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/base/parallel.hpp"
#include "sparseconv/cuda/plan_sets.hpp"
#include "sparseconv/cuda/shortcut_plan.hpp"
#include "sparseconv/cuda/voxels/voxel_steps.cuh"

namespace sparseconv::cuda {
namespace {

using Kind = PlanStep::Kind;

std::int64_t rounded_up(std::int64_t channels, std::int64_t multiple) {
  return (channels + multiple - 1) / multiple * multiple;
}

base::DType wide_type(base::DType dtype) {
  return gemm_core::cuda::is_eight_bit(dtype) ? base::DType::f16 : dtype;
}

// Values of a 16-byte chunk.
std::int64_t chunk_values(base::DType dtype) {
  return dtype == base::DType::f32 || dtype == base::DType::tf32 ? 4 : 8;
}

const float* upload_constants(std::deque<base::cuda::Buffer<float>>& constants,
                              std::vector<float> values, std::int64_t channels) {
  if (values.empty()) return nullptr;
  values.resize(static_cast<std::size_t>(channels), 0.f);
  auto& buffer = constants.emplace_back(values.size());
  CUDA_CHECK(cudaMemcpy(buffer.data(), values.data(), buffer.nbytes(), cudaMemcpyHostToDevice));
  return buffer.data();
}

// Output channels that a layer computes: rounded up, with weights of zero, where it fills a buffer
// of its own, so that a head of any number of classes runs on the kernels with tiles.
std::int64_t computed_channels(const PlanStep& step, const Plan& original) {
  const std::int64_t channels = step.output.channels;
  const bool fills_buffer =
      original.buffers[static_cast<std::size_t>(step.output.buffer)].channels == channels;
  const bool has_aux =
      std::any_of(step.epilogue.begin(), step.epilogue.end(),
                  [](const PlanEpilogueNode& node) { return node.aux.buffer >= 0; });
  if (step.kind != PlanStep::Kind::convolution || step.groups != 1 || !fills_buffer || has_aux)
    return channels;
  // Chunks of eight values whatever the type: what the kernels store at once.
  return rounded_up(channels, 8);
}

// Zeros for output channels beyond the layer's and for input channels up to `cin`.
gemm_core::cuda::ConvWeights upload_weights(const PlanStep& step, std::int64_t cout,
                                            std::int64_t cin, base::DType dtype,
                                            std::span<const float> scale = {}) {
  const float* given = step.weight.data<float>();
  const std::int64_t channels = step.inputs[0].channels / step.groups, width = cin / step.groups;
  std::vector<float> values(static_cast<std::size_t>(cout * step.taps * width), 0.f);
  for (std::int64_t row = 0; row < step.weight.numel() / channels; ++row)
    std::copy_n(given + row * channels, channels, values.begin() + row * width);
  return gemm_core::cuda::upload_conv_weights({.weight = values.data(),
                                               .cout = cout,
                                               .taps = step.taps,
                                               .cin = cin,
                                               .groups = step.groups,
                                               .compute = dtype},
                                              scale);
}

float largest_magnitude(const float* values, std::int64_t count) {
  float largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(values[i]));
  return largest;
}

// Both matrices of a merged step (shortcut_plan.hpp), in 8 bits with common scales.
std::pair<gemm_core::cuda::ConvWeights, gemm_core::cuda::ConvWeights> upload_both(
    const PlanStep& step, const base::Tensor& own_weight, std::int64_t cout, base::DType dtype) {
  const std::int64_t width = step.taps * step.inputs[0].channels,
                     own_width = step.inputs[1].channels;
  std::vector<float> own(static_cast<std::size_t>(cout * own_width), 0.f), scale;
  std::copy_n(own_weight.data<float>(), own_weight.numel(), own.begin());
  for (std::int64_t row = 0; row < cout && gemm_core::cuda::is_eight_bit(dtype); ++row) {
    const float largest =
        row < step.weight.size(0)
            ? std::max(largest_magnitude(step.weight.data<float>() + row * width, width),
                       largest_magnitude(own.data() + row * own_width, own_width))
            : 0.f;
    scale.push_back(gemm_core::cuda::narrow_scale(dtype, largest));
  }
  auto main = upload_weights(step, cout, step.inputs[0].channels, dtype, scale);
  return {std::move(main), gemm_core::cuda::upload_conv_weights({.weight = own.data(),
                                                                 .cout = cout,
                                                                 .taps = 1,
                                                                 .cin = own_width,
                                                                 .groups = 1,
                                                                 .compute = dtype},
                                                                scale)};
}

gemm_core::Epilogue epilogue_of(const PlanStep& step, std::int64_t channels,
                                std::deque<base::cuda::Buffer<float>>& constants) {
  gemm_core::Epilogue epilogue;
  for (const PlanEpilogueNode& node : step.epilogue) {
    switch (node.kind) {
      case gemm_core::EpilogueNode::Kind::scale_shift:
        epilogue.scale_shift(upload_constants(constants, node.scale, channels),
                             upload_constants(constants, node.shift, channels));
        break;
      case gemm_core::EpilogueNode::Kind::add:
        epilogue.add({});
        break;
      default:
        epilogue.activate(node.activation, node.slope);
        break;
    }
  }
  return epilogue;
}

// Channels of the rows that a frame's features are padded to, 0 for none. Padding pays where the
// first layers could not run on the matrix cores otherwise. There rows fill a span of the gather
// kernels, not their smallest chunk: rows of 16 bytes with 16 bytes of weights a tap take four
// times as long (4 -> 32 channels over 96.8k rows: 58 us; 32 -> 32: 15 us). FMA would multiply the
// padding, so that fp32 takes chunks.
std::int64_t padded_input_channels(const Plan& original, base::DType dtype, bool has_wgmma) {
  constexpr std::int64_t kSpanChannels = 32, kMostPaddedToSpan = 8;
  if (original.input.buffer < 0) return 0;
  const auto& buffer = original.buffers[static_cast<std::size_t>(original.input.buffer)];
  bool fills_span = has_wgmma && dtype != base::DType::f32 && buffer.channels <= kMostPaddedToSpan;
  for (const PlanStep& step : original.steps) {
    if (step.output.buffer == original.input.buffer) return 0;  // reused for something else later
    const bool reads_input =
        step.kind == PlanStep::Kind::convolution && step.inputs[0].buffer == original.input.buffer;
    if (reads_input && (step.groups != 1 || step.taps > gemm_core::kMaxMaskedTaps))
      fills_span = false;  // the SIMT kernel would multiply the padding
  }
  const std::int64_t padded =
      rounded_up(buffer.channels, fills_span ? kSpanChannels : chunk_values(dtype));
  if (buffer.channels != original.input.channels || padded == buffer.channels) return 0;
  return padded;
}

}  // namespace

DevicePlan::DevicePlan(const Plan& p, const ExecutorOptions& options,
                       std::span<const float> largest)
    : plan(p),
      device(options.device.index),
      dtype(wide_type(options.dtype)),
      storage(dtype == base::DType::tf32 ? base::DType::f32 : dtype),
      narrow(options.dtype == base::DType::i8 ? base::DType::i8 : base::DType::e4m3),
      caches_maps(options.cache_maps),
      label_output(options.label_output),
      row_bound(options.row_bound),
      padded_input(padded_input_channels(p, dtype, base::cuda::device_info(device).has_wgmma())),
      measures(gemm_core::cuda::is_eight_bit(options.dtype) && largest.empty()) {
  const auto& voxels = options.voxelize;
  if (voxels && !voxels->features.empty() &&
      voxels->features.size() <= static_cast<std::size_t>(kMaxFeatures)) {
    voxelize = voxels;
  }
  const bool has_tiles =
      base::cuda::device_info(device).has_wgmma() &&
      (dtype == base::DType::f16 || dtype == base::DType::bf16 || dtype == base::DType::tf32);
  if (has_tiles) merge_shortcuts(plan);
  if (!largest.empty()) choose_narrow_buffers(plan);
  const NarrowScales scales =
      largest.empty() ? NarrowScales{} : narrow_scales(plan, largest, narrow);
  for (std::size_t b = 0; b < plan.buffers.size(); ++b)
    plan.buffers[b].channels = rounded_up(plan.buffers[b].channels, plan.is_narrow[b] ? 16 : 8);
  const auto channels_of = [&](std::size_t s) {
    return plan.steps[s].kind != Kind::to_dense ? computed_channels(plan.steps[s], p) : 0;
  };
  weights.resize(plan.steps.size());
  own_weights.resize(plan.steps.size());
  for (std::size_t s = 0; s < plan.steps.size() && !scales.empty(); ++s) {
    if (!plan.extras[s].is_absorbed) scale_weights(plan, s, scales);
  }
  const auto upload = [&](std::size_t s) {
    const PlanStep& step = plan.steps[s];
    const StepExtras& extras = plan.extras[s];
    if (extras.is_absorbed) return;
    if (extras.own_weight.defined()) {
      std::tie(weights[s], own_weights[s]) =
          upload_both(step, extras.own_weight, channels_of(s), compute_of(step));
    } else if (step.kind == Kind::convolution) {
      const bool is_padded = reads_padded_input(step) && step.groups == 1;
      weights[s] =
          upload_weights(step, channels_of(s), is_padded ? padded_input : step.inputs[0].channels,
                         compute_of(step));
    }
  };
  // Converting and packing them takes most of an engine's start: by several threads.
  base::parallel_blocks(std::ssize(plan.steps), 1, [&](std::int64_t begin, std::int64_t end) {
    const base::cuda::DeviceGuard guard(device);
    for (std::int64_t s = begin; s < end; ++s) upload(static_cast<std::size_t>(s));
  });
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    if (plan.extras[s].is_absorbed) {
      epilogues.emplace_back();
      continue;
    }
    if (!scales.empty()) fold_scales(plan, s, scales, weights[s].scale);
    epilogues.push_back(epilogue_of(plan.steps[s], channels_of(s), constants));
  }
  PlanSets sets(plan);
  set_of_level = std::move(sets.set_of_level);
  levels_of_sets = std::move(sets.levels_of_sets);
}

Plan DevicePlan::in_bytes() const {
  Plan bytes = plan;
  for (std::size_t b = 0; b < bytes.buffers.size(); ++b)
    bytes.buffers[b].channels *= base::bytes(plan.is_narrow[b] ? narrow : storage);
  return bytes;
}

std::int64_t DevicePlan::weight_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& w : weights) bytes += static_cast<std::int64_t>(w.data.nbytes());
  for (const auto& w : own_weights) bytes += static_cast<std::int64_t>(w.data.nbytes());
  for (const auto& c : constants) bytes += static_cast<std::int64_t>(c.nbytes());
  return bytes;
}

}  // namespace sparseconv::cuda
