// Runs an epilogue program on a block of fp32 accumulators and stores the result.
#pragma once
#include "gemm_core/atom/cpu_atoms.hpp"
#include "gemm_core/epilogue/epilogue.hpp"

namespace gemm_core {

// Error naming the node and the extent where the program does not fit an [m, n] result of
// `operation`.
void check_epilogue(const Epilogue& epilogue, std::int64_t m, std::int64_t n,
                    const char* operation);

// Element (0, 0) of `block` is row m0, column n0 of the result. The block's values are overwritten
// on the way.
void run_epilogue(const CpuAtoms& atoms, const Epilogue& epilogue, const Block& block,
                  std::int64_t m0, std::int64_t n0, const base::TensorView& output);

// The nodes alone: the block holds the result.
void run_epilogue_nodes(const CpuAtoms& atoms, const Epilogue& epilogue, const Block& block,
                        std::int64_t m0, std::int64_t n0);

// The rows of other matrices that the nodes read under rows [m0, m0 + rows) and columns [n0, n0 +
// columns) of the result.
void ask_for_operands(const Epilogue& epilogue, std::int64_t m0, std::int64_t rows, std::int64_t n0,
                      std::int64_t columns, Ahead& ahead);

inline const Epilogue kNoEpilogue;

}  // namespace gemm_core
