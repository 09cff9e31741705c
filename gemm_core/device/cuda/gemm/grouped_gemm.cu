#include <algorithm>
#include <cstring>
#include <numeric>

#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/device/cuda/gemm/complex_gemm.hpp"
#include "gemm_core/device/cuda/gemm/dense_checks.hpp"
#include "gemm_core/device/cuda/gemm/gemm.hpp"
#include "gemm_core/device/cuda/gemm/gemm_lowering.hpp"

namespace gemm_core::cuda {
namespace {

using Code = GemmStatus::Code;

constexpr std::size_t kAlignment = 256;
std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

const base::cuda::DeviceInfo& current_device() {
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  return base::cuda::device_info(device);
}

// How the groups are computed: those of `common` in one launch of `instance`, the others alone.
struct Grouping {
  const DenseInstance* instance = nullptr;
  std::vector<DenseProduct> common, others;  // none of them empty; common: longest k first
  std::vector<Sm90GemmProblem> problems;     // of common
  std::int64_t tiles = 0;                    // of clusters

  std::size_t problem_bytes() const { return aligned(problems.size() * sizeof(Sm90GemmProblem)); }
  std::size_t bytes() const {
    return problems.empty() ? 0
                            : problem_bytes() + kAlignment +
                                  static_cast<std::size_t>(tiles) * sizeof(GroupTileRecord);
  }
};

double work_of(const DenseProduct& p) {
  return static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
}

Grouping group_products(std::span<const GemmArguments> groups) {
  std::vector<DenseProduct> products;
  for (const GemmArguments& g : groups) {
    if (g.m > 0 && g.n > 0 && !is_complex(g.compute)) products.push_back(lower_product(g));
  }
  std::stable_sort(products.begin(), products.end(),
                   [](const auto& x, const auto& y) { return x.k > y.k; });
  Grouping best;
  double most = 0, least = 0;
  if (current_device().has_wgmma()) {
    for (const DenseInstance* instance : dense_instances()) {
      double work = 0, cycles = 0;
      for (const DenseProduct& p : products) {
        if (!problem_for(*instance, p)) continue;
        work += work_of(p);
        cycles += static_cast<double>(cluster_tiles(*instance, p) * instance->cluster) *
                  tile_cycles(*instance, p);
      }
      if (work > most || (work == most && work > 0 && cycles < least)) {
        best.instance = instance;
        most = work;
        least = cycles;
      }
    }
  }
  for (DenseProduct& p : products) {
    const auto problem = best.instance ? problem_for(*best.instance, p) : std::nullopt;
    if (problem) {
      best.tiles += cluster_tiles(*best.instance, p);
      best.problems.push_back(*problem);
    }
    (problem ? best.common : best.others).push_back(p);
  }
  return best;
}

std::vector<GroupTileRecord> tiles_of(const Grouping& grouping) {
  std::vector<GroupTileRecord> tiles;
  tiles.reserve(static_cast<std::size_t>(grouping.tiles));
  const int rows = grouping.instance->tile_m * grouping.instance->cluster;
  for (std::size_t i = 0; i < grouping.common.size(); ++i) {
    const DenseProduct& p = grouping.common[i];
    // Down the rows first: neighbouring tiles share B.
    for (std::int64_t n = 0; n < p.n; n += grouping.instance->tile_n) {
      for (std::int64_t m = 0; m < p.m; m += rows)
        tiles.push_back({static_cast<std::int32_t>(m), static_cast<std::int32_t>(n),
                         static_cast<std::int32_t>(i), grouping.problems[i].k_stages});
    }
  }
  return tiles;
}

}  // namespace

struct GroupedGemm::Impl {
  std::vector<LoweredGemm> launches;
  bool initialized = false;
};

GroupedGemm::GroupedGemm() : impl_(std::make_unique<Impl>()) {}
GroupedGemm::~GroupedGemm() = default;
GroupedGemm::GroupedGemm(GroupedGemm&&) noexcept = default;
GroupedGemm& GroupedGemm::operator=(GroupedGemm&&) noexcept = default;

GemmStatus GroupedGemm::can_implement(std::span<const GemmArguments> groups) {
  for (std::size_t i = 0; i < groups.size(); ++i) {
    GemmStatus status =
        groups[i].batch == 1
            ? check_dense(groups[i])
            : GemmStatus{Code::unsupported,
                         base::concat("gemm on CUDA: batch ", groups[i].batch, ", expected 1")};
    if (!status.ok()) {
      status.message = base::concat("group ", i, " of ", groups.size(), ": ", status.message);
      return status;
    }
  }
  return {};
}

std::size_t GroupedGemm::workspace_size(std::span<const GemmArguments> groups) {
  return can_implement(groups).ok() ? group_products(groups).bytes() : 0;
}

std::string GroupedGemm::common_kernel(std::span<const GemmArguments> groups) {
  if (!can_implement(groups).ok()) return "";
  const Grouping grouping = group_products(groups);
  const bool is_real = std::none_of(groups.begin(), groups.end(),
                                    [](const GemmArguments& g) { return is_complex(g.compute); });
  return is_real && grouping.instance && grouping.others.empty() ? grouping.instance->name : "";
}

GemmStatus GroupedGemm::initialize(std::span<const GemmArguments> groups, void* workspace,
                                   std::size_t bytes, cudaStream_t stream) {
  impl_->initialized = false;
  impl_->launches.clear();
  if (auto s = can_implement(groups); !s.ok()) return s;
  const Grouping grouping = group_products(groups);
  const std::size_t needed = grouping.bytes();
  if (needed > 0 && (workspace == nullptr || bytes < needed)) {
    return {Code::small_workspace, base::concat("grouped gemm on CUDA: workspace has ",
                                                workspace ? bytes : 0, " bytes, needs ", needed)};
  }
  if (grouping.tiles > 0xffffffff) {
    return {Code::invalid_extent,
            base::concat("grouped gemm on CUDA: ", grouping.tiles, " tiles, the limit is 2^32")};
  }
  if (grouping.tiles > 0) {
    // One block of host memory, one copy.
    const std::vector<GroupTileRecord> tiles = tiles_of(grouping);
    const std::size_t tile_bytes = tiles.size() * sizeof(GroupTileRecord);
    std::vector<char> host(grouping.problem_bytes() + tile_bytes);
    std::memcpy(host.data(), grouping.problems.data(),
                grouping.problems.size() * sizeof(Sm90GemmProblem));
    std::memcpy(host.data() + grouping.problem_bytes(), tiles.data(), tile_bytes);
    char* const to = reinterpret_cast<char*>(aligned(reinterpret_cast<std::uintptr_t>(workspace)));
    CUDA_CHECK(cudaMemcpyAsync(to, host.data(), host.size(), cudaMemcpyHostToDevice, stream));

    LoweredGemm& common = impl_->launches.emplace_back();
    common.instance = grouping.instance;
    common.name = grouping.instance->name;
    common.walk = DenseWalk::groups;
    common.blocks = static_cast<int>(std::min<std::int64_t>(
        grouping.tiles, current_device().multiprocessors / grouping.instance->cluster));
    Sm90GemmParams& params = common.params.emplace<Sm90GemmParams>();
    params.groups = reinterpret_cast<const Sm90GemmProblem*>(to);
    params.group_tiles = reinterpret_cast<const GroupTileRecord*>(to + grouping.problem_bytes());
    params.group_count = static_cast<int>(grouping.problems.size());
    params.group_tile_count = static_cast<std::uint32_t>(grouping.tiles);
  }
  for (const GemmArguments& g : groups) {
    if (g.m > 0 && g.n > 0 && is_complex(g.compute)) impl_->launches.push_back(lower_complex(g, 8));
  }
  for (const DenseProduct& p : grouping.others) impl_->launches.push_back(lower_to_fallback(p, 8));
  impl_->initialized = true;
  return {};
}

GemmStatus GroupedGemm::run(cudaStream_t stream) const {
  if (!impl_->initialized)
    return {Code::not_initialized, "grouped gemm on CUDA: run before initialize"};
  for (const LoweredGemm& lowered : impl_->launches) launch(lowered, stream);
  return {};
}

std::string GroupedGemm::kernel_name() const {
  return !impl_->launches.empty() && impl_->launches[0].instance ? impl_->launches[0].name : "none";
}
std::size_t GroupedGemm::launches() const { return impl_->launches.size(); }

}  // namespace gemm_core::cuda
