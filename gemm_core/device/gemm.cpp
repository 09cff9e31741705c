#include "gemm_core/device/gemm.hpp"

#include <algorithm>
#include <functional>

#include "gemm_core/base/error.hpp"
#include "gemm_core/base/parallel.hpp"
#include "gemm_core/device/gemm_checks.hpp"

namespace gemm_core {
namespace {

constexpr std::size_t kAlignment = 64;
// Batches packed at a time: enough to feed the threads, not so many that the panels leave the last
// cache.
constexpr std::int64_t kChunkBytes = 64 << 20;

char* aligned(void* workspace) {
  const auto address = reinterpret_cast<std::uintptr_t>(workspace);
  return reinterpret_cast<char*>((address + kAlignment - 1) / kAlignment * kAlignment);
}

DenseProblem problem_of(const GemmArguments& g, std::int64_t batch) {
  const auto operand = [batch](const GemmOperand& o) {
    const void* data =
        o.pointers ? o.pointers[batch]
        : o.data ? static_cast<const char*>(o.data) + batch * o.batch_stride * base::bytes(o.dtype)
                 : nullptr;
    return MatrixRef{data, o.dtype, o.row_stride, o.column_stride};
  };
  DenseProblem p{
      .m = g.m, .n = g.n, .k = g.k, .a = operand(g.a), .b = operand(g.b), .c = operand(g.c)};
  p.d = g.d.pointers ? g.d.pointers[batch]
        : g.d.data
            ? static_cast<char*>(g.d.data) + batch * g.d.batch_stride * base::bytes(g.d.dtype)
            : nullptr;
  p.d_dtype = g.d.dtype;
  p.d_row_stride = g.d.row_stride;
  p.d_column_stride = g.d.column_stride;
  p.compute = g.compute;
  p.alpha = g.alpha;
  p.beta = g.beta;
  p.epilogue = &g.epilogue;
  p.visitor = g.visitor;
  p.batch = batch;
  return p;
}

bool is_empty(const GemmArguments& g) { return g.m == 0 || g.n == 0 || g.batch == 0; }

void begin_visitor(const GemmArguments& g) {
  if (g.visitor == nullptr) return;
  const DenseProblem shape{.m = g.m, .n = g.n, .k = g.k, .compute = g.compute};
  g.visitor->begin(dense_grid(cpu_atoms(), shape, g.batch));
}

void finish_visitor(const GemmArguments& g) {
  if (g.visitor) g.visitor->finish();
}

struct PackedProblem {
  DenseProblem problem;
  void* packed;
};

// Units of all problems in one loop over threads, so that many small ones fill the machine as one
// large one does.
template <class Count, class Run>
void for_all_units(const std::vector<PackedProblem>& problems, const Count& count, const Run& run) {
  std::vector<std::int64_t> first(problems.size() + 1, 0);
  for (std::size_t i = 0; i < problems.size(); ++i)
    first[i + 1] = first[i] + count(problems[i].problem);
  base::parallel_blocks(first.back(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const auto next = std::upper_bound(first.begin(), first.end(), unit);
      const auto i = static_cast<std::size_t>(next - first.begin() - 1);
      run(problems[i], unit - first[i]);
    }
  });
}

void run_problems(const std::vector<PackedProblem>& problems) {
  const CpuAtoms& atoms = cpu_atoms();
  for_all_units(
      problems, [&](const DenseProblem& p) { return pack_units(atoms, p); },
      [&](const PackedProblem& p, std::int64_t unit) {
        pack_unit(atoms, p.problem, p.packed, unit);
      });
  for_all_units(
      problems, [&](const DenseProblem& p) { return dense_tiles(atoms, p); },
      [&](const PackedProblem& p, std::int64_t tile) {
        run_dense_tile(atoms, p.problem, p.packed, tile);
      });
}

std::int64_t batches_at_once(const GemmArguments& g, std::int64_t bytes_each) {
  return std::clamp<std::int64_t>(kChunkBytes / std::max<std::int64_t>(1, bytes_each), 1,
                                  std::max<std::int64_t>(1, g.batch));
}

GemmStatus check_workspace(const void* workspace, std::size_t bytes, std::size_t needed) {
  using Code = GemmStatus::Code;
  if (bytes < needed || (workspace == nullptr && needed > 0)) {
    return {Code::small_workspace,
            base::concat("gemm: workspace has ", workspace ? bytes : 0, " bytes, needs ", needed)};
  }
  return {};
}

}  // namespace

