// Blocks of operands as the 32-bit words that dot-product instructions read: four bytes or two
// bf16, consecutive along k. Ranges count words along k; past `limit` elements of k, zero.
#pragma once
#include "gemm_core/collective/cpu_block_loads.hpp"

namespace gemm_core {

// `raised`: 128 is added to each value, so that signed ones become unsigned.
void load_quads_along_rows(const MatrixRef& from, const BlockRange& words, std::int64_t limit,
                           bool raised, std::int32_t* to, std::int64_t ld);
void load_quads_down_columns(const MatrixRef& from, const BlockRange& words, std::int64_t limit,
                             std::int32_t* to, std::int64_t ld);
void load_bf16_along_rows(const CpuAtoms& atoms, const MatrixRef& from, const BlockRange& words,
                          std::int64_t limit, std::uint32_t* to, std::int64_t ld);
void load_bf16_down_columns(const CpuAtoms& atoms, const MatrixRef& from, const BlockRange& words,
                            std::int64_t limit, std::uint32_t* to, std::int64_t ld);

}  // namespace gemm_core
