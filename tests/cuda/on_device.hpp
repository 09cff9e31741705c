// Values of the host on the device, and back.
#pragma once
#include <vector>

#include "gemm_core/base/cuda/resources.hpp"

namespace cuda_tests {

template <class T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values) : size_(values.size()), buffer_(values.size()) {
    CUDA_CHECK(cudaMemcpy(buffer_.data(), values.data(), size_ * sizeof(T), cudaMemcpyDefault));
  }
  T* data() { return buffer_.data(); }
  std::vector<T> values() const {
    std::vector<T> result(size_);
    CUDA_CHECK(cudaMemcpy(result.data(), buffer_.data(), size_ * sizeof(T), cudaMemcpyDefault));
    return result;
  }

 private:
  std::size_t size_;
  base::cuda::Buffer<T> buffer_;
};

}  // namespace cuda_tests
