#include "sparseconv/cuda/magnitudes.hpp"

#include "sparseconv/cuda/row_kernels.cuh"

namespace sparseconv::cuda {
namespace {

// Bits of magnitudes ascend as these do.
template <class In>
__global__ void __launch_bounds__(kThreads) largest_rows(Matrix from, RowCount rows, int* largest) {
  wait_and_go_on();
  const std::int64_t items = rows_of(rows) * from.channels;
  float most = 0;
  for (std::int64_t i = first_item(); i < items; i += item_step()) {
    const float v = fabsf(
        DeviceElement<In>::load(from.data, i / from.channels * from.pitch + i % from.channels));
    most = isfinite(v) ? fmaxf(most, v) : most;
  }
  const int of_warp = __reduce_max_sync(~0u, __float_as_int(most));
  if (threadIdx.x % 32 == 0) atomicMax(largest, of_warp);
}

}  // namespace

void find_largest(const base::ConstTensorView& input, const RowCount& rows, float* largest,
                  cudaStream_t stream) {
  base::visit_dtype<float, base::half_t, base::bf16_t>(
      input.dtype, "largest magnitude", [&]<class In>() {
        base::cuda::launch(largest_rows<In>,
                           {.grid = blocks_for(rows.bound * input.shape[1]),
                            .block = dim3(kThreads),
                            .overlap = true},
                           stream, matrix(input), rows, reinterpret_cast<int*>(largest));
      });
}

}  // namespace sparseconv::cuda
