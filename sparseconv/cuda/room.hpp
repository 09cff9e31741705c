// Small helpers of the frame runner's files.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "gemm_core/base/tensor.hpp"

namespace sparseconv::cuda {

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

inline base::ConstTensorView constant(const base::TensorView& v) {
  return {v.data, v.dtype, v.device, v.shape, v.stride};
}

// Room for frames a little larger than the one that asks, so that few frames prepare anew.
// Not nothing: empty frames are prepared like others.
inline std::int64_t with_room(std::int64_t rows) {
  return (std::max<std::int64_t>(rows, 1) + rows / 4 + 1023) / 1024 * 1024;
}

template <class Buffer>
void make_room(Buffer& buffer, std::size_t count) {
  if (buffer.size() >= count) return;
  buffer.reset();  // before the larger one is asked for
  buffer = Buffer(count);
}

}  // namespace sparseconv::cuda
