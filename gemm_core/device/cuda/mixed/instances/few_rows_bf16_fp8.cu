#include "gemm_core/device/cuda/mixed/few_rows_instance.cuh"

namespace gemm_core::cuda {

extern const MixedInstance kFewRowsBF16FP8[1];
const MixedInstance kFewRowsBF16FP8[1] = {
    few_rows_instance<base::bf16_t, NarrowFormat::fp8,
                      Sm90FewRowsTile{.warps = 16, .row_blocks = 2, .n = 16, .stages = 5}>(
        "bf16_fp8_512x16")};

}  // namespace gemm_core::cuda
