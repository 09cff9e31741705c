// What the nodes of an epilogue read and write, as matrices: for the operation that runs them to
// hold against its own operands, and against each other.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gemm_core/collective/operand.hpp"

namespace gemm_core {

// Bytes from the first to behind the last, as addresses.
struct ByteSpan {
  std::intptr_t from = 0, to = 0;
  bool meets(const ByteSpan& other) const { return from < other.to && other.from < to; }
};

// [rows, columns] x batch elements, whose data is not null.
struct NodeMemory {
  std::string name;
  MatrixRef matrix;  // strides in elements
  std::int64_t rows = 1, columns = 1, batch = 1, batch_stride = 0;
  bool is_written = false;

  bool is_aligned() const;
  // Empty where strides reach more than 2^59 elements.
  std::optional<ByteSpan> span() const;
  // Whether element (i, j) of a batch is at one address in both, and of one type.
  bool is_same_place(const NodeMemory& other) const;
};

}  // namespace gemm_core
