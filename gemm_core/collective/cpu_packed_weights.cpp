#include "gemm_core/collective/cpu_packed_weights.hpp"

#include <algorithm>

#include "gemm_core/base/error.hpp"
#include "gemm_core/base/numeric.hpp"

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

// One tap of one group: weight(n, k) for n in [0, N), k in [0, K) to blocks of panels.
template <class Weight>
float* pack_tap(const PackedConvWeights::Data& data, const Weight& weight, float* to) {
  for (std::int64_t k0 = 0; k0 < data.group_k; k0 += kMaxBlockK) {
    const std::int64_t k1 = std::min(data.group_k, k0 + kMaxBlockK);
    for (std::int64_t n0 = 0; n0 < data.padded_n; n0 += data.panel_width) {
      const std::int64_t n1 = std::min(data.padded_n, n0 + data.panel_width);
      for (std::int64_t k = k0; k < k1; ++k) {
        for (std::int64_t n = n0; n < n1; ++n) *to++ = n < data.group_n ? weight(n, k) : 0.0f;
      }
    }
  }
  return to;
}

}  // namespace

PackedConvWeights::PackedConvWeights() = default;
PackedConvWeights::~PackedConvWeights() = default;
PackedConvWeights::PackedConvWeights(PackedConvWeights&&) noexcept = default;
PackedConvWeights& PackedConvWeights::operator=(PackedConvWeights&&) noexcept = default;

std::int64_t PackedConvWeights::nbytes() const {
  return data ? data->values.capacity() * static_cast<std::int64_t>(sizeof(float)) : 0;
}

PackedConvWeights pack_conv_weights_for(const CpuAtoms& atoms, const ConvWeightsDesc& desc) {
  check(desc);
  PackedConvWeights packed;
  packed.cout = desc.cout;
  packed.taps = desc.taps;
  packed.cin = desc.cin;
  packed.groups = desc.groups;
  packed.compute = desc.compute;
  packed.data = std::make_unique<PackedConvWeights::Data>();
  PackedConvWeights::Data& data = *packed.data;
  data.atoms = &atoms;
  data.group_k = desc.cin / desc.groups;
  data.group_n = desc.cout / desc.groups;
  data.depthwise = desc.groups > 1 && data.group_k == 1 && data.group_n == 1;
  data.few_channels = !data.depthwise && desc.taps > 1 && data.group_k <= kFewChannels;
  data.padded_n = (data.group_n + atoms.lanes - 1) / atoms.lanes * atoms.lanes;
  data.panel_width = data.few_channels ? data.padded_n : atoms.lanes * atoms.panel_vectors;
  const auto weight_of = [&](std::int64_t n, std::int64_t tap, std::int64_t k) {
    return rounded(desc.weight[(n * desc.taps + tap) * data.group_k + k], desc.compute);
  };
  if (data.depthwise) {
    float* to = data.values.reserve(desc.taps * desc.cout);
    for (std::int64_t tap = 0; tap < desc.taps; ++tap) {
      for (std::int64_t n = 0; n < desc.cout; ++n) *to++ = weight_of(n, tap, 0);
    }
    return packed;
  }
  float* to = data.values.reserve(desc.groups * desc.taps * data.group_k * data.padded_n);
  for (std::int64_t g = 0; g < desc.groups; ++g) {
    for (std::int64_t tap = 0; tap < desc.taps; ++tap) {
      to = pack_tap(
          data,
          [&](std::int64_t n, std::int64_t k) { return weight_of(g * data.group_n + n, tap, k); },
          to);
    }
  }
  return packed;
}

PackedConvWeights pack_conv_weights(const ConvWeightsDesc& desc) {
  return pack_conv_weights_for(cpu_atoms(), desc);
}

}  // namespace gemm_core
