// What a product on the CPU refuses, and how it says so.
#pragma once
#include "gemm_core/device/gemm.hpp"

namespace gemm_core {

GemmStatus check_gemm(const GemmArguments& arguments);
// Types, alpha, beta, schedule and tiling alone.
GemmStatus check_gemm_types(const GemmArguments& arguments);
// Index lists, scales and zero points by themselves: types, alignment, groups, indices and limits.
GemmStatus check_gemm_side_operands(const GemmArguments& arguments);
GemmStatus check_gemm_schedule(const GemmArguments& arguments);
// Alignment of what epilogue nodes read.
GemmStatus check_gemm_nodes(const GemmArguments& arguments);
// D against itself, A, B and C; each has been checked alone.
GemmStatus check_gemm_overlap(const GemmArguments& arguments);
// D against lists, scales, zero points, metadata and what nodes read; shapes have been checked.
GemmStatus check_gemm_side_overlap(const GemmArguments& arguments);
// The results of an array of pointers against each other.
GemmStatus check_batches_apart(const GemmArguments& arguments);
// D of each group against D, A, B and C of the others; each group has been checked alone.
GemmStatus check_groups_apart(std::span<const GemmArguments> groups);
// What the nodes of a visitor read and write: alignment, against operands and each other.
GemmStatus check_gemm_visitor(const GemmArguments& arguments);

inline bool has_c(const GemmArguments& g) { return g.beta != 0 || g.beta_imag != 0; }
inline std::int64_t columns_of_a(const GemmArguments& g) { return g.a.metadata ? g.k / 2 : g.k; }

// Where the operands of a product that has been checked lie, D first, and what is read beside them;
// one a batch where there is an array of pointers.
struct GemmMemory {
  std::string name;
  ByteSpan span;
};
std::vector<GemmMemory> gemm_memory(const GemmArguments& arguments);

}  // namespace gemm_core
