#include "gemm_core/device/gemm.hpp"

#include <algorithm>

#include "gemm_core/base/error.hpp"
#include "gemm_core/device/dense_operation.hpp"
#include "gemm_core/device/gemm_checks.hpp"
#include "gemm_core/device/gemm_config.hpp"
#include "gemm_core/kernel/cpu_dense_kernel.hpp"

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

// What the operands of all batches say beyond strides. Problems point into it.
struct Accesses {
  OperandAccess a, b, c, d;
  explicit Accesses(const GemmArguments& g) : a(of(g.a)), b(of(g.b)), c(of(g.c)) {
    d.row_index = g.d.rows.indices;
    d.column_index = g.d.columns.indices;
  }

 private:
  static OperandAccess of(const GemmOperand& o) {
    OperandAccess access;
    access.row_index = o.rows.indices;
    access.column_index = o.columns.indices;
    access.scale = o.scale;
    access.zero = o.zero;
    access.metadata = o.metadata;
    access.metadata_pitch = o.metadata_pitch;
    access.conjugate = o.conjugate;
    return access;
  }
};

bool is_plain(const GemmOperand& o) {
  return !(o.rows.indices || o.columns.indices || o.scale.data || o.zero.data || o.metadata ||
           o.conjugate);
}

MatrixRef matrix_of(const GemmOperand& o, std::int64_t batch, const OperandAccess& access) {
  const void* data =
      o.pointers ? o.pointers[batch]
      : o.data ? static_cast<const char*>(o.data) + batch * o.batch_stride * base::bits(o.dtype) / 8
               : nullptr;
  return {data, o.dtype, o.row_stride, o.column_stride, is_plain(o) ? nullptr : &access};
}

std::int64_t chain_of(const GemmArguments& g) {
  constexpr std::int64_t kPromoted = 128;
  switch (g.accumulation) {
    case Accumulation::promoted:
      return kPromoted;
    case Accumulation::fast:
      return std::max<std::int64_t>(2, g.k);
    default:
      return 0;
  }
}

DenseProblem problem_of(const GemmArguments& g, std::int64_t batch, const Accesses& accesses) {
  DenseProblem p{.m = g.m,
                 .n = g.n,
                 .k = g.k,
                 .a = matrix_of(g.a, batch, accesses.a),
                 .b = matrix_of(g.b, batch, accesses.b),
                 .c = matrix_of(g.c, batch, accesses.c)};
  p.d = g.d.pointers ? g.d.pointers[batch]
        : g.d.data
            ? static_cast<char*>(g.d.data) + batch * g.d.batch_stride * base::bytes(g.d.dtype)
            : nullptr;
  p.d_dtype = g.d.dtype;
  p.d_row_stride = g.d.row_stride;
  p.d_column_stride = g.d.column_stride;
  p.d_access = g.d.rows.indices || g.d.columns.indices ? &accesses.d : nullptr;
  p.compute = g.compute;
  p.alpha = g.alpha;
  p.beta = g.beta;
  p.alpha_imag = g.alpha_imag;
  p.beta_imag = g.beta_imag;
  p.epilogue = &g.epilogue;
  p.visitor = g.visitor;
  p.batch = batch;
  p.chain = chain_of(g);
  p.tiling = g.tiling;
  return p;
}

// Sizes do not depend on what operands say beyond their types.
DenseProblem sizes_of(const GemmArguments& g) {
  DenseProblem p = problem_of(g, 0, Accesses(g));
  p.a.access = p.b.access = p.c.access = p.d_access = nullptr;
  return p;
}

CpuSplit split_of(const GemmArguments& g) {
  return {g.schedule.decomposition, g.schedule.splits, g.schedule.processors,
          g.schedule.deterministic};
}

bool is_empty(const GemmArguments& g) { return g.m == 0 || g.n == 0 || g.batch == 0; }

void begin_visitor(const GemmArguments& g) {
  if (g.visitor) g.visitor->begin(dense_grid(cpu_atoms(), sizes_of(g), g.batch));
}

void finish_visitor(const GemmArguments& g) {
  if (g.visitor) g.visitor->finish();
}

