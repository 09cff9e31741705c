#include "gemm_core/device/cuda/conv/conv_instance.cuh"

namespace gemm_core::cuda {

extern const ConvInstance kConvScatteredF16[2];
const ConvInstance kConvScatteredF16[2] = {
    conv_instance<base::half_t, true, false, ConvKernel::scatters, kConvSquare>(
        "conv_f16_strided_dgrad_128x128"),
    conv_instance<base::half_t, true, false, ConvKernel::scatters, kConvNarrow>(
        "conv_f16_strided_dgrad_128x64")};

}  // namespace gemm_core::cuda
