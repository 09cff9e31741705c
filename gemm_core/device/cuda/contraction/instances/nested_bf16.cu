#include "gemm_core/device/cuda/contraction/nested_instance.cuh"

namespace gemm_core::cuda {

extern const NestedInstance kNestedBF16[8];
const NestedInstance kNestedBF16[8] = {
    nested_instance<base::bf16_t, true, true, kNestedSquare>("nested_bf16_kk_128x128"),
    nested_instance<base::bf16_t, true, true, kNestedSmall>("nested_bf16_kk_64x64"),
    nested_instance<base::bf16_t, true, false, kNestedSquare>("nested_bf16_kn_128x128"),
    nested_instance<base::bf16_t, true, false, kNestedSmall>("nested_bf16_kn_64x64"),
    nested_instance<base::bf16_t, false, true, kNestedSquare>("nested_bf16_mk_128x128"),
    nested_instance<base::bf16_t, false, true, kNestedSmall>("nested_bf16_mk_64x64"),
    nested_instance<base::bf16_t, false, false, kNestedSquare>("nested_bf16_mn_128x128"),
    nested_instance<base::bf16_t, false, false, kNestedSmall>("nested_bf16_mn_64x64"),
};

}  // namespace gemm_core::cuda
