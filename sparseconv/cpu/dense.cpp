#include <cstring>

#include "gemm_core/base/parallel.hpp"
#include "sparseconv/cpu/ops.hpp"

namespace sparseconv::cpu {
namespace {

constexpr std::int64_t kGrain = 256;  // rows

}  // namespace

base::Tensor to_dense(const Coordinates& coordinates, const base::ConstTensorView& input,
                      const base::BlockCachePtr& cache) {
  ENSURE(coordinates.spatial_shape().has_value(),
         "to_dense needs a spatial shape, and neither the model nor the input gives one");
  // By name: Clang 14 captures no structured bindings.
  const SpatialShape& shape = *coordinates.spatial_shape();
  const std::int64_t width = shape[0], height = shape[1], depth = shape[2];
  const std::int64_t channels = input.shape[1];
  auto dense = base::Tensor::empty({coordinates.batch_size(), channels * depth, height, width},
                                   base::DType::f32, cache);
  if (dense.numel() == 0) return dense;
  float* const to = dense.data<float>();
  std::memset(to, 0, static_cast<std::size_t>(dense.nbytes()));
  const std::int64_t plane = height * width, volume = channels * depth * plane;
  const auto coords = coordinates.coords();
  base::visit_dtype<float, base::half_t, base::bf16_t>(input.dtype, "to_dense", [&]<class T>() {
    base::parallel_blocks(coordinates.size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const Coord& at = coords[static_cast<std::size_t>(row)];
        const T* from = input.as<T>() + row * input.stride[0];
        float* cell = to + at.batch * volume + at.z * plane + at.y * width + at.x;
        for (std::int64_t c = 0; c < channels; ++c) {
          cell[c * depth * plane] = static_cast<float>(from[c]);
        }
      }
    });
  });
  return dense;
}

}  // namespace sparseconv::cpu
