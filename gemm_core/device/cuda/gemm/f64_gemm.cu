#include "gemm_core/device/cuda/gemm/f64_gemm.hpp"

#include <algorithm>

#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/device/cuda/tensor_map.hpp"
#include "gemm_core/kernel/sm90_f64_gemm.cuh"

namespace gemm_core::cuda {
namespace {

using Tile = Sm90F64Tile;

// The majors of a product, as names and kernels know them.
struct Majors {
  const char* name;
  bool k_major_a, k_major_b;
  void (*kernel)(const Sm90F64Params);
};
const Majors kMajors[] = {{"f64_kk_128x128", true, true, sm90_f64_gemm<true, true>},
                          {"f64_kn_128x128", true, false, sm90_f64_gemm<true, false>},
                          {"f64_mk_128x128", false, true, sm90_f64_gemm<false, true>},
                          {"f64_mn_128x128", false, false, sm90_f64_gemm<false, false>}};

std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }

std::optional<CUtensorMap> map_of(const DenseOperand& o, std::int64_t k, std::int64_t batch,
                                  bool k_major) {
  auto desc = lines_of(o, k, batch, k_major);
  if (!desc) return std::nullopt;
  desc->box_inner = Tile::kBox;
  desc->box_rows = k_major ? Tile::kM : Tile::kStageK;
  return make_tensor_map(*desc);
}

}  // namespace

std::optional<LoweredGemm> lower_to_f64(const DenseProduct& p, std::uint32_t group,
                                        int multiprocessors) {
  constexpr std::int64_t kLimit = (std::int64_t{1} << 31) - 512;  // coordinates are 32-bit
  if (p.compute != base::DType::f64 || p.k == 0 || p.m >= kLimit || p.n >= kLimit)
    return std::nullopt;
  for (const Majors& majors : kMajors) {
    const auto a = map_of(p.a, p.k, p.batch, majors.k_major_a);
    const auto b = map_of(p.b, p.k, p.batch, majors.k_major_b);
    if (!a || !b) continue;
    LoweredGemm lowered;
    lowered.name = majors.name;
    Sm90F64Params& params = lowered.params.emplace<Sm90F64Params>();
    params.a = *a;
    params.b = *b;
    params.batch_step_a = p.a.batch_stride != 0 ? 1 : 0;
    params.batch_step_b = p.b.batch_stride != 0 ? 1 : 0;
    params.k_stages = static_cast<int>(ceil_div(p.k, Tile::kStageK));
    params.order = kernel::TileOrder({ceil_div(p.m, Tile::kM), ceil_div(p.n, Tile::kN), p.batch},
                                     kernel::Raster::heuristic, group);
    params.epilogue = p.epilogue;
    lowered.blocks =
        static_cast<int>(std::min<std::int64_t>(params.order.count(), multiprocessors));
    return lowered;
  }
  return std::nullopt;
}

void launch_f64_gemm(const LoweredGemm& lowered, cudaStream_t stream) {
  for (const Majors& majors : kMajors) {
    if (lowered.name != majors.name) continue;
    base::cuda::allow_shared_memory(majors.kernel, Tile::kSharedBytes);
    base::cuda::launch(majors.kernel,
                       {.grid = dim3(static_cast<unsigned>(lowered.blocks)),
                        .block = dim3(Tile::kThreads),
                        .shared_bytes = Tile::kSharedBytes},
                       stream, std::get<Sm90F64Params>(lowered.params));
  }
}

}  // namespace gemm_core::cuda
