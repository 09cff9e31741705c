#include "gemm_core/device/cuda/conv_instance.cuh"

namespace gemm_core::cuda {

extern const ConvInstance kConvFilterF16[2];
const ConvInstance kConvFilterF16[2] = {
    conv_instance<base::half_t, false, false, ConvKernel::filter, kConvFilterSquare>(
        "conv_f16_wgrad_128x128"),
    conv_instance<base::half_t, false, false, ConvKernel::filter, kConvFilterNarrow>(
        "conv_f16_wgrad_128x64")};

}  // namespace gemm_core::cuda
