// The coordinates and kernel maps of one frame, built on the CPU from a plan.
#pragma once
#include <vector>

#include "sparseconv/kernel_map.hpp"
#include "sparseconv/plan.hpp"

namespace sparseconv::cpu {

// Rows of a merged level: output row o sums rows `row[i]` of part `part[i]`, begin[o] <= i <
// begin[o + 1].
struct MergeMap {
  base::Buffer<std::int64_t> begin;
  base::Buffer<std::int32_t> part, row;
};

struct Frame {
  std::vector<CoordinatesPtr> levels;  // null where unused, or where rows are points
  std::vector<MergeMap> merges;        // of a level
  std::vector<KernelMapPtr> maps;      // null where a map needs no table
  std::vector<std::int64_t> rows;      // of a level
  base::BlockCachePtr cache;           // where all of these get their memory
  std::int64_t nbytes() const;
  void clear();
};

// Error naming the node that derives a level where coordinates leave the key range, or that joins
// levels which are not equal row by row.
void build_frame(const Plan& plan, const CoordinatesPtr& input, std::int64_t points, Frame& frame);

}  // namespace sparseconv::cpu
