// The fastest kernels on an H200, as `sparseconv bench gemm --device cuda --tune FILE` wrote them;
// docs/performance_gpu.md says when and how. Sums are not cut here.
#include <algorithm>
#include <array>
#include <string_view>

#include "gemm_core/device/cuda/gemm_tuning.hpp"

namespace gemm_core::cuda {
namespace {

struct Entry {
  std::string_view key, kernel;
};
// Sorted by key.
constexpr std::array<Entry, 0> kEntries{};

}  // namespace

std::string default_kernel(const std::string& key) {
  const auto found = std::lower_bound(
      kEntries.begin(), kEntries.end(), key,
      [](const Entry& entry, const std::string& wanted) { return entry.key < wanted; });
  return found != kEntries.end() && found->key == key ? std::string(found->kernel) : "";
}

}  // namespace gemm_core::cuda
