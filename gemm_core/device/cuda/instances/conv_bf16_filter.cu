#include "gemm_core/device/cuda/conv_instance.cuh"

namespace gemm_core::cuda {

extern const ConvInstance kConvFilterBF16[2];
const ConvInstance kConvFilterBF16[2] = {
    conv_instance<base::bf16_t, false, false, ConvKernel::filter, kConvFilterSquare>(
        "conv_bf16_wgrad_128x128"),
    conv_instance<base::bf16_t, false, false, ConvKernel::filter, kConvFilterNarrow>(
        "conv_bf16_wgrad_128x64")};

}  // namespace gemm_core::cuda
