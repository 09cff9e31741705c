#include "gemm_core/device/dense_operation.hpp"

#include "gemm_core/base/error.hpp"
#include "gemm_core/device/gemm_checks.hpp"

namespace gemm_core {
namespace {

constexpr std::int64_t kAlignment = 64;

char* aligned(void* workspace) {
  const auto address = reinterpret_cast<std::uintptr_t>(workspace);
  return reinterpret_cast<char*>((address + kAlignment - 1) / kAlignment * kAlignment);
}

}  // namespace

std::size_t products_workspace(const DenseProblem& one, std::int64_t count, const CpuSplit& split) {
  if (one.m == 0 || one.n == 0 || count == 0) return 0;
  return static_cast<std::size_t>(packed_bytes(cpu_atoms(), one) * count +
                                  split_bytes(cpu_atoms(), one, split) + kAlignment);
}

bool packs_within_limit(std::int64_t n, std::int64_t k, std::int64_t count) {
  // Columns fill whole vectors, complex numbers are two reals, words have at most eight bytes.
  constexpr std::int64_t kMostPadding = 64, kMost = std::int64_t{1} << 62;
  std::int64_t bytes = 0;
  return !__builtin_mul_overflow(n, std::int64_t{2}, &bytes) &&
         !__builtin_add_overflow(bytes, kMostPadding, &bytes) &&
         !__builtin_mul_overflow(bytes, k, &bytes) &&
         !__builtin_mul_overflow(bytes, std::int64_t{16}, &bytes) &&
         !__builtin_mul_overflow(bytes, count, &bytes) && bytes < kMost;
}

GemmStatus check_workspace(const char* operation, const void* workspace, std::size_t bytes,
                           std::size_t needed) {
  if (bytes >= needed && (workspace != nullptr || needed == 0)) return {};
  return {
      GemmStatus::Code::small_workspace,
      base::concat(operation, ": workspace has ", workspace ? bytes : 0, " bytes, needs ", needed)};
}

void run_products(const LoweredProducts& lowered, void* workspace) {
  if (lowered.problems.empty() || lowered.problems[0].m == 0 || lowered.problems[0].n == 0) return;
  std::vector<PackedProblem> problems;
  char* packed = aligned(workspace);
  const std::int64_t each = packed_bytes(cpu_atoms(), lowered.problems[0]);
  for (const DenseProblem& p : lowered.problems) {
    problems.push_back({p, packed});
    packed += each;
  }
  run_split_problems(problems, lowered.split, packed);
}

GemmStatus check_product(const char* operation, const GemmArguments& product) {
  GemmStatus status = check_gemm_types(product);
  if (!status.ok()) status.message = operation + status.message.substr(std::string("gemm").size());
  return status;
}

}  // namespace gemm_core
