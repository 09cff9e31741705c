// Operands of the dense mainloop. A plain matrix has two strides. Everything else (gathered rows,
// tensors with several modes on a side, the im2col view of a convolution, quantised and structured
// sparse weights) is a matrix too, whose element (i, j) is found by an OperandAccess: the composed
// layout outer(gather) o (offset + inner) of docs/layout_algebra.md in the form of tables, so that
// the mainloop stays one piece of code.
#pragma once
#include <array>
#include <cstdint>
#include <limits>

#include "gemm_core/base/dtype.hpp"

namespace gemm_core {

// int32 or int64 numbers; null: i itself.
struct IndexRef {
  const void* data = nullptr;
  base::DType dtype = base::DType::i32;
  explicit operator bool() const { return data != nullptr; }
  std::int64_t operator[](std::int64_t i) const {
    return dtype == base::DType::i64 ? static_cast<const std::int64_t*>(data)[i]
                                     : static_cast<const std::int32_t*>(data)[i];
  }
};

// Rows and columns carry points; element (i, j) exists where their remainders agree and the sum of
// their quotients lies in [0, box) on every axis. That is the range test of a convolution: fprop
// and wgrad have remainder 0, a strided dgrad has those of (position + padding) and (tap *
// dilation) by the stride.
struct BoxPoint {
  std::array<std::int32_t, 3> quotient{};
  std::int64_t remainder = 0;  // of all axes together
};

// value(i, j) = data[i / row_group * row_stride + j / column_group * column_stride]; f32, f16 or
// bf16.
struct GroupedValues {
  const void* data = nullptr;
  base::DType dtype = base::DType::f32;
  std::int64_t row_stride = 0, column_stride = 0;
  std::int64_t row_group = 1, column_group = 1;
};

struct OperandAccess {
  IndexRef row_index,
      column_index;  // element (i, j) of the matrix is (row_index[i], column_index[j]); < 0: zero
  const std::int64_t* row_offsets = nullptr;  // elements; instead of i * row_stride
  const std::int64_t* column_offsets = nullptr;
  // Joint index: slots[row_slots[i] + column_slots[j]] * slot_pitch is added to the offset; < 0:
  // zero.
  IndexRef slots;
  const std::int64_t* row_slots = nullptr;
  const std::int64_t* column_slots = nullptr;
  std::int64_t slot_pitch = 0;
  const BoxPoint* row_points = nullptr;  // both or neither
  const BoxPoint* column_points = nullptr;
  std::array<std::int32_t, 3> box{1, 1, 1};
  // Columns c .. c + run - 1, c a multiple of run, lie side by side and are present or absent
  // together.
  std::int64_t run = 1;
  GroupedValues scale, zero;  // w = scale * value + zero, each step rounded to the compute type
  // 2:4: data holds the two kept values of every four columns; two bits each say which columns they
  // are of.
  const std::uint8_t* metadata = nullptr;
  std::int64_t metadata_pitch =
      0;  // bytes a row; a byte serves two groups, the first in its low half
  bool conjugate = false;
};

// Element (i, j) of a matrix is data[i * row_stride + j * column_stride], unless `access` says
// more.
struct MatrixRef {
  const void* data = nullptr;
  base::DType dtype = base::DType::f32;
  std::int64_t row_stride = 0, column_stride = 1;
  const OperandAccess* access = nullptr;
};

inline constexpr std::int64_t kAbsent = std::numeric_limits<std::int64_t>::min();

// The element (i, j) as an offset from data in elements, or kAbsent.
class Locator {
 public:
  explicit Locator(const MatrixRef& m) : m_(m), a_(m.access) {}

  std::int64_t operator()(std::int64_t i, std::int64_t j) const {
    if (a_ == nullptr) return i * m_.row_stride + j * m_.column_stride;
    std::int64_t row = i, column = j, slot = 0;
    if (a_->row_index && (row = a_->row_index[i]) < 0) return kAbsent;
    if (a_->column_index && (column = a_->column_index[j]) < 0) return kAbsent;
    if (a_->row_points && !is_inside(a_->row_points[i], a_->column_points[j])) return kAbsent;
    if (a_->slots) {
      slot = a_->slots[(a_->row_slots ? a_->row_slots[i] : 0) +
                       (a_->column_slots ? a_->column_slots[j] : 0)];
      if (slot < 0) return kAbsent;
    }
    return slot * a_->slot_pitch + (a_->row_offsets ? a_->row_offsets[i] : row * m_.row_stride) +
           (a_->column_offsets ? a_->column_offsets[j] : column * m_.column_stride);
  }

 private:
  bool is_inside(const BoxPoint& row, const BoxPoint& column) const {
    if (row.remainder != column.remainder) return false;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const std::int32_t at = row.quotient[axis] + column.quotient[axis];
      if (at < 0 || at >= a_->box[axis]) return false;
    }
    return true;
  }
  MatrixRef m_;
  const OperandAccess* a_;
};

}  // namespace gemm_core
