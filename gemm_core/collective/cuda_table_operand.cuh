// Operands found by tables, on the device: what collective/operand.hpp says of an OperandAccess,
// with tables in device memory. A *line* is a row of A or a column of B; element (line, k).
#pragma once
#include "gemm_core/collective/cuda_operand_loads.cuh"
#include "gemm_core/collective/operand.hpp"

namespace gemm_core {

struct TableView {
  // Null: line * line_stride, k * k_stride.
  const std::int64_t* line_offsets = nullptr;
  const std::int64_t* k_offsets = nullptr;
  std::int64_t line_stride = 0, k_stride = 0;
  // Both or neither; boxes as in BoxPoint.
  const BoxPoint* line_points = nullptr;
  const BoxPoint* k_points = nullptr;
  std::int32_t box[3] = {1, 1, 1};
  // Joint index, where the batch has slots.
  const std::int64_t* line_slots = nullptr;
  const std::int64_t* k_slots = nullptr;
  std::int64_t slot_pitch = 0;
  bool slots_are_64 = false;
  // 2:4 along k: the elements are [lines, k / 2].
  const std::uint8_t* metadata = nullptr;
  std::int64_t metadata_pitch = 0;

  std::int64_t lines = 0;
  base::DType type = base::DType::f32, rounds_to = base::DType::f32;
  bool is_plain = false;   // elements are stored as they are multiplied
  bool vectors = false;    // 16 bytes along k lie side by side, aligned, present or absent together
  bool k_fastest = false;  // neighbours along k are neighbours in memory
};

// Where an operand of one batch begins.
struct TableData {
  const void* data = nullptr;
  const void* slots = nullptr;
};

// What does not depend on k.
struct TableLine {
  std::int64_t line = 0, offset = 0, slot = 0;
  BoxPoint point;
  bool exists = false;
};

__device__ __forceinline__ TableLine find_line(const TableView& v, std::int64_t line) {
  TableLine at;
  at.line = line;
  at.exists = line < v.lines;
  if (!at.exists) return at;
  at.offset = v.line_offsets != nullptr ? v.line_offsets[line] : line * v.line_stride;
  if (v.line_points != nullptr) at.point = v.line_points[line];
  if (v.line_slots != nullptr) at.slot = v.line_slots[line];
  return at;
}

// Element k of the line as an offset from the data, or kAbsent.
__device__ __forceinline__ std::int64_t find_element(const TableView& v, const void* slots,
                                                     const TableLine& line, std::int64_t k) {
  if (!line.exists) return kAbsent;
  if (v.line_points != nullptr) {
    const BoxPoint point = v.k_points[k];
    bool is_inside = point.remainder == line.point.remainder;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
      const std::int32_t at = point.quotient[axis] + line.point.quotient[axis];
      is_inside = is_inside && at >= 0 && at < v.box[axis];
    }
    if (!is_inside) return kAbsent;
  }
  std::int64_t moved = 0;
  if (slots != nullptr) {
    const std::int64_t at = line.slot + (v.k_slots != nullptr ? v.k_slots[k] : 0);
    const std::int64_t slot = v.slots_are_64 ? static_cast<const std::int64_t*>(slots)[at]
                                             : static_cast<const std::int32_t*>(slots)[at];
    if (slot < 0) return kAbsent;
    moved = slot * v.slot_pitch;
  }
  if (v.metadata != nullptr) {
    const int columns =
        v.metadata[line.line * v.metadata_pitch + k / 8] >> (static_cast<int>(k / 4 % 2) * 4);
    const int column = static_cast<int>(k % 4);
    if ((columns & 3) == column) return line.offset + (k / 4 * 2) * v.k_stride;
    if ((columns >> 2 & 3) == column) return line.offset + (k / 4 * 2 + 1) * v.k_stride;
    return kAbsent;
  }
  return moved + line.offset + (v.k_offsets != nullptr ? v.k_offsets[k] : k * v.k_stride);
}

// An element as it is multiplied; not inlined: small code, and the table look-ups cost more.
template <class Value>
__device__ __noinline__ Value table_value(const TableView& v, const void* data, std::int64_t at) {
  if constexpr (std::is_same_v<Value, float>) {
    const float x = is_integer_type(v.type) ? static_cast<float>(load_integer(data, v.type, at))
                                            : load_value(data, v.type, at);
    return v.type == v.rounds_to ? x : rounded_value(x, v.rounds_to);
  } else if constexpr (std::is_same_v<Value, std::int32_t>) {
    return load_integer(data, v.type, at);
  } else {
    return static_cast<const Value*>(data)[at];
  }
}

}  // namespace gemm_core
