// Operand B for the CPU micro-kernels: [group][tap][k block][panel][k][panel width], each panel
// 64-byte aligned and padded with zero columns to whole vectors. A depthwise convolution keeps
// [tap][channel] instead.
#pragma once
#include <cstdint>

#include "gemm_core/atom/cpu_atoms.hpp"
#include "gemm_core/collective/aligned_buffer.hpp"
#include "gemm_core/collective/gather_conv_arguments.hpp"

namespace gemm_core {

// Longest chain of products summed in one register before it is added to the tile: bounds the
// rounding error of long sums and keeps a panel (256 x 16 floats) within half of a 32 KiB L1. Part
// of the result's definition: the same on every machine.
inline constexpr std::int64_t kMaxBlockK = 256;

// Up to so many input channels a row of pairs in registers beats a panel product a tap, whose cost
// is then mostly loading and storing C.
inline constexpr std::int64_t kFewChannels = 8;

struct PackedConvWeights::Data {
  const CpuAtoms* atoms = nullptr;
  std::int64_t group_k = 0, group_n = 0;  // channels of one group
  std::int64_t padded_n = 0;              // group_n up to whole vectors
  std::int64_t panel_width = 0;           // of a full panel
  bool depthwise = false;
  bool few_channels = false;  // [group][tap][k][padded_n], no panels
  AlignedBuffer values;

  // Panels of one tap: start of the k block at `k0` is tap + k0 * padded_n.
  const float* tap(std::int64_t group, std::int64_t tap_index, std::int64_t taps) const {
    return values.data() + (group * taps + tap_index) * group_k * padded_n;
  }
};

PackedConvWeights pack_conv_weights_for(const CpuAtoms& atoms, const ConvWeightsDesc& desc);
void pack_conv_weights_for(const CpuAtoms& atoms, const ConvWeightsDesc& desc,
                           PackedConvWeights& packed);

}  // namespace gemm_core
