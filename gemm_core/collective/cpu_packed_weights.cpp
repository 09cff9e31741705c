#include "gemm_core/collective/cpu_packed_weights.hpp"

#include <algorithm>

#include "gemm_core/base/error.hpp"
#include "gemm_core/base/numeric.hpp"
#include "gemm_core/base/parallel.hpp"

namespace gemm_core {
namespace {

float rounded(float value, base::DType compute) {
  switch (compute) {
    case base::DType::f16:
      return base::half_t(value);
    case base::DType::bf16:
      return base::bf16_t(value);
    case base::DType::tf32:
      return base::round_to_tf32(value);
    default:
      return value;
  }
}

void check(const ConvWeightsDesc& d) {
  using base::DType;
  ENSURE(d.cout > 0 && d.taps > 0 && d.cin > 0 && d.groups > 0, "pack_conv_weights: cout ", d.cout,
         ", taps ", d.taps, ", cin ", d.cin, ", groups ", d.groups, " must all be positive");
  ENSURE(d.cin % d.groups == 0, "pack_conv_weights: cin ", d.cin, " is not a multiple of groups ",
         d.groups);
  ENSURE(d.cout % d.groups == 0, "pack_conv_weights: cout ", d.cout,
         " is not a multiple of groups ", d.groups);
  ENSURE(d.weight != nullptr, "pack_conv_weights: weight is null");
  ENSURE(d.compute == DType::f32 || d.compute == DType::tf32 || d.compute == DType::f16 ||
             d.compute == DType::bf16,
         "pack_conv_weights: compute type ", base::name(d.compute),
         " is none of float32, tf32, float16, bfloat16");
  base::checked_product({d.cout, d.taps, d.cin});
}

// Weights of one tap of one group: (n, k) at start + n * stride_n + k * stride_k.
struct TapWeights {
  const float* start = nullptr;
  std::int64_t stride_n = 0, stride_k = 0;
};

TapWeights weights_of_tap(const ConvWeightsDesc& d, std::int64_t group, std::int64_t tap) {
  const std::int64_t group_k = d.cin / d.groups, group_n = d.cout / d.groups;
  const std::int64_t r = d.has_reversed_taps ? d.taps - 1 - tap : tap;
  if (d.is_transposed)
    return {d.weight + (group * group_k * d.taps + r) * group_n, 1, d.taps * group_n};
  return {d.weight + (group * group_n * d.taps + r) * group_k, d.taps * group_k, 1};
}

// One tap of one group to blocks of panels; `convert` rounds a weight.
template <class Convert>
void pack_tap(const PackedConvWeights::Data& data, const TapWeights& weights,
              const Convert& convert, float* to) {
  for (std::int64_t k0 = 0; k0 < data.group_k; k0 += kMaxBlockK) {
    const std::int64_t k1 = std::min(data.group_k, k0 + kMaxBlockK);
    for (std::int64_t n0 = 0; n0 < data.padded_n; n0 += data.panel_width) {
      const std::int64_t n1 = std::min(data.padded_n, n0 + data.panel_width);
      const std::int64_t filled = std::min(n1, data.group_n) - n0;
      for (std::int64_t k = k0; k < k1; ++k, to += n1 - n0) {
        const float* from = weights.start + n0 * weights.stride_n + k * weights.stride_k;
        for (std::int64_t n = 0; n < filled; ++n) to[n] = convert(from[n * weights.stride_n]);
        std::fill(to + filled, to + (n1 - n0), 0.0f);
      }
    }
  }
}

// The same for weights [n][k] in fp32, which are turned without rounding.
void turn_tap(const PackedConvWeights::Data& data, const TapWeights& weights, float* to) {
  for (std::int64_t k0 = 0; k0 < data.group_k; k0 += kMaxBlockK) {
    const std::int64_t k = std::min(data.group_k - k0, kMaxBlockK);
    for (std::int64_t n0 = 0; n0 < data.padded_n; n0 += data.panel_width) {
      const std::int64_t width = std::min(data.padded_n - n0, data.panel_width);
      const std::int64_t filled = std::min(width, data.group_n - n0);
      if (filled < width) std::fill_n(to, k * width, 0.0f);
      data.atoms->transpose({.from = weights.start + n0 * weights.stride_n + k0,
                             .pitch = weights.stride_n,
                             .rows = filled,
                             .columns = k,
                             .to = to,
                             .ldto = width});
      to += k * width;
    }
  }
}

}  // namespace

PackedConvWeights::PackedConvWeights() = default;
PackedConvWeights::~PackedConvWeights() = default;
PackedConvWeights::PackedConvWeights(PackedConvWeights&&) noexcept = default;
PackedConvWeights& PackedConvWeights::operator=(PackedConvWeights&&) noexcept = default;

std::int64_t PackedConvWeights::nbytes() const {
  return data ? data->values.capacity() * static_cast<std::int64_t>(sizeof(float)) : 0;
}

void pack_conv_weights_for(const CpuAtoms& atoms, const ConvWeightsDesc& desc,
                           PackedConvWeights& packed) {
  check(desc);
  packed.cout = desc.cout;
  packed.taps = desc.taps;
  packed.cin = desc.cin;
  packed.groups = desc.groups;
  packed.compute = desc.compute;
  if (!packed.data) packed.data = std::make_unique<PackedConvWeights::Data>();
  PackedConvWeights::Data& data = *packed.data;
  data.atoms = &atoms;
  data.group_k = desc.cin / desc.groups;
  data.group_n = desc.cout / desc.groups;
  data.depthwise = desc.groups > 1 && data.group_k == 1 && data.group_n == 1;
  data.few_channels = !data.depthwise && desc.taps > 1 && data.group_k <= kFewChannels;
  data.padded_n = (data.group_n + atoms.lanes - 1) / atoms.lanes * atoms.lanes;
  data.panel_width = data.few_channels ? data.padded_n : atoms.lanes * atoms.panel_vectors;
  if (data.depthwise) {
    float* to = data.values.reserve(desc.taps * desc.cout);
    for (std::int64_t tap = 0; tap < desc.taps; ++tap) {
      for (std::int64_t n = 0; n < desc.cout; ++n)
        *to++ = rounded(*weights_of_tap(desc, n, tap).start, desc.compute);
    }
    return;
  }
  const std::int64_t tap_size = data.group_k * data.padded_n;
  float* const to = data.values.reserve(desc.groups * desc.taps * tap_size);
  base::parallel_blocks(desc.groups * desc.taps, 1, [&](std::int64_t i, std::int64_t) {
    const TapWeights weights = weights_of_tap(desc, i / desc.taps, i % desc.taps);
    if (desc.compute == base::DType::f32 && weights.stride_k == 1) {
      turn_tap(data, weights, to + i * tap_size);
    } else if (desc.compute == base::DType::f32) {
      pack_tap(
          data, weights, [](float value) { return value; }, to + i * tap_size);
    } else {
      pack_tap(
          data, weights, [&](float value) { return rounded(value, desc.compute); },
          to + i * tap_size);
    }
  });
}

PackedConvWeights pack_conv_weights_for(const CpuAtoms& atoms, const ConvWeightsDesc& desc) {
  PackedConvWeights packed;
  pack_conv_weights_for(atoms, desc, packed);
  return packed;
}

PackedConvWeights pack_conv_weights(const ConvWeightsDesc& desc) {
  return pack_conv_weights_for(cpu_atoms(), desc);
}
void pack_conv_weights(const ConvWeightsDesc& desc, PackedConvWeights& packed) {
  pack_conv_weights_for(cpu_atoms(), desc, packed);
}

}  // namespace gemm_core
