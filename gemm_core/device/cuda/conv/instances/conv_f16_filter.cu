#include "gemm_core/device/cuda/conv/conv_instance.cuh"

namespace gemm_core::cuda {

extern const ConvInstance kConvFilterF16[3];
const ConvInstance kConvFilterF16[3] = {
    conv_instance<base::half_t, false, false, ConvKernel::filter, kConvFilter>(
        "conv_f16_wgrad_128x256"),
    conv_instance<base::half_t, false, false, ConvKernel::filter, kConvSquare>(
        "conv_f16_wgrad_128x128"),
    conv_instance<base::half_t, false, false, ConvKernel::filter, kConvNarrow>(
        "conv_f16_wgrad_128x64")};

}  // namespace gemm_core::cuda
