// Dense problems as work for threads: pack every B, then multiply every tile, of all problems
// together, so that many small ones fill the machine as one large one does. Tiles may be cut along
// k by a stream-K plan.
#pragma once
#include <vector>

#include "gemm_core/collective/cpu_dense_mainloop.hpp"
#include "gemm_core/kernel/stream_k.hpp"

namespace gemm_core {

struct PackedProblem {
  DenseProblem problem;
  void* packed = nullptr;  // packed_bytes(...)
};

// Runs in the caller's task arena; results do not depend on the number of threads.
void run_problems(const std::vector<PackedProblem>& problems);

// How the tiles of one problem are cut along k. `processors` is a number of units, not of threads.
struct CpuSplit {
  kernel::Decomposition decomposition = kernel::Decomposition::data_parallel;
  std::int64_t splits = 1, processors = 16;
  bool deterministic = true;  // partial sums are added in the order of k
};

// Workspace of run_split_problems beyond the packed operands; 0 where no tile is cut.
std::int64_t split_bytes(const CpuAtoms& atoms, const DenseProblem& problem, const CpuSplit& split);
// The problems, all of one shape, each by the same plan; `workspace` (64-byte aligned) serves one
// after the other.
void run_split_problems(const std::vector<PackedProblem>& problems, const CpuSplit& split,
                        void* workspace);

}  // namespace gemm_core
