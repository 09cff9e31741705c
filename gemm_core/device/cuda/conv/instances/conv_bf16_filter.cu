#include "gemm_core/device/cuda/conv/conv_instance.cuh"

namespace gemm_core::cuda {

extern const ConvInstance kConvFilterBF16[3];
const ConvInstance kConvFilterBF16[3] = {
    conv_instance<base::bf16_t, false, false, ConvKernel::filter, kConvFilter>(
        "conv_bf16_wgrad_128x256"),
    conv_instance<base::bf16_t, false, false, ConvKernel::filter, kConvSquare>(
        "conv_bf16_wgrad_128x128"),
    conv_instance<base::bf16_t, false, false, ConvKernel::filter, kConvNarrow>(
        "conv_bf16_wgrad_128x64")};

}  // namespace gemm_core::cuda
