#include "gemm_core/device/cuda/mixed/mixed_lowering.hpp"

#include <algorithm>

#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/device/cuda/mixed/few_rows.hpp"
#include "gemm_core/device/cuda/tensor_map.hpp"
#include "gemm_core/kernel/sm90_mixed_gemm.cuh"

namespace gemm_core::cuda {
namespace {

using base::DType;

std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }

std::optional<NarrowFormat> format_of(DType type) {
  switch (type) {
    case DType::i8:
    case DType::u8:
      return NarrowFormat::bits_8;
    case DType::i4:
    case DType::u4:
      return NarrowFormat::bits_4;
    case DType::i2:
    case DType::u2:
      return NarrowFormat::bits_2;
    case DType::e4m3:
    case DType::e5m2:
      return NarrowFormat::fp8;
    default:
      return std::nullopt;
  }
}

// The sides of a product: the kernel's rows are those of the weights.
struct Sides {
  const DenseOperand& weights;
  const DenseOperand& wide;
  bool weights_are_rows;
};
std::optional<Sides> sides_of(const DenseProduct& p) {
  if (p.b.type == p.compute && format_of(p.a.type)) return Sides{p.a, p.b, true};
  if (p.a.type == p.compute && format_of(p.b.type)) return Sides{p.b, p.a, false};
  return std::nullopt;
}

// Bytes from one row to the next where rows lie along k at multiples of 16 bytes.
std::optional<std::int64_t> row_bytes(const DenseOperand& o, const DenseProduct& p) {
  const std::int64_t bits = base::bits(o.type);
  const auto is_whole = [&](std::int64_t stride) {
    return stride >= 0 && stride * bits % 128 == 0;
  };
  if (o.pointers != nullptr || (o.k_stride != 1 && p.k > 1) ||
      reinterpret_cast<std::uintptr_t>(o.data) % 16 != 0 ||
      (o.rows > 1 && !is_whole(o.row_stride)) || (p.batch > 1 && !is_whole(o.batch_stride))) {
    return std::nullopt;
  }
  return o.rows > 1 ? o.row_stride * bits / 8 : ceil_div(p.k * bits, 128) * 16;
}

// Groups along k are multiples of `step`, or one of all of k; offsets fit 32 bits.
bool takes_groups(const DenseOperand& o, std::int64_t k, int step) {
  const auto is_legal = [&](const GroupedRef& g) {
    return g.data == nullptr ||
           ((g.k_group >= k || g.k_group % step == 0) && std::abs(g.row_stride) < (1 << 30) &&
            o.rows / g.row_group * std::abs(g.row_stride) < (1 << 30));
  };
  return is_legal(o.scale) && is_legal(o.zero);
}

MixedGroups groups_of(const GroupedRef& g, const DenseProduct& p, const DenseOperand& weights) {
  MixedGroups to;
  if (g.data == nullptr) return to;
  to.data = g.data;
  to.type = g.type;
  to.k_group = static_cast<int>(std::min(g.k_group, p.k));
  to.row_group = static_cast<int>(std::min(g.row_group, weights.rows));
  to.row_stride = static_cast<int>(g.row_stride);
  to.k_stride = g.k_stride;
  to.last_offset = (p.k - 1) / to.k_group * g.k_stride;
  return to;
}

ScaleMath math_of(const DenseOperand& o, DType compute) {
  const bool has_scale = o.scale.data != nullptr, has_zero = o.zero.data != nullptr;
  if (!has_scale && !has_zero) return ScaleMath::none;
  if (!has_scale || o.scale.type != compute || (has_zero && o.zero.type != compute))
    return ScaleMath::wide;
  return has_zero ? ScaleMath::scale_zero : ScaleMath::scale;
}

std::int64_t tile_count(const MixedInstance& instance, const DenseProduct& p, const Sides& sides) {
  return ceil_div(sides.weights.rows, instance.tile_m) *
         ceil_div(sides.wide.rows, instance.tile_n) * p.batch;
}

kernel::CutPlan plan_for(const MixedInstance& instance, const DenseProduct& p, const Sides& sides,
                         int multiprocessors) {
  using kernel::CutPlan;
  using kernel::Decomposition;
  const auto tiles = static_cast<std::uint32_t>(tile_count(instance, p, sides));
  const auto k_tiles = static_cast<std::uint32_t>(ceil_div(p.k, instance.stage_k));
  const auto processors = static_cast<std::uint32_t>(multiprocessors);
  constexpr std::uint32_t kLeast = 2;  // k-tiles a unit: below, adding costs more than it gains
  switch (p.schedule.decomposition) {
    case Decomposition::split_k:
      return CutPlan::split_k(
          tiles, k_tiles,
          static_cast<std::uint32_t>(std::min<std::int64_t>(p.schedule.splits, k_tiles)));
    case Decomposition::stream_k:
      return CutPlan::stream_k(tiles, k_tiles, processors, kLeast);
    case Decomposition::heuristic: {
      // Nearly full waves stay whole. Few tiles: even shares of each where they fill the machine,
      // else of the whole line.
      const std::uint32_t waves = (tiles + processors - 1) / processors;
      if (10 * tiles >= 9 * waves * processors || k_tiles < 2 * kLeast)
        return CutPlan::whole_tiles(tiles, k_tiles);
      if (10 * (processors / tiles) * tiles >= 9 * processors)
        return CutPlan::split_k(tiles, k_tiles, std::min(processors / tiles, k_tiles / kLeast));
      return CutPlan::stream_k(tiles, k_tiles, processors, kLeast);
    }
    default:
      return CutPlan::whole_tiles(tiles, k_tiles);
  }
}

}  // namespace

