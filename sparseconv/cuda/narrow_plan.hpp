// 8-bit inference (e4m3, i8): which buffers of a plan hold 8 bits, by what their values are
// divided, and the epilogues that bring those in. Convolutions that read such a buffer multiply 8
// bits; all others, and every other step, stay in the executor's wide type.
#pragma once
#include <span>
#include <vector>

#include "sparseconv/cuda/device_steps.hpp"

namespace sparseconv::cuda {

// Sets is_narrow: true where convolutions alone write a buffer, with results that scale
// with their operands (activations that are linear on either side of zero), where nothing but
// convolutions with masks read it, and where its slices are whole chunks of 16 channels. The input
// and what leaves the network stay wide.
void choose_narrow_buffers(DeviceSteps& plan);

inline bool multiplies_narrow(const DeviceSteps& plan, const PlanStep& step) {
  return step.kind == PlanStep::Kind::convolution &&
         plan.is_narrow[static_cast<std::size_t>(step.inputs[0].buffer)];
}

// By what the values of each channel of each buffer are divided: 1 where the buffer is wide. Parts
// of a concatenation have scales of their own (a network's first features stand beside its last
// ones, which may be a million times as large); slices that overlap, and those that are added as
// one, share theirs.
using NarrowScales = std::vector<std::vector<float>>;

// `largest`: magnitudes of each step's output. For e4m3 the smallest power of two by which twice
// the largest still fits: frames may exceed the one that was measured two- to fourfold before
// values saturate. For i8 that by which the largest becomes 127: a step that has 8 bits in all
// spends none on what may come.
NarrowScales narrow_scales(const DeviceSteps& plan, std::span<const float> largest,
                           base::DType narrow);

// Rewrites a step's weights for inputs that are divided by their scales: each channel's by its
// scale beside the largest one of inputs[0], which is left for fold_scales. Before the weights are
// rounded.
void scale_weights(DeviceSteps& plan, std::size_t step, const NarrowScales& scales);

// Rewrites a step's epilogue for operands and results that are divided by their scales. `weights`:
// of each output channel, empty where they have none.
void fold_scales(DeviceSteps& plan, std::size_t step, const NarrowScales& scales,
                 std::span<const float> weights);

}  // namespace sparseconv::cuda
