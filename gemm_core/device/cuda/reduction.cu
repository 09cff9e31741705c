#include "gemm_core/device/cuda/reduction.hpp"

#include <algorithm>
#include <climits>
#include <cmath>
#include <optional>

#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/device/cuda/gemm/dense_checks.hpp"
#include "gemm_core/kernel/reduction.cuh"

namespace gemm_core::cuda {
namespace {

using base::DType;
using Code = GemmStatus::Code;

constexpr std::int64_t kShortRow = 1024;    // terms that a warp reduces
constexpr std::int64_t kUnits = 4096;       // of work, at least, where there are terms for them
constexpr std::int64_t kLeastChunk = 2048;  // terms
constexpr std::int64_t kMostBlocks = 1 << 16;

template <class... Parts>
GemmStatus refuse(Code code, const Parts&... parts) {
  return {code, base::concat("reduction on CUDA: ", parts...)};
}
std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }

// Modes of one sort, the smallest input step first, merged where they follow each other; empty
// where more than eight are left.
std::optional<ReductionSide> side_of(const ReductionArguments& g, bool kept) {
  std::vector<ReductionMode> modes;
  for (const ReductionMode& m : g.modes) {
    if (m.kept == kept && m.extent != 1) modes.push_back(m);
  }
  std::stable_sort(modes.begin(), modes.end(),
                   [](const auto& x, const auto& y) { return std::abs(x.in) < std::abs(y.in); });
  ReductionSide side;
  std::int64_t all = 1;
  for (const ReductionMode& m : modes) {
    const int last = side.count - 1;
    all *= m.extent;
    if (last >= 0 && m.in == side.in[last] * side.extent[last] &&
        m.out == side.out[last] * side.extent[last]) {
      side.extent[last] *= m.extent;
      continue;
    }
    if (side.count == ReductionSide::kMost) return std::nullopt;
    side.extent[side.count] = m.extent;
    side.in[side.count] = m.in;
    side.out[side.count] = m.out;
    ++side.count;
  }
  side.is_small = all < std::int64_t{1} << 32;
  for (int i = 0; i < side.count && side.is_small; ++i)
    side.by[i] =
        base::FastDivMod(static_cast<std::uint32_t>(std::max<std::int64_t>(1, side.extent[i])));
  return side;
}

std::int64_t product(const ReductionArguments& g, bool kept) {
  std::int64_t all = 1;
  for (const ReductionMode& m : g.modes) all *= m.kept == kept ? m.extent : 1;
  return all;
}

struct Lowered {
  ReductionParams params;
  bool along = false, along_vectors = false;
  std::size_t workspace_bytes() const {
    const std::size_t size = params.in_type == DType::f64 ? 8 : 4;
    return params.chunks == 1
               ? 0
               : static_cast<std::size_t>(params.results * params.chunks) * size + 16;
  }
};

// Eight neighbouring results begin at multiples of 16 bytes for every term.
bool takes_result_vectors(const ReductionParams& p) {
  const std::int64_t bytes = base::bytes(p.in_type);
  const auto aligned = [&](std::int64_t step) { return step * bytes % 16 == 0; };
  return is_narrow_float(p.in_type) && p.kept.in[0] == 1 && p.kept.extent[0] % kDenseRun == 0 &&
         reinterpret_cast<std::uintptr_t>(p.input) % 16 == 0 &&
         std::all_of(p.kept.in + 1, p.kept.in + p.kept.count, aligned) &&
         std::all_of(p.reduced.in, p.reduced.in + p.reduced.count, aligned);
}

Lowered lower(const ReductionArguments& g) {
  Lowered lowered;
  ReductionParams& p = lowered.params;
  p.kept = *side_of(g, true);
  p.reduced = *side_of(g, false);
  p.input = g.input.data;
  p.output = g.output.data;
  p.in_type = g.input.dtype;
  p.out_type = g.output.dtype;
  p.kind = g.reduction;
  p.scale = g.scale;
  p.results = product(g, true);
  p.terms = product(g, false);
  if (p.results == 0) return lowered;
  const std::int64_t kept_step = p.kept.count > 0 ? std::abs(p.kept.in[0]) : LLONG_MAX,
                     reduced_step = p.reduced.count > 0 ? std::abs(p.reduced.in[0]) : LLONG_MAX;
  lowered.along = kept_step < reduced_step && p.results >= 32;
  lowered.along_vectors = lowered.along && takes_result_vectors(p);
  const std::int64_t parallel = lowered.along_vectors ? ceil_div(p.results, 256)
                                : lowered.along       ? ceil_div(p.results, 32)
                                                      : p.results;
  const std::int64_t wanted = ceil_div(kUnits, parallel);
  const std::int64_t least = lowered.along ? kLeastChunk / 8 : kLeastChunk;
  p.chunks = static_cast<int>(std::clamp<std::int64_t>(ceil_div(p.terms, least), 1, wanted));
  p.chunk = std::max<std::int64_t>(1, ceil_div(ceil_div(p.terms, p.chunks), 8) * 8);
  p.chunks = static_cast<int>(std::max<std::int64_t>(1, ceil_div(p.terms, p.chunk)));
  const std::int64_t bytes = base::bytes(p.in_type);
  const bool rows_are_aligned =
      reinterpret_cast<std::uintptr_t>(p.input) % 16 == 0 &&
      std::all_of(p.kept.in, p.kept.in + p.kept.count,
                  [&](std::int64_t step) { return step * bytes % 16 == 0; });
  p.vectors = is_narrow_float(p.in_type) && p.reduced.count == 1 && p.reduced.in[0] == 1 &&
              rows_are_aligned;
  return lowered;
}

template <class Sum>
void launch_all(const Lowered& lowered, cudaStream_t stream) {
  const ReductionParams& p = lowered.params;
  const dim3 block(kReductionThreads);
  const auto blocks = [](std::int64_t count) {
    return dim3(static_cast<unsigned>(std::min(count, kMostBlocks)));
  };
  if (lowered.along_vectors) {
    dim3 grid = dim3(static_cast<unsigned>(ceil_div(p.results, 256)));
    grid.y = static_cast<unsigned>(std::min(p.chunks, 65535));
    base::cuda::launch(reduce_along_vectors, {.grid = grid, .block = block}, stream, p);
  } else if (lowered.along) {
    dim3 grid = dim3(static_cast<unsigned>(ceil_div(p.results, 32)));
    grid.y = static_cast<unsigned>(std::min(p.chunks, 65535));
    base::cuda::launch(reduce_along<Sum>, {.grid = grid, .block = block}, stream, p);
  } else if (std::min(p.terms, p.chunk) <= (p.vectors ? 8 : 1) * kShortRow) {
    base::cuda::launch(reduce_across<Sum, 32>,
                       {.grid = blocks(ceil_div(p.results * p.chunks, 8)), .block = block}, stream,
                       p);
  } else {
    base::cuda::launch(reduce_across<Sum, kReductionThreads>,
                       {.grid = blocks(p.results * p.chunks), .block = block}, stream, p);
  }
  if (p.chunks > 1)
    base::cuda::launch(reduce_chunks<Sum>,
                       {.grid = blocks(ceil_div(p.results, kReductionThreads)), .block = block},
                       stream, p);
}

}  // namespace

