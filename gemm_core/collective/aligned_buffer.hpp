// Growing scratch of floats on cache line boundaries; contents are lost when it grows.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace gemm_core {

class AlignedBuffer {
 public:
  float* reserve(std::int64_t count) {
    if (count > capacity_) {
      values_.reset();
      values_.reset(static_cast<float*>(
          ::operator new(static_cast<std::size_t>(count) * sizeof(float), kAlignment)));
      capacity_ = count;
    }
    return values_.get();
  }
  const float* data() const { return values_.get(); }
  std::int64_t capacity() const { return capacity_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Release {
    void operator()(float* p) const { ::operator delete(p, kAlignment); }
  };
  std::unique_ptr<float, Release> values_;
  std::int64_t capacity_ = 0;
};

}  // namespace gemm_core
