#include "gemm_core/device/cuda/conv/conv_instance.cuh"

namespace gemm_core::cuda {

extern const ConvInstance kConvForwardBF16[3];
const ConvInstance kConvForwardBF16[3] = {
    conv_instance<base::bf16_t, true, true, ConvKernel::forward, kConvWide>("conv_bf16_128x256_c2"),
    conv_instance<base::bf16_t, true, true, ConvKernel::forward, kConvSquare>("conv_bf16_128x128"),
    conv_instance<base::bf16_t, true, true, ConvKernel::forward, kConvNarrow>("conv_bf16_128x64")};

}  // namespace gemm_core::cuda