struct Reduction::Impl {
  Lowered lowered;
  bool initialized = false;
};

Reduction::Reduction() : impl_(std::make_unique<Impl>()) {}
Reduction::~Reduction() = default;
Reduction::Reduction(Reduction&&) noexcept = default;
Reduction& Reduction::operator=(Reduction&&) noexcept = default;

GemmStatus Reduction::can_implement(const ReductionArguments& g) {
  if (auto s = gemm_core::Reduction::can_implement(g); !s.ok()) {
    s.message = "reduction on CUDA" + s.message.substr(std::string("reduction").size());
    return s;
  }
  const auto renamed = [](GemmStatus s) {
    if (!s.ok()) s.message = "reduction" + s.message.substr(std::string("gemm").size());
    return s;
  };
  if (auto s = renamed(check_device()); !s.ok()) return s;
  if (!side_of(g, true) || !side_of(g, false))
    return refuse(Code::unsupported, "more than ", int{ReductionSide::kMost},
                  " modes that cannot be merged");
  if (product(g, true) == 0) return {};
  if (ceil_div(product(g, true), 32) > INT_MAX)
    return refuse(Code::invalid_extent, product(g, true), " results");
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  if (product(g, false) > 0) {
    if (auto s = renamed(check_pointer("the input", g.input.data, device)); !s.ok()) return s;
  }
  return renamed(check_pointer("the output", g.output.data, device));
}

std::size_t Reduction::workspace_size(const ReductionArguments& g) {
  return can_implement(g).ok() ? lower(g).workspace_bytes() : 0;
}

GemmStatus Reduction::initialize(const ReductionArguments& g, void* workspace, std::size_t bytes) {
  impl_->initialized = false;
  if (auto s = can_implement(g); !s.ok()) return s;
  impl_->lowered = lower(g);
  const std::size_t needed = impl_->lowered.workspace_bytes();
  if (needed > 0 && (workspace == nullptr || bytes < needed))
    return refuse(Code::small_workspace, "workspace has ", workspace ? bytes : 0, " bytes, needs ",
                  needed);
  const auto address = (reinterpret_cast<std::uintptr_t>(workspace) + 15) / 16 * 16;
  impl_->lowered.params.partials = reinterpret_cast<void*>(address);
  impl_->initialized = true;
  return {};
}

GemmStatus Reduction::run(cudaStream_t stream) const {
  if (!impl_->initialized)
    return {Code::not_initialized, "reduction on CUDA: run before initialize"};
  const Lowered& lowered = impl_->lowered;
  if (lowered.params.results == 0) return {};
  if (lowered.params.in_type == DType::f64)
    launch_all<double>(lowered, stream);
  else if (lowered.params.in_type == DType::i32)
    launch_all<std::int32_t>(lowered, stream);
  else
    launch_all<float>(lowered, stream);
  return {};
}

}  // namespace gemm_core::cuda
