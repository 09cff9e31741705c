// Structured sparse A: of every four columns of a row, two are kept.
//   prune_2to4(a);                                   // the two largest magnitudes stay, the others
//   become 0 const SparseMatrix sparse = compress_2to4(a);    // half the values, and two bits for
//   each GemmArguments args{...};  args.a = sparse.operand();  // any real compute type, any
//   epilogue or visitor tree
#pragma once
#include <vector>

#include "gemm_core/device/gemm.hpp"

namespace gemm_core {

struct SparseMatrix {
  std::int64_t rows = 0, columns = 0;  // of the matrix that it stands for
  base::DType dtype = base::DType::f32;
  std::vector<std::uint8_t> values;  // [rows, columns / 2]
  std::vector<std::uint8_t>
      metadata;  // [rows, ceil(columns / 8)]: 4 bits a group, the lower column first
  std::int64_t metadata_pitch() const { return (columns + 7) / 8; }
  GemmOperand operand() const;
};

// f32, f16, bf16, e4m3, e5m2, i8 of [rows, columns] with rows `row_stride` elements apart; columns
// a multiple of 4.
struct DenseRows {
  void* data = nullptr;
  base::DType dtype = base::DType::f32;
  std::int64_t rows = 0, columns = 0, row_stride = 0;
};

// Of equal magnitudes the lower columns stay. O(rows * columns).
void prune_2to4(const DenseRows& matrix);
// base::Error names the row and the first column of a group with more than two values other than 0.
SparseMatrix compress_2to4(const DenseRows& matrix);

}  // namespace gemm_core
