#include <algorithm>

#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/device/cuda/conv/conv_tma.hpp"
#include "gemm_core/device/cuda/gemm/gemm_lowering.hpp"

namespace gemm_core::cuda {
namespace {

using base::DType;

std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }

// What the main kernel of a gradient in parts leaves: fp32 sums, packed.
DenseProduct sums_product(const FilterPartsParams& add, const DenseEpilogue& e, void* sums) {
  GemmArguments g;
  g.m = e.m;
  g.n = e.n;
  g.k = 1;
  g.batch = add.parts * (add.count / (e.m * e.n));
  g.d.data = sums;
  g.d.dtype = DType::f32;
  g.d.row_stride = g.n;
  g.d.batch_stride = g.m * g.n;
  return lower_product(g);
}

}  // namespace

void add_classes(std::vector<LoweredClass>& classes, int processors,
                 std::vector<LoweredConv>& launches) {
  const auto stages = [](const LoweredClass& x) { return x.lowered.params.gemm.problem.k_stages; };
  std::stable_sort(
      classes.begin(), classes.end(),
      [&](const LoweredClass& x, const LoweredClass& y) { return stages(x) > stages(y); });
  for (std::size_t first = 0; first < classes.size(); first += Sm90StridedParams::kMostClasses) {
    const std::size_t end = std::min(classes.size(), first + Sm90StridedParams::kMostClasses);
    auto params = std::make_shared<Sm90StridedParams>();
    LoweredConv lowered;
    lowered.instance = classes[first].lowered.instance;
    params->b = classes[first].lowered.params.gemm.problem.b;
    params->epilogue = classes[first].lowered.params.gemm.problem.epilogue;
    for (std::size_t i = first; i < end; ++i) {
      const Sm90ConvParams& from = classes[i].lowered.params;
      StridedClass& to = params->classes[params->count++];
      to.a = from.gemm.problem.a;
      to.address = from.address;
      to.rows = classes[i].rows;
      to.order = from.gemm.order;
      to.first_tile = params->tiles;
      to.m = static_cast<int>(classes[i].m);
      to.k_stages = from.gemm.problem.k_stages;
      params->tiles += to.order.count();
      lowered.cycles += classes[i].lowered.cycles;
    }
    lowered.clusters = static_cast<int>(std::min<std::int64_t>(params->tiles, processors));
    lowered.strided = std::move(params);
    launches.push_back(std::move(lowered));
  }
}

void LoweredConv::bind(std::uint32_t* flags, void* sums) {
  Sm90GemmParams& gemm = params.gemm;
  gemm.partials.flags = flags;
  gemm.partials.sums = sums;
  if (!parts) return;
  parts->sums = static_cast<const float*>(sums);
  const DenseEpilogue result = gemm.problem.epilogue;
  set_store(gemm.problem, sums_product(*parts, result, sums), false);
}

void LoweredConv::launch(cudaStream_t stream) const {
  if (strided)
    instance->launch_classes(*strided, clusters, stream);
  else
    instance->launch(params, walk, clusters, stream);
  if (!parts) return;
  constexpr int kThreads = 256;
  const auto blocks = static_cast<unsigned>(ceil_div(parts->count, 4 * kThreads));
  base::cuda::launch(add_filter_parts<kThreads>, {.grid = dim3(blocks), .block = dim3(kThreads)},
                     stream, *parts);
}

}  // namespace gemm_core::cuda
