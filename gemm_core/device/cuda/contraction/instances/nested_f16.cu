#include "gemm_core/device/cuda/contraction/nested_instance.cuh"

namespace gemm_core::cuda {

extern const NestedInstance kNestedF16[8];
const NestedInstance kNestedF16[8] = {
    nested_instance<base::half_t, true, true, kNestedSquare>("nested_f16_kk_128x128"),
    nested_instance<base::half_t, true, true, kNestedSmall>("nested_f16_kk_64x64"),
    nested_instance<base::half_t, true, false, kNestedSquare>("nested_f16_kn_128x128"),
    nested_instance<base::half_t, true, false, kNestedSmall>("nested_f16_kn_64x64"),
    nested_instance<base::half_t, false, true, kNestedSquare>("nested_f16_mk_128x128"),
    nested_instance<base::half_t, false, true, kNestedSmall>("nested_f16_mk_64x64"),
    nested_instance<base::half_t, false, false, kNestedSquare>("nested_f16_mn_128x128"),
    nested_instance<base::half_t, false, false, kNestedSmall>("nested_f16_mn_64x64"),
};

}  // namespace gemm_core::cuda
