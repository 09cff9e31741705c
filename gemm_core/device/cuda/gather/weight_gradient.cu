#include "gemm_core/device/cuda/gather/weight_gradient.hpp"

#include <algorithm>

#include "gemm_core/atom/ptx.cuh"
#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/kernel/simt_weight_gradient.cuh"

namespace gemm_core::cuda {
namespace {

using base::DType;

struct Shape {
  int tile_m, tile_n, column_blocks, workers;
};

Shape shape_of(const WeightGradientArguments& a) {
  constexpr int kSimtBlocksPerSm = 4;
  const int m = a.instance != nullptr ? a.instance->tile_m : SimtWeightGradient::kTileM;
  const int n = a.instance != nullptr ? a.instance->tile_n : SimtWeightGradient::kTileN;
  const WeightTile tile(static_cast<int>(a.cout), static_cast<int>(a.cin),
                        static_cast<int>(a.groups), m, n);
  const int blocks = static_cast<int>(a.groups) * tile.per_group();
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  const int resident = base::cuda::device_info(device).multiprocessors *
                       (a.instance != nullptr ? a.instance->blocks_per_sm : kSimtBlocksPerSm);
  return {m, n, blocks, std::max(1, resident / blocks)};
}

WeightGradientParams params_of(const WeightGradientArguments& a, const Shape& shape) {
  WeightGradientParams p;
  p.input = {a.input.data, a.input.stride[0]};
  p.gradient = {a.gradient.data, a.gradient.stride[0]};
  p.pairs = a.pairs;
  p.cin = static_cast<std::int32_t>(a.cin);
  p.cout = static_cast<std::int32_t>(a.cout);
  p.groups = static_cast<std::int32_t>(a.groups);
  p.pieces = a.pieces;
  p.workers = shape.workers;
  return p;
}

constexpr int kSumThreads = 256, kQuad = 4;

// Four input channels a thread: their pieces in the order of the workers.
__global__ void __launch_bounds__(kSumThreads)
    sum_pieces(const __grid_constant__ WeightGradientParams p, int tile_m, int tile_n, float* to) {
  ptx::wait_for_predecessor();
  ptx::allow_successor();
  const WeightTile tile(p.cout, p.cin, p.groups, tile_m, tile_n);
  const int quads = (tile.group_cin + kQuad - 1) / kQuad;
  const std::int64_t item = blockIdx.x * static_cast<std::int64_t>(kSumThreads) + threadIdx.x;
  if (item >= static_cast<std::int64_t>(p.cout) * p.pairs.taps * quads) return;
  const int column = static_cast<int>(item % quads) * kQuad;
  const int tap = static_cast<int>(item / quads % p.pairs.taps);
  const int co = static_cast<int>(item / quads / p.pairs.taps);
  const int group = co / tile.group_cout, row = co % tile.group_cout;
  const int block = group * tile.per_group() + row / tile_m * tile.column_blocks + column / tile_n;
  const int begin = p.pairs.tap_begin[tap] / kPairBlock,
            end = p.pairs.tap_begin[tap + 1] / kPairBlock;
  float sum[kQuad] = {};
  if (begin < end) {
    const PairShares shares(p.pairs.tap_begin[p.pairs.taps] / kPairBlock, p.workers);
    const int first = shares.worker_of(begin), last = shares.worker_of(end - 1);
    const std::int64_t size = static_cast<std::int64_t>(tile_m) * tile_n;
    const float* from =
        p.pieces +
        (static_cast<std::int64_t>(block) * (p.workers + p.pairs.taps) + first + tap) * size +
        row % tile_m * tile_n + column % tile_n;
    // A few pieces at a time, so that their loads are under way together.
    constexpr int kTogether = 4;
    for (int w = first; w <= last; w += kTogether, from += kTogether * size) {
      float4 piece[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
        piece[i] = w + i <= last ? *reinterpret_cast<const float4*>(from + i * size) : float4{};
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        sum[0] += piece[i].x;
        sum[1] += piece[i].y;
        sum[2] += piece[i].z;
        sum[3] += piece[i].w;
      }
    }
  }
  float* const out =
      to + (static_cast<std::int64_t>(co) * p.pairs.taps + tap) * tile.group_cin + column;
  for (int i = 0; i < min(kQuad, tile.group_cin - column); ++i) out[i] = sum[i];
}

void check_matrix(const base::ConstTensorView& v, std::int64_t channels, const char* operand) {
  ENSURE(v.shape.rank() == 2 && v.shape[1] >= channels, "weight gradient: ", operand, " has shape ",
         base::to_string(v.shape), ", expected ", channels, " channels");
  ENSURE(v.device.is_cuda(), "weight gradient: ", operand, " is on ", base::to_string(v.device),
         ", expected a CUDA device");
  ENSURE(v.shape[1] <= 1 || v.stride[1] == 1, "weight gradient: ", operand,
         " has no unit stride along channels");
}

}  // namespace

const Sm90PairInstance* choose_pair_instance(DType compute, std::int64_t cin, std::int64_t cout,
                                             std::int64_t groups, bool is_aligned, int device) {
  if (groups != 1 || !is_aligned) return nullptr;
  const bool is_narrow = compute == DType::f16 || compute == DType::bf16;
  if (!is_narrow && compute != DType::tf32) return nullptr;
  if (is_narrow && !base::cuda::device_info(device).has_wgmma()) return nullptr;
  const auto instances = compute == DType::f16    ? sm90_f16_pair_instances()
                         : compute == DType::bf16 ? sm90_bf16_pair_instances()
                                                  : sm80_tf32_pair_instances();
  // Cycles of a block of pairs on one SM: gathers at about 40 bytes a cycle, products at 2048.
  const auto cost = [&](const Sm90PairInstance& i) {
    const std::int64_t rows = (cout + i.tile_m - 1) / i.tile_m,
                       columns = (cin + i.tile_n - 1) / i.tile_n;
    const auto gathered = static_cast<double>(rows * cin + columns * cout);
    const auto multiplied = static_cast<double>(rows * columns * i.tile_m * i.tile_n);
    return gathered * kPairBlock * 2 / 40 + multiplied * kPairBlock / 2048;
  };
  return &*std::min_element(instances.begin(), instances.end(),
                            [&](const auto& a, const auto& b) { return cost(a) < cost(b); });
}

std::int64_t WeightGradient::piece_floats(const WeightGradientArguments& a) {
  const Shape shape = shape_of(a);
  return static_cast<std::int64_t>(shape.column_blocks) * (shape.workers + a.pairs.taps) *
         shape.tile_m * shape.tile_n;
}

WeightGradient::WeightGradient(const WeightGradientArguments& a) : arguments_(a) {
  ENSURE(a.cin > 0 && a.cout > 0 && a.groups > 0 && a.cin % a.groups == 0 && a.cout % a.groups == 0,
         "weight gradient: ", a.cin, " -> ", a.cout, " channels in ", a.groups, " groups");
  check_matrix(a.input, a.cin, "input");
  check_matrix(a.gradient, a.cout, "gradient");
  ENSURE(a.input.dtype == a.gradient.dtype, "weight gradient: the input holds ",
         base::name(a.input.dtype), ", the gradient ", base::name(a.gradient.dtype));
  ENSURE(a.pairs.tap_begin != nullptr && a.pairs.taps > 0, "weight gradient: no pair lists");
  ENSURE(a.weight_gradient != nullptr && a.pieces != nullptr,
         "weight gradient: nowhere to write to");
  if (a.instance == nullptr) return;
  // Past the last channel a chunk may hold anything: it lands where nobody reads.
  const auto is_aligned = [](const base::ConstTensorView& v) {
    return reinterpret_cast<std::uintptr_t>(v.data) % 16 == 0 &&
           v.stride[0] * base::bytes(v.dtype) % 16 == 0;
  };
  const DType stored = a.instance->element == DType::tf32 ? DType::f32 : a.instance->element;
  ENSURE(stored == a.input.dtype && a.groups == 1 && is_aligned(a.input) && is_aligned(a.gradient),
         "weight gradient: ", a.instance->name, " does not take these operands");
}

void WeightGradient::run(cudaStream_t stream) const {
  const Shape shape = shape_of(arguments_);
  const WeightGradientParams params = params_of(arguments_, shape);
  if (arguments_.instance != nullptr) {
    arguments_.instance->launch(params, shape.column_blocks, stream);
  } else {
    ENSURE(shape.column_blocks <= 65535, "weight gradient: ", shape.column_blocks,
           " blocks of channels are too many");
    base::visit_dtype<float, base::half_t, base::bf16_t>(
        arguments_.input.dtype, "weight gradient", [&]<class T>() {
          base::cuda::launch(simt_weight_gradient<T>,
                             {.grid = dim3(static_cast<unsigned>(shape.workers),
                                           static_cast<unsigned>(shape.column_blocks)),
                              .block = dim3(SimtWeightGradient::kThreads)},
                             stream, params);
        });
  }
  const std::int64_t group_cin = arguments_.cin / arguments_.groups;
  const std::int64_t items =
      arguments_.cout * arguments_.pairs.taps * ((group_cin + kQuad - 1) / kQuad);
  base::cuda::launch(sum_pieces,
                     {.grid = dim3(static_cast<unsigned>((items + kSumThreads - 1) / kSumThreads)),
                      .block = dim3(kSumThreads),
                      .overlap = true},
                     stream, params, shape.tile_m, shape.tile_n, arguments_.weight_gradient);
}

const char* WeightGradient::kernel_name() const {
  return arguments_.instance != nullptr ? arguments_.instance->name : "simt_pairs";
}

}  // namespace gemm_core::cuda
