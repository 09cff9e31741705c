#include "gemm_core/epilogue/node_memory.hpp"

#include <algorithm>

namespace gemm_core {
namespace {

// Lowest and highest offset of a matrix that is read through lists or tables.
void offsets_of(const NodeMemory& x, std::int64_t& low, std::int64_t& high) {
  const Locator locate(x.matrix);
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t j = 0; j < x.columns; ++j) {
      const std::int64_t at = locate(i, j);
      if (at == kAbsent) continue;
      low = std::min(low, at);
      high = std::max(high, at);
    }
  }
}

}  // namespace

bool NodeMemory::is_aligned() const {
  return reinterpret_cast<std::uintptr_t>(matrix.data) %
             static_cast<std::uintptr_t>(base::bytes(matrix.dtype)) ==
         0;
}

std::optional<ByteSpan> NodeMemory::span() const {
  constexpr std::int64_t kMost = std::int64_t{1} << 59;
  std::int64_t low = 0, high = 0;
  const auto add = [&](std::int64_t count, std::int64_t stride) {
    std::int64_t step = 0;
    if (__builtin_mul_overflow(count - 1, stride, &step)) return false;
    std::int64_t& side = step < 0 ? low : high;
    return !__builtin_add_overflow(side, step, &side) && high < kMost && low > -kMost;
  };
  if (matrix.access != nullptr) {
    offsets_of(*this, low, high);
  } else if (!add(rows, matrix.row_stride) || !add(columns, matrix.column_stride)) {
    return std::nullopt;
  }
  if (!add(batch, batch_stride)) return std::nullopt;
  const auto address = reinterpret_cast<std::intptr_t>(matrix.data);
  const std::int64_t size = base::bytes(matrix.dtype);
  return ByteSpan{address + low * size, address + (high + 1) * size};
}

bool NodeMemory::is_same_place(const NodeMemory& o) const {
  const auto agree = [](std::int64_t count, std::int64_t stride, std::int64_t other_stride) {
    return count <= 1 || stride == other_stride;
  };
  return matrix.data == o.matrix.data && matrix.dtype == o.matrix.dtype &&
         matrix.access == nullptr && o.matrix.access == nullptr && rows == o.rows &&
         columns == o.columns && batch == o.batch &&
         agree(rows, matrix.row_stride, o.matrix.row_stride) &&
         agree(columns, matrix.column_stride, o.matrix.column_stride) &&
         agree(batch, batch_stride, o.batch_stride);
}

}  // namespace gemm_core