GemmStatus Gemm::can_implement(const GemmArguments& arguments) { return check_gemm(arguments); }

std::size_t Gemm::workspace_size(const GemmArguments& g) {
  if (!can_implement(g).ok() || is_empty(g)) return 0;
  const std::int64_t each = packed_bytes(cpu_atoms(), problem_of(g, 0));
  return static_cast<std::size_t>(each * batches_at_once(g, each)) + kAlignment;
}

GemmStatus Gemm::initialize(const GemmArguments& arguments, void* workspace, std::size_t bytes) {
  initialized_ = false;
  if (auto status = can_implement(arguments); !status.ok()) return status;
  if (auto status = check_workspace(workspace, bytes, workspace_size(arguments)); !status.ok())
    return status;
  arguments_ = arguments;
  workspace_ = workspace;
  initialized_ = true;
  return {};
}

GemmStatus Gemm::run() {
  if (!initialized_) return {GemmStatus::Code::not_initialized, "gemm: run before initialize"};
  begin_visitor(arguments_);
  if (!is_empty(arguments_)) {
    const std::int64_t each = packed_bytes(cpu_atoms(), problem_of(arguments_, 0));
    const std::int64_t chunk = batches_at_once(arguments_, each);
    for (std::int64_t first = 0; first < arguments_.batch; first += chunk) {
      std::vector<PackedProblem> problems;
      for (std::int64_t l = first; l < std::min(arguments_.batch, first + chunk); ++l) {
        problems.push_back({problem_of(arguments_, l), aligned(workspace_) + (l - first) * each});
      }
      run_problems(problems);
    }
  }
  finish_visitor(arguments_);
  return {};
}

GemmStatus GroupedGemm::can_implement(std::span<const GemmArguments> groups) {
  for (std::size_t i = 0; i < groups.size(); ++i) {
    GemmStatus status =
        groups[i].batch == 1
            ? check_gemm(groups[i])
            : GemmStatus{GemmStatus::Code::unsupported,
                         base::concat("gemm: batch ", groups[i].batch, ", expected 1")};
    if (!status.ok()) {
      status.message = base::concat("group ", i, " of ", groups.size(), ": ", status.message);
      return status;
    }
  }
  return {};
}

std::size_t GroupedGemm::workspace_size(std::span<const GemmArguments> groups) {
  if (!can_implement(groups).ok()) return 0;
  std::int64_t bytes = 0;
  for (const auto& g : groups)
    bytes += is_empty(g) ? 0 : packed_bytes(cpu_atoms(), problem_of(g, 0));
  return bytes == 0 ? 0 : static_cast<std::size_t>(bytes) + kAlignment;
}

GemmStatus GroupedGemm::initialize(std::span<const GemmArguments> groups, void* workspace,
                                   std::size_t bytes) {
  initialized_ = false;
  if (auto status = can_implement(groups); !status.ok()) return status;
  if (auto status = check_workspace(workspace, bytes, workspace_size(groups)); !status.ok())
    return status;
  groups_.assign(groups.begin(), groups.end());
  workspace_ = workspace;
  initialized_ = true;
  return {};
}

GemmStatus GroupedGemm::run() {
  if (!initialized_) {
    return {GemmStatus::Code::not_initialized, "grouped gemm: run before initialize"};
  }
  std::vector<PackedProblem> problems;
  char* packed = aligned(workspace_);
  for (const auto& g : groups_) {
    begin_visitor(g);
    if (is_empty(g)) continue;
    problems.push_back({problem_of(g, 0), packed});
    packed += packed_bytes(cpu_atoms(), problems.back().problem);
  }
  run_problems(problems);
  for (const auto& g : groups_) finish_visitor(g);
  return {};
}

}  // namespace gemm_core