std::optional<LoweredGemm> lower_to(const MixedInstance& instance, const DenseProduct& p,
                                    std::uint32_t group, int multiprocessors) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 30;  // coordinates are 32-bit
  const auto sides = sides_of(p);
  if (!sides || instance.compute != p.compute ||
      format_of(sides->weights.type) != instance.format || p.k == 0 || p.k >= kLimit ||
      sides->weights.rows >= kLimit || sides->wide.rows >= kLimit ||
      !takes_groups(sides->weights, p.k, instance.scale_k) || sides->wide.scale.data != nullptr ||
      (is_for_few_rows(instance) && math_of(sides->weights, p.compute) == ScaleMath::wide) ||
      sides->wide.zero.data != nullptr) {
    return std::nullopt;
  }
  constexpr double kMostStages = 2e9;  // of all tiles: counted in 32 bits
  if (static_cast<double>(tile_count(instance, p, *sides)) *
          static_cast<double>(ceil_div(p.k, instance.stage_k)) >
      kMostStages) {
    return std::nullopt;
  }
  const auto bytes = row_bytes(sides->weights, p), wide_bytes = row_bytes(sides->wide, p);
  if (!bytes || !wide_bytes) return std::nullopt;
  const DenseOperand& weights = sides->weights;
  const bool shares = p.batch == 1 || weights.batch_stride == 0;
  TensorMapDesc desc{
      .data = weights.data,
      .element = DType::u8,
      .inner = ceil_div(p.k * instance.bits, 8),
      .rows = weights.rows,
      .batch = shares ? 1 : p.batch,
      .row_stride = *bytes,
      .batch_stride = shares ? *bytes * weights.rows : weights.batch_stride * instance.bits / 8,
      .box_inner = instance.line_bytes,
      .box_rows = std::min(instance.tile_m, kMostBoxRows),
      .line_bytes = instance.line_bytes};
  const auto map = make_tensor_map(desc);
  if (!map) return std::nullopt;

  LoweredGemm lowered;
  lowered.mixed = &instance;
  lowered.name = instance.name;
  Sm90MixedParams& params = lowered.params.emplace<Sm90MixedParams>();
  MixedOperands& o = params.operands;
  o.weights = *map;
  o.weight_batch_step = shares ? 0 : 1;
  o.code = {.is_signed =
                weights.type == DType::i8 || weights.type == DType::i4 || weights.type == DType::i2,
            .is_e5m2 = weights.type == DType::e5m2};
  o.weight_rows = static_cast<int>(weights.rows);
  o.k = static_cast<int>(p.k);
  o.wide = sides->wide.data;
  o.wide_rows = static_cast<int>(sides->wide.rows);
  o.wide_row_stride = sides->wide.row_stride;
  o.wide_batch_stride = sides->wide.batch_stride;
  o.math = math_of(weights, p.compute);
  o.scale = groups_of(weights.scale, p, weights);
  o.zero = groups_of(weights.zero, p, weights);
  params.order = kernel::TileOrder({ceil_div(weights.rows, instance.tile_m),
                                    ceil_div(sides->wide.rows, instance.tile_n), p.batch},
                                   kernel::Raster::heuristic, group);
  params.plan = plan_for(instance, p, *sides, multiprocessors);
  params.epilogue = p.epilogue;
  params.weights_are_rows = sides->weights_are_rows;
  lowered.blocks = std::min(static_cast<int>(params.plan.units()), multiprocessors);
  if (params.plan.is_cut()) {
    const std::size_t slots = params.plan.units();
    lowered.flag_bytes =
        (slots * static_cast<std::size_t>(instance.tile_m / 64) * 4 + 255) / 256 * 256;
    lowered.sum_bytes = slots * static_cast<std::size_t>(instance.sum_bytes);
  }
  return lowered;
}

