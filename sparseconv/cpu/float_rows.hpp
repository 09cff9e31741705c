// Rows of a matrix as fp32: where they stand, or converted where they are f16 or bf16.
#pragma once
#include "gemm_core/atom/cpu_atoms.hpp"
#include "gemm_core/base/tensor.hpp"
#include "gemm_core/collective/aligned_buffer.hpp"

namespace sparseconv::cpu {

// Rows [begin, end) of `view`, valid while the object and `view` live.
class FloatRows {
 public:
  FloatRows(const base::ConstTensorView& view, std::int64_t begin, std::int64_t end)
      : begin_(begin), values_(nullptr), pitch_(view.stride[0]) {
    const std::int64_t start = begin * view.stride[0] * base::bytes(view.dtype);
    const char* const first = static_cast<const char*>(view.data) + start;
    if (view.dtype == base::DType::f32 || begin == end) {
      values_ = reinterpret_cast<const float*>(first);
      return;
    }
    pitch_ = view.shape[1];
    float* const to = buffer_.reserve((end - begin) * pitch_);
    gemm_core::cpu_atoms().convert_rows({.base = first,
                                         .dtype = view.dtype,
                                         .pitch = view.stride[0],
                                         .rows = end - begin,
                                         .columns = view.shape[1],
                                         .to = to,
                                         .ldto = pitch_});
    values_ = to;
  }
  const float* row(std::int64_t row) const { return values_ + (row - begin_) * pitch_; }

 private:
  std::int64_t begin_;
  gemm_core::AlignedBuffer buffer_;
  const float* values_;
  std::int64_t pitch_;
};

}  // namespace sparseconv::cpu
