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

// weight(group, n, tap, k) with n and k counted within the group.
class WeightReader {
 public:
  explicit WeightReader(const ConvWeightsDesc& desc)
      : desc_(desc), group_k_(desc.cin / desc.groups), group_n_(desc.cout / desc.groups) {}

  float operator()(std::int64_t group, std::int64_t n, std::int64_t tap, std::int64_t k) const {
    const std::int64_t r = desc_.has_reversed_taps ? desc_.taps - 1 - tap : tap;
    const std::int64_t at = desc_.is_transposed
                                ? ((group * group_k_ + k) * desc_.taps + r) * group_n_ + n
                                : ((group * group_n_ + n) * desc_.taps + r) * group_k_ + k;
    return rounded(desc_.weight[at], desc_.compute);
  }

 private:
  const ConvWeightsDesc& desc_;
  std::int64_t group_k_, group_n_;
};

// One tap of one group to blocks of panels.
void pack_tap(const PackedConvWeights::Data& data, const WeightReader& weight, std::int64_t group,
              std::int64_t tap, float* to) {
  for (std::int64_t k0 = 0; k0 < data.group_k; k0 += kMaxBlockK) {
    const std::int64_t k1 = std::min(data.group_k, k0 + kMaxBlockK);
    for (std::int64_t n0 = 0; n0 < data.padded_n; n0 += data.panel_width) {
      const std::int64_t n1 = std::min(data.padded_n, n0 + data.panel_width);
      for (std::int64_t k = k0; k < k1; ++k) {
        for (std::int64_t n = n0; n < n1; ++n)
          *to++ = n < data.group_n ? weight(group, n, tap, k) : 0.0f;
      }
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
  const WeightReader weight(desc);
  if (data.depthwise) {
    float* to = data.values.reserve(desc.taps * desc.cout);
    for (std::int64_t tap = 0; tap < desc.taps; ++tap) {
      for (std::int64_t n = 0; n < desc.cout; ++n) *to++ = weight(n, 0, tap, 0);
    }
    return;
  }
  const std::int64_t tap_size = data.group_k * data.padded_n;
  float* const to = data.values.reserve(desc.groups * desc.taps * tap_size);
  base::parallel_blocks(desc.groups * desc.taps, 1, [&](std::int64_t i, std::int64_t) {
    pack_tap(data, weight, i / desc.taps, i % desc.taps, to + i * tap_size);
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
