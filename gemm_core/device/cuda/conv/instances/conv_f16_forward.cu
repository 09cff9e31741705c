#include "gemm_core/device/cuda/conv/conv_instance.cuh"

namespace gemm_core::cuda {

extern const ConvInstance kConvForwardF16[3];
const ConvInstance kConvForwardF16[3] = {
    conv_instance<base::half_t, true, true, ConvKernel::forward, kConvWide>("conv_f16_128x256_c2"),
    conv_instance<base::half_t, true, true, ConvKernel::forward, kConvSquare>("conv_f16_128x128"),
    conv_instance<base::half_t, true, true, ConvKernel::forward, kConvNarrow>("conv_f16_128x64")};

}  // namespace gemm_core::cuda
