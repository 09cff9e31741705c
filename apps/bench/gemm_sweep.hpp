// What `bench gemm` times: problems from ranges, operands in several workspaces, and the naive
// result they are held to.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/command.hpp"
#include "gemm_core/device/gemm_config.hpp"

namespace apps {

struct GemmTask {
  std::int64_t m = 0, n = 0, k = 0, groups = 1;
  std::string layout =
      "nt";  // of A and B as BLAS names them: n rows of A lie one after the other, t turned
  std::string type = "fp32";  // as --dtype names it
  gemm_core::Accumulation accumulation = gemm_core::Accumulation::blocked;
  double flop() const;
  double bytes() const;  // every operand once
  std::string name() const;
};

// "64,128" and "64:512:64" (both ends in), each within [1, limit].
std::vector<std::int64_t> parse_sweep(const std::string& option, const std::string& text,
                                      std::int64_t limit);
// Whether `name` has one of the patterns: a word that it holds, or, with "*" for any text, what the
// whole name looks like; a pattern after "!" excludes. Without patterns that include, every name
// has one.
bool has_pattern(const std::string& name, const std::vector<std::string>& patterns);
// Every combination of --m, --n, --k, --layout and --dtype.
std::vector<GemmTask> gemm_tasks(const Arguments& arguments);
inline constexpr const char* kGemmTypes =
    "fp32, tf32, fp16, bf16, fp64, int8, e4m3, e5m2, int4xfp16, int4xbf16, int8xbf16, e4m3xbf16";

// How far a result may be from its reference. With an epsilon: epsilon * max(|reference|, floor);
// without one: what its roundings allow.
struct Tolerance {
  std::optional<double> epsilon;
  double nonzero_floor = 1.0 / 256;
};
Tolerance gemm_tolerance(const Arguments& arguments);  // --epsilon, --nonzero-floor

// The operands of a task, several times over: what one run leaves in the caches is of no use to the
// next.
class GemmInputs {
 public:
  GemmInputs(const GemmTask& task, int workspaces, std::uint64_t seed);
  // Of each group, on workspace `which`.
  std::vector<gemm_core::GemmArguments> arguments(int which);
  int workspaces() const { return static_cast<int>(sets_.size()); }
  struct Buffers {
    std::span<std::uint8_t> a, b, d;
  };
  Buffers buffers(int which) {
    Set& set = sets_[static_cast<std::size_t>(which)];
    return {set.a, set.b, set.d};
  }
  // The largest error of a run's result on workspace 0, in units of its bound: right where at most
  // 1; against sums in double, or against `reference`, another result (its own errors count too).
  // All elements of small problems, a few thousand of large ones. `share`: how far a sum may be
  // off, as a share of the sum of magnitudes; by default what the CPU's chains of additions allow.
  double worst_error(const Tolerance& tolerance, std::optional<double> share = {},
                     std::span<const std::uint8_t> reference = {});
  // A, B and D of workspace 0 as raw files NAME.a, NAME.b, NAME.d.
  void save(const std::string& stem) const;

 private:
  struct Set {
    std::vector<std::uint8_t> a, b, d;
  };
  double sum_at(std::int64_t group, std::int64_t i, std::int64_t j, double& magnitude);
  GemmTask task_;
  base::DType a_type_, b_type_, d_type_, compute_;
  std::vector<Set> sets_;
};

}  // namespace apps