double estimate_cycles(const MixedInstance& instance, const DenseProduct& p, int multiprocessors) {
  const auto sides = sides_of(p);
  if (!sides) return 0;
  // A stage multiplies at the rate of the tensor cores (2048 products a cycle, narrow tiles and
  // mma.sync at most half of it), reads its bytes at 20 a cycle, converts its words of weights, and
  // gets its activations.
  const double k = static_cast<double>(instance.stage_k);
  const double multiply =
      instance.tile_m * instance.tile_n * k / 2048 / (instance.tile_n < 128 ? 0.5 : 0.85);
  const double bytes = instance.tile_m * k * instance.bits / 8 / 20;
  const double words = bytes * 20 / 4 / 32;  // of a warp
  // Measured: warps that wait for their products, and warps that do not.
  const bool is_few = is_for_few_rows(instance);
  const double convert = words * (is_few ? 13 : 17);
  // Many rows of activations wait for the producers' loads (measured).
  const double produce =
      is_few ? 0 : 300 + (instance.tile_n < 128 ? 0.05 : 0.33) * instance.tile_n * k;
  const kernel::CutPlan plan = plan_for(instance, p, *sides, multiprocessors);
  const double tiles = static_cast<double>(tile_count(instance, p, *sides));
  const double shares =
      plan.is_cut()
          ? tiles / static_cast<double>(std::min<std::int64_t>(plan.units(), multiprocessors))
          : static_cast<double>(ceil_div(tile_count(instance, p, *sides), multiprocessors));
  const double stages = static_cast<double>(ceil_div(p.k, instance.stage_k));
  return shares * (stages * std::max({multiply, produce, bytes, convert}) + 3000) + 3000;
}

std::vector<const MixedInstance*> mixed_candidates(const DenseProduct& p, int multiprocessors) {
  std::vector<const MixedInstance*> list;
  for (const MixedInstance* instance : mixed_instances()) {
    if (lower_to(*instance, p, 8, multiprocessors)) list.push_back(instance);
  }
  std::stable_sort(list.begin(), list.end(), [&](const auto* x, const auto* y) {
    return estimate_cycles(*x, p, multiprocessors) < estimate_cycles(*y, p, multiprocessors);
  });
  return list;
}

}  // namespace gemm_core::cuda
