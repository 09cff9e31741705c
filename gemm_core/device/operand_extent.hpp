// How far operands of a product reach.
#pragma once
#include <array>
#include <cstdint>

#include "gemm_core/base/dtype.hpp"

namespace gemm_core {

struct Axis {
  std::int64_t count = 0, stride = 0;
};

// [rows, columns, batch]; one pointer a batch leaves two axes.
template <class Operand>
std::array<Axis, 3> axes_of(const Operand& o, std::int64_t rows, std::int64_t columns,
                            std::int64_t batch) {
  return {Axis{o.rows.indices ? o.rows.limit : rows, o.row_stride},
          Axis{o.columns.indices ? o.columns.limit : columns, o.column_stride},
          o.pointers ? Axis{1, 0} : Axis{batch, o.batch_stride}};
}

// Bytes that an operand covers, relative to its pointer: [low, high).
struct Extent {
  std::int64_t low = 0, high = 0;
};

template <class Operand>
bool extent_of(const Operand& o, const std::array<Axis, 3>& axes, Extent& extent) {
  std::int64_t low = 0, high = 0;
  for (const Axis& axis : axes) {
    if (axis.count == 0) continue;  // an empty buffer behind an index list
    std::int64_t step = 0;
    if (__builtin_mul_overflow(axis.count - 1, axis.stride, &step)) return false;
    std::int64_t& side = step < 0 ? low : high;
    if (__builtin_add_overflow(side, step, &side)) return false;
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 59;
  if (high > kMost || low < -kMost) return false;
  const std::int64_t size = base::bits(o.dtype);
  if (size == 128 && (high > kMost / 2 || low < -kMost / 2)) return false;
  extent = size >= 8 ? Extent{low * (size / 8), (high + 1) * (size / 8)}
                     : Extent{(low * size - 7) / 8, ((high + 1) * size + 7) / 8};
  return true;
}

}  // namespace gemm_core
