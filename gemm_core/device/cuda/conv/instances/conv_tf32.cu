#include "gemm_core/device/cuda/conv/conv_instance.cuh"

namespace gemm_core::cuda {

extern const ConvInstance kConvForwardTF32[2];
const ConvInstance kConvForwardTF32[2] = {
    conv_instance<base::tf32_t, true, true, ConvKernel::forward, kConvSquare>("conv_tf32_128x128"),
    conv_instance<base::tf32_t, true, true, ConvKernel::forward, kConvNarrow>("conv_tf32_128x64")};

}  // namespace gemm_core::cuda