std::int64_t batches_at_once(const GemmArguments& g, std::int64_t bytes_each) {
  return std::clamp<std::int64_t>(kChunkBytes / std::max<std::int64_t>(1, bytes_each), 1,
                                  std::max<std::int64_t>(1, g.batch));
}

GemmArguments with_tiling(GemmArguments g) {
  g.tiling = select_tiling(g);
  return g;
}

GemmStatus check_workspace(const void* workspace, std::size_t bytes, std::size_t needed) {
  using Code = GemmStatus::Code;
  if (bytes < needed || (workspace == nullptr && needed > 0)) {
    return {Code::small_workspace,
            base::concat("gemm: workspace has ", workspace ? bytes : 0, " bytes, needs ", needed)};
  }
  return {};
}

void run_batches(const GemmArguments& g, void* workspace) {
  begin_visitor(g);
  if (!is_empty(g)) {
    const Accesses accesses(g);
    const std::int64_t each = packed_bytes(cpu_atoms(), sizes_of(g));
    const std::int64_t chunk = batches_at_once(g, each);
    char* const packed = aligned(workspace);
    for (std::int64_t first = 0; first < g.batch; first += chunk) {
      std::vector<PackedProblem> problems;
      for (std::int64_t l = first; l < std::min(g.batch, first + chunk); ++l)
        problems.push_back({problem_of(g, l, accesses), packed + (l - first) * each});
      run_split_problems(problems, split_of(g), packed + chunk * each);
    }
  }
  finish_visitor(g);
}

void run_groups(const std::vector<GemmArguments>& groups, void* workspace) {
  std::vector<PackedProblem> problems;
  std::vector<Accesses> accesses;  // problems point into it
  accesses.reserve(groups.size());
  char* packed = aligned(workspace);
  for (const auto& g : groups) {
    begin_visitor(g);
    if (is_empty(g)) continue;
    accesses.emplace_back(g);
    problems.push_back({problem_of(g, 0, accesses.back()), packed});
    packed += packed_bytes(cpu_atoms(), problems.back().problem);
  }
  run_problems(problems);
  for (const auto& g : groups) finish_visitor(g);
}

}  // namespace

GemmStatus Gemm::can_implement(const GemmArguments& arguments) { return check_gemm(arguments); }

std::size_t Gemm::workspace_size(const GemmArguments& g) {
  if (!can_implement(g).ok() || is_empty(g)) return 0;
  const DenseProblem sizes = sizes_of(with_tiling(g));
  const std::int64_t each = packed_bytes(cpu_atoms(), sizes);
  return static_cast<std::size_t>(each * batches_at_once(g, each) +
                                  split_bytes(cpu_atoms(), sizes, split_of(g))) +
         kAlignment;
}

GemmStatus Gemm::initialize(const GemmArguments& arguments, void* workspace, std::size_t bytes) {
  initialized_ = false;
  if (auto status = can_implement(arguments); !status.ok()) return status;
  if (auto status = check_workspace(workspace, bytes, workspace_size(arguments)); !status.ok())
    return status;
  arguments_ = with_tiling(arguments);
  workspace_ = workspace;
  bytes_ = bytes;
  initialized_ = true;
  return {};
}

GemmStatus Gemm::update(const GemmArguments& arguments) {
  if (!initialized_) return {GemmStatus::Code::not_initialized, "gemm: update before initialize"};
  return initialize(arguments, workspace_, bytes_);
}

GemmStatus Gemm::run() {
  if (!initialized_) return {GemmStatus::Code::not_initialized, "gemm: run before initialize"};
  return run_within_memory("gemm", [&] { run_batches(arguments_, workspace_); });
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
  return check_groups_apart(groups);
}

std::size_t GroupedGemm::workspace_size(std::span<const GemmArguments> groups) {
  if (!can_implement(groups).ok()) return 0;
  std::int64_t bytes = 0;
  for (const auto& g : groups) bytes += is_empty(g) ? 0 : packed_bytes(cpu_atoms(), sizes_of(g));
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
  return run_within_memory("grouped gemm", [&] { run_groups(groups_, workspace_); });
}

}  // namespace gemm_core
