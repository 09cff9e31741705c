// Tells repeated indices of a list apart: a bit for each index that there may be, unless their
// limit is far beyond the list. O(1) an index.
#pragma once
#include <cstdint>
#include <unordered_set>
#include <vector>

namespace gemm_core {

class DistinctIndices {
 public:
  // Indices are 0 .. limit - 1, and about `count` of them will be asked about.
  DistinctIndices(std::int64_t limit, std::int64_t count)
      : is_dense_(limit / 64 <= count), seen_(is_dense_ ? static_cast<std::size_t>(limit) : 0) {}

  // Whether this index comes for the first time.
  bool is_new(std::int64_t index) {
    if (!is_dense_) return others_.insert(index).second;
    const auto i = static_cast<std::size_t>(index);
    if (seen_[i]) return false;
    seen_[i] = true;
    return true;
  }

 private:
  bool is_dense_;
  std::vector<bool> seen_;
  std::unordered_set<std::int64_t> others_;
};

}  // namespace gemm_core
