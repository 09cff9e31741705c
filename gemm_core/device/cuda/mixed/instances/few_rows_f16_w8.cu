#include "gemm_core/device/cuda/mixed/few_rows_instance.cuh"

namespace gemm_core::cuda {

extern const MixedInstance kFewRowsF16W8[1];
const MixedInstance kFewRowsF16W8[1] = {
    few_rows_instance<base::half_t, NarrowFormat::bits_8,
                      Sm90FewRowsTile{.warps = 16, .row_blocks = 2, .n = 16, .stages = 5}>(
        "f16_w8_512x16")};

}  // namespace gemm_core::cuda
