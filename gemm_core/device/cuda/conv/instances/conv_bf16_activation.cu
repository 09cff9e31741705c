#include "gemm_core/device/cuda/conv/conv_instance.cuh"

namespace gemm_core::cuda {

extern const ConvInstance kConvActivationBF16[3];
const ConvInstance kConvActivationBF16[3] = {
    conv_instance<base::bf16_t, true, false, ConvKernel::forward, kConvWide>(
        "conv_bf16_dgrad_128x256_c2"),
    conv_instance<base::bf16_t, true, false, ConvKernel::forward, kConvSquare>(
        "conv_bf16_dgrad_128x128"),
    conv_instance<base::bf16_t, true, false, ConvKernel::forward, kConvNarrow>(
        "conv_bf16_dgrad_128x64")};

}  // namespace gemm_core::cuda
