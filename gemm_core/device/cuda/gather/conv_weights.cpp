// Weights of convolutions on the device: rounding, scales of 8-bit types, rows of whole chunks.
#include <algorithm>
#include <cmath>

#include "gemm_core/base/convert.hpp"
#include "gemm_core/device/cuda/gather/gather_conv.hpp"

namespace gemm_core::cuda {
namespace {

using base::DType;

float largest_magnitude(const float* values, std::int64_t count) {
  float largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(values[i]));
  return largest;
}

}  // namespace

float e4m3_scale(float largest) {
  constexpr float kLargest = 448;
  if (!(largest > 0) || !std::isfinite(largest)) return 1;
  int exponent = 0;
  const float fraction = std::frexp(largest / kLargest, &exponent);  // in [0.5, 1)
  return std::ldexp(1.f, std::max(-100, fraction == 0.5f ? exponent - 1 : exponent));
}

float narrow_scale(DType type, float largest) {
  if (type == DType::e4m3) return e4m3_scale(largest);
  return largest > 0 && std::isfinite(largest) ? std::max(largest / 127, 0x1p-100f) : 1.f;
}

ConvWeights upload_conv_weights(const ConvWeightsDesc& desc, std::span<const float> scale) {
  ENSURE(desc.cout > 0 && desc.taps > 0 && desc.cin > 0 && desc.groups > 0 &&
             desc.cin % desc.groups == 0 && desc.cout % desc.groups == 0,
         "conv weights: ", desc.cout, " x ", desc.taps, " x ", desc.cin, " in ", desc.groups,
         " groups");
  ENSURE(desc.weight != nullptr, "conv weights: no data");
  // tf32 is stored as float.
  const DType type = desc.compute == DType::tf32 ? DType::f32 : desc.compute;
  ConvWeights w;
  w.cout = desc.cout;
  w.taps = desc.taps;
  w.cin = desc.cin;
  w.groups = desc.groups;
  w.compute = desc.compute;
  const std::int64_t bytes = base::bytes(type), channels = desc.cin / desc.groups,
                     per_chunk = 16 / bytes;
  w.pitch = (channels + per_chunk - 1) / per_chunk * per_chunk;
  std::vector<std::uint8_t> host(static_cast<std::size_t>(desc.cout * desc.taps * w.pitch * bytes),
                                 0);
  if (is_eight_bit(desc.compute) && !scale.empty()) {
    ENSURE(static_cast<std::int64_t>(scale.size()) == desc.cout, "conv weights: ", scale.size(),
           " scales for ", desc.cout, " output channels");
    w.scale.assign(scale.begin(), scale.end());
  } else if (is_eight_bit(desc.compute)) {
    for (std::int64_t row = 0; row < desc.cout; ++row)
      w.scale.push_back(narrow_scale(
          desc.compute,
          largest_magnitude(desc.weight + row * desc.taps * channels, desc.taps * channels)));
  }
  base::visit_dtype<float, base::tf32_t, base::half_t, base::bf16_t, base::e4m3_t, std::int8_t>(
      desc.compute, "conv weights", [&]<class T>() {
        auto* to = reinterpret_cast<T*>(host.data());
        for (std::int64_t i = 0; i < desc.cout * desc.taps; ++i) {
          for (std::int64_t c = 0; c < channels; ++c) {
            const float value = desc.weight[i * channels + c];
            if constexpr (sizeof(T) == 1)
              to[i * w.pitch + c] =
                  base::convert<T>(value / w.scale[static_cast<std::size_t>(i / desc.taps)]);
            else
              to[i * w.pitch + c] = T(value);
          }
        }
      });
  w.data = base::cuda::Buffer<std::uint8_t>(host.size());
  CUDA_CHECK(cudaMemcpy(w.data.data(), host.data(), host.size(), cudaMemcpyHostToDevice));
  return w;
}

}  // namespace gemm_core::cuda
