// CUDA_CHECK(call) throws base::Error with the call, the place and CUDA's own words. check_launch
// does the same after a kernel launch. Destructors never use them.
#pragma once
#include <cuda_runtime_api.h>

#include "gemm_core/base/error.hpp"

namespace base::cuda {

[[noreturn]] inline void fail_call(cudaError_t error, const char* call, const char* file,
                                   int line) {
  fail("CUDA: ", call, " at ", file, ":", line, ": ", cudaGetErrorName(error), ", ",
       cudaGetErrorString(error));
}

inline void check_launch(const char* kernel) {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    fail("CUDA: launch of ", kernel, ": ", cudaGetErrorName(error), ", ",
         cudaGetErrorString(error));
  }
}

}  // namespace base::cuda

#define CUDA_CHECK(call)                                                           \
  do {                                                                             \
    const cudaError_t cuda_check_error = (call);                                   \
    if (cuda_check_error != cudaSuccess) [[unlikely]] {                            \
      (void)cudaGetLastError(); /* a failed call must not fail the next one too */ \
      ::base::cuda::fail_call(cuda_check_error, #call, __FILE__, __LINE__);        \
    }                                                                              \
  } while (0)
