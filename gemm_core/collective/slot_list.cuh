// Numbers in device memory that say where rows or columns lie.
#pragma once
#include <cstdint>

namespace gemm_core {

struct SlotList {
  const void* data = nullptr;  // null: i * stride
  bool is_long = false;        // int64, else int32
  std::int64_t stride = 1;

  __device__ __forceinline__ std::int64_t operator[](std::int64_t i) const {
    if (data == nullptr) return i * stride;
    return is_long ? __ldg(static_cast<const long long*>(data) + i)
                   : static_cast<std::int64_t>(__ldg(static_cast<const int*>(data) + i));
  }
};

}  // namespace gemm_core
