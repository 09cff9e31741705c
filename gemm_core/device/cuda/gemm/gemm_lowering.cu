#include "gemm_core/device/cuda/gemm/gemm_lowering.hpp"

#include <algorithm>
#include <cstdlib>

#include "gemm_core/base/cuda/cuda_check.hpp"
#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/device/cuda/dense_node.hpp"
#include "gemm_core/device/cuda/gemm/complex_gemm.hpp"
#include "gemm_core/device/cuda/gemm/f64_gemm.hpp"
#include "gemm_core/device/cuda/tensor_map.hpp"

namespace gemm_core::cuda {
namespace {

using base::DType;

std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }

DType storage(DType compute) { return compute == DType::tf32 ? DType::f32 : compute; }

bool is_aligned(const void* data, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(bytes) == 0;
}

// Rows of at least eight contiguous elements start at multiples of eight elements, or of 16 bytes.
bool takes_vectors(const DenseMatrix& x, std::int64_t rows, std::int64_t columns,
                   std::int64_t batch) {
  if (!is_narrow_float(x.type) || x.pointers != nullptr) return false;
  const std::int64_t size = base::bytes(x.type), per_vector = 16 / size;
  return (x.column_stride == 1 || columns == 1) && is_aligned(x.data, 16) &&
         (rows == 1 || x.row_stride % per_vector == 0) &&
         (batch == 1 || x.batch_stride % per_vector == 0);
}

template <class Operand>
DenseMatrix matrix_of(const Operand& o) {
  DenseMatrix x;
  x.data = const_cast<void*>(static_cast<const void*>(o.data));
  x.pointers = const_cast<void* const*>(static_cast<const void* const*>(o.pointers));
  x.row_stride = o.row_stride;
  x.column_stride = o.column_stride;
  x.batch_stride = o.batch_stride;
  x.type = o.dtype;
  return x;
}

GroupedRef groups_of(const GroupedValues& v, bool k_is_columns) {
  GroupedRef to{v.data, v.dtype, v.row_stride, v.column_stride, v.row_group, v.column_group};
  if (!k_is_columns) {
    std::swap(to.row_stride, to.k_stride);
    std::swap(to.row_group, to.k_group);
  }
  return to;
}

DenseOperand operand_of(const GemmOperand& from, std::int64_t rows, bool k_is_columns,
                        DType compute) {
  DenseOperand to;
  to.data = from.data;
  to.pointers = from.pointers;
  to.row_stride = k_is_columns ? from.row_stride : from.column_stride;
  to.k_stride = k_is_columns ? from.column_stride : from.row_stride;
  to.batch_stride = from.batch_stride;
  to.rows = rows;
  to.type = from.dtype;
  to.rounds_to = compute;
  to.scale = groups_of(from.scale, k_is_columns);
  to.zero = groups_of(from.zero, k_is_columns);
  return to;
}

// DenseEpilogue::fuses.
bool can_fuse(const DenseProduct& p) {
  const DenseEpilogue& e = p.epilogue;
  if ((e.beta == 0 && e.count == 0) || p.n % 8 != 0 || (e.beta != 0 && !e.c.vectors)) return false;
  return std::all_of(e.nodes, e.nodes + e.count, [](const DenseNode& node) {
    return node.kind != EpilogueNode::Kind::add || node.aux_vectors;
  });
}

DenseStoreMode store_mode(const DenseProduct& p, bool sums_are_integers) {
  const DenseEpilogue& e = p.epilogue;
  const bool is_plain = e.beta == 0 && e.count == 0;
  if ((!is_plain && (sums_are_integers || !e.fuses)) || e.d.pointers != nullptr ||
      (e.d.column_stride != 1 && p.n > 1)) {
    return DenseStoreMode::rows;
  }
  switch (e.d.type) {
    case DType::f16:
    case DType::bf16:
      return DenseStoreMode::bulk_16;
    case DType::f32:
      return DenseStoreMode::bulk_32;
    case DType::i32:
      return sums_are_integers ? DenseStoreMode::bulk_32 : DenseStoreMode::rows;
    default:
      return DenseStoreMode::rows;
  }
}

std::optional<CUtensorMap> map_of_d(const DenseProduct& p) {
  const DenseMatrix& d = p.epilogue.d;
  const std::int64_t bytes = base::bytes(d.type);
  // A bulk copy writes whole pieces of 16 bytes, past the end of a row too.
  if (p.n * bytes % 16 != 0) return std::nullopt;
  TensorMapDesc desc;
  desc.data = d.data;
  desc.element = d.type;
  desc.inner = p.n;
  desc.rows = p.m;
  desc.batch = p.batch;
  const std::int64_t whole_line = ceil_div(p.n * bytes, 16) * 16;
  desc.row_stride = p.m > 1 ? d.row_stride * bytes : whole_line;
  desc.batch_stride = p.batch > 1 ? d.batch_stride * bytes : whole_line * p.m;
  desc.box_inner = static_cast<int>(128 / bytes);
  desc.box_rows = 64;
  return make_tensor_map(desc);
}

}  // namespace

std::optional<TensorMapDesc> lines_of(const DenseOperand& o, std::int64_t k, std::int64_t batch,
                                      bool k_major) {
  const std::int64_t inner = k_major ? k : o.rows, outer = k_major ? o.rows : k;
  const std::int64_t inner_stride = k_major ? o.k_stride : o.row_stride;
  const std::int64_t outer_stride = k_major ? o.row_stride : o.k_stride;
  if (o.pointers != nullptr || (inner > 1 && inner_stride != 1)) return std::nullopt;
  TensorMapDesc desc;
  desc.data = o.data;
  desc.element = o.type;
  desc.inner = inner;
  desc.rows = outer;
  const std::int64_t bytes = base::bytes(o.type);
  const std::int64_t whole_line = ceil_div(inner * bytes, 16) * 16;
  desc.row_stride = outer > 1 ? outer_stride * bytes : whole_line;
  desc.batch = batch > 1 && o.batch_stride != 0 ? batch : 1;
  desc.batch_stride = desc.batch > 1 ? o.batch_stride * bytes : whole_line * outer;
  return desc;
}

DenseProduct lower_product(const GemmArguments& g) {
  DenseProduct p;
  p.batch = g.batch;
  p.compute = g.compute;
  p.accumulation = g.accumulation;
  p.schedule = g.schedule;
  p.m = g.m;
  p.n = g.n;
  p.k = g.k;
  p.a = operand_of(g.a, g.m, true, g.compute);
  p.b = operand_of(g.b, g.n, false, g.compute);
  DenseEpilogue& e = p.epilogue;
  e.c = matrix_of(g.c);
  e.d = matrix_of(g.d);
  e.alpha_64 = g.alpha;
  e.beta_64 = g.beta;
  e.alpha = static_cast<float>(g.alpha);
  e.beta = static_cast<float>(g.beta);
  const bool is_column_major = g.n > 1 && g.d.column_stride != 1 && g.d.row_stride == 1;
  if (is_column_major && g.epilogue.nodes.empty()) {
    std::swap(p.a, p.b);
    std::swap(p.m, p.n);
    std::swap(e.c.row_stride, e.c.column_stride);
    std::swap(e.d.row_stride, e.d.column_stride);
  } else {
    e.rows_first = is_column_major;
  }
  e.m = p.m;
  e.n = p.n;
  e.c.vectors = takes_vectors(e.c, p.m, p.n, p.batch);
  e.d.vectors = takes_vectors(e.d, p.m, p.n, p.batch);
  for (const EpilogueNode& node : g.epilogue.nodes) e.nodes[e.count++] = device_node(node);
  e.fuses = can_fuse(p);
  for (int i = e.count; i-- > 0 && e.fuses;) {
    if (e.nodes[i].kind == EpilogueNode::Kind::add && base::bits(e.nodes[i].aux_type) == 16)
      e.early_add = i;
  }
  return p;
}

void set_store(Sm90GemmProblem& problem, const DenseProduct& p, bool sums_are_integers) {
  problem.epilogue = p.epilogue;
  problem.mode = store_mode(p, sums_are_integers);
  if (problem.mode == DenseStoreMode::rows) return;
  if (const auto map_d = map_of_d(p))
    problem.d = *map_d;
  else
    problem.mode = DenseStoreMode::rows;
}

std::optional<Sm90GemmProblem> problem_for(const DenseInstance& instance, const DenseProduct& p) {
  const DType stored = storage(instance.element);
  const bool is_fp8_fast = is_fp8(p.compute) && p.accumulation == Accumulation::fast;
  constexpr std::int64_t kLimit = (std::int64_t{1} << 31) - 512;  // coordinates are 32-bit
  if (instance.element != p.compute || p.a.type != stored || p.b.type != stored || p.k == 0 ||
      p.m >= kLimit || p.n >= kLimit || p.a.is_scaled() || p.b.is_scaled() ||
      (is_fp8(p.compute) && instance.promotes == is_fp8_fast)) {
    return std::nullopt;
  }
  auto a = lines_of(p.a, p.k, p.batch, instance.k_major_a);
  auto b = lines_of(p.b, p.k, p.batch, instance.k_major_b);
  if (!a || !b) return std::nullopt;
  constexpr int kSpanBytes = 128;
  a->box_inner = b->box_inner = static_cast<int>(kSpanBytes / base::bytes(stored));
  // MN-major: boxes of 64 rows by one stage of k.
  a->box_rows = instance.k_major_a ? instance.box_rows_a : instance.stage_k;
  b->box_rows = instance.k_major_b ? instance.box_rows_b : instance.stage_k;
  const auto map_a = make_tensor_map(*a), map_b = make_tensor_map(*b);
  if (!map_a || !map_b) return std::nullopt;

  Sm90GemmProblem problem;
  problem.a = *map_a;
  problem.b = *map_b;
  problem.batch_step_a = a->batch > 1 ? 1 : 0;
  problem.batch_step_b = b->batch > 1 ? 1 : 0;
  problem.k_stages = static_cast<int>(ceil_div(p.k, instance.stage_k));
  set_store(problem, p, instance.element == DType::i8);
  return problem;
}

kernel::StreamKPlan plan_for(const DenseInstance& instance, const DenseProduct& p,
                             int multiprocessors) {
  // Consumers that take tiles in turn do not share sums.
  const auto how =
      instance.alternates ? kernel::Decomposition::data_parallel : p.schedule.decomposition;
  return kernel::plan_stream_k({cluster_tiles(instance, p), ceil_div(p.k, instance.stage_k),
                                multiprocessors / instance.cluster},
                               {how, p.schedule.splits});
}

std::optional<LoweredGemm> lower_to(const DenseInstance& instance, const DenseProduct& p,
                                    std::uint32_t group, int multiprocessors) {
  const auto problem = problem_for(instance, p);
  if (!problem) return std::nullopt;
  LoweredGemm lowered;
  lowered.instance = &instance;
  lowered.name = instance.name;
  Sm90GemmParams& params = lowered.params.emplace<Sm90GemmParams>();
  params.problem = *problem;
  params.order = kernel::TileOrder(
      {ceil_div(p.m, instance.tile_m * instance.cluster), ceil_div(p.n, instance.tile_n), p.batch},
      kernel::Raster::heuristic, group);
  const int clusters = multiprocessors / instance.cluster;
  params.plan = plan_for(instance, p, multiprocessors);
  if (params.plan.stream_units() > 0) {
    lowered.walk = DenseWalk::splits;
    lowered.blocks = static_cast<int>(params.plan.workers());
    const auto slots = static_cast<std::size_t>(params.plan.stream_units() * instance.cluster);
    lowered.flag_bytes =
        ceil_div(static_cast<std::int64_t>(slots) * instance.tile_m / 64 * 4, 256) * 256;
    lowered.sum_bytes = slots * static_cast<std::size_t>(instance.tile_m * instance.tile_n) * 4;
  } else {
    lowered.blocks = static_cast<int>(std::min<std::int64_t>(params.order.count(), clusters));
  }
  return lowered;
}

void LoweredGemm::bind(void* workspace, cudaStream_t stream) {
  if (sum_bytes == 0) return;
  const auto address = (reinterpret_cast<std::uintptr_t>(workspace) + 255) / 256 * 256;
  PartialSums& partials = mixed ? std::get<Sm90MixedParams>(params).partials
                                : std::get<Sm90GemmParams>(params).partials;
  partials.flags = reinterpret_cast<std::uint32_t*>(address);
  partials.sums = reinterpret_cast<char*>(address) + flag_bytes;
  CUDA_CHECK(cudaMemsetAsync(partials.flags, 0, flag_bytes, stream));
}

LoweredGemm lower_to_fallback(const DenseProduct& p, std::uint32_t group) {
  LoweredGemm lowered;
  const bool is_integer = p.compute == DType::i8,
             both_i8 = p.a.type == DType::i8 && p.b.type == DType::i8;
  const bool by_mma = (is_integer && both_i8) || p.compute == DType::f16 ||
                      p.compute == DType::bf16 || p.compute == DType::tf32 ||
                      p.compute == DType::f64 || is_fp8(p.compute);
  // fp8 values are f16 values.
  const DType element = is_fp8(p.compute) ? DType::f16 : p.compute;
  const auto order = kernel::TileOrder({ceil_div(p.m, 128), ceil_div(p.n, 128), p.batch},
                                       kernel::Raster::heuristic, group);
  lowered.blocks = static_cast<int>(std::min<std::int64_t>(order.count(), 0x7fffffff));
  if (by_mma) {
    Sm80GemmParams& params = lowered.params.emplace<Sm80GemmParams>();
    params.a = p.a;
    params.b = p.b;
    params.k = p.k;
    params.order = order;
    params.epilogue = p.epilogue;
    const DType stored = storage(element);
    const std::int64_t bytes = base::bytes(stored);
    for (DenseOperand* o : {&params.a, &params.b}) {
      o->is_plain = o->type == stored && o->type == storage(p.compute) && !o->is_scaled();
      o->vectors = o->is_plain && o->pointers == nullptr && o->k_stride == 1 &&
                   is_aligned(o->data, 16) && o->row_stride * bytes % 16 == 0 &&
                   o->batch_stride * bytes % 16 == 0;
    }
    lowered.fallback_type = element;
    lowered.name = base::concat("sm80_", base::name(element));
  } else {
    SimtGemmParams& params = lowered.params.emplace<SimtGemmParams>();
    params.a = p.a;
    params.b = p.b;
    params.k = p.k;
    params.order = order;
    params.epilogue = p.epilogue;
    for (DenseOperand* o : {&params.a, &params.b})
      o->is_plain = o->type == p.compute && !o->is_scaled();
    lowered.fallback_type = is_integer ? DType::i32 : p.compute;
    lowered.name = base::concat("simt_", base::name(lowered.fallback_type));
  }
  return lowered;
}

void launch(const LoweredGemm& l, cudaStream_t stream) {
  if (const auto* sm90 = std::get_if<Sm90GemmParams>(&l.params))
    l.instance->launch(*sm90, l.walk, l.blocks, stream);
  else if (const auto* mixed = std::get_if<Sm90MixedParams>(&l.params))
    l.mixed->launch(*mixed, l.blocks, stream);
  else if (std::holds_alternative<Sm90F64Params>(l.params))
    launch_f64_gemm(l, stream);
  else if (const auto* complex = std::get_if<ComplexGemmParams>(&l.params))
    launch_complex_gemm(*complex, l.blocks, stream);
  else if (const auto* sm80 = std::get_if<Sm80GemmParams>(&l.params))
    launch_sm80_gemm(l.fallback_type, *sm80, l.blocks, stream);
  else if (const auto* simt = std::get_if<SimtGemmParams>(&l.params))
    launch_simt_gemm(l.fallback_type, *simt, l.blocks, stream);
}

double tile_cycles(const DenseInstance& instance, const DenseProduct& p) {
  // A stage multiplies 64 x n x 128 bytes a warpgroup in 4 n cycles at best. Narrow tiles read more
  // shared memory for each product than it gives.
  const double shared = instance.cluster > 1 ? 0.9 : 0.75;  // B read once for two blocks
  const double efficiency = instance.tile_n >= 256 ? 1 : instance.tile_n >= 128 ? shared : 0.55;
  const double stage = 4.0 * instance.tile_n / efficiency;
  const bool is_plain = p.epilogue.count == 0 && p.epilogue.beta == 0;
  const double store = (1000 + 8.0 * instance.tile_n) * (is_plain ? 1 : 3);
  const double multiply = static_cast<double>(ceil_div(p.k, instance.stage_k)) * stage;
  // Consumers that take tiles in turn store while others multiply.
  return instance.alternates ? std::max(multiply, (multiply + 2 * store) / 2) : multiply + store;
}

std::int64_t cluster_tiles(const DenseInstance& instance, const DenseProduct& p) {
  return ceil_div(p.m, instance.tile_m * instance.cluster) * ceil_div(p.n, instance.tile_n) *
         p.batch;
}

double estimate_cycles(const DenseInstance& instance, const DenseProduct& p, int multiprocessors) {
  const std::int64_t clusters = multiprocessors / instance.cluster;
  const std::int64_t tiles = cluster_tiles(instance, p);
  const kernel::StreamKPlan plan = plan_for(instance, p, multiprocessors);
  if (plan.stream_units() > 0) {
    // Even shares, and partial sums that are written and read once more.
    constexpr double kFixUp = 4000;
    return static_cast<double>(tiles) / static_cast<double>(std::min(clusters, plan.units())) *
               tile_cycles(instance, p) +
           kFixUp;
  }
  return static_cast<double>(ceil_div(tiles, clusters)) * tile_cycles(instance, p);
}

}  // namespace gemm_core::cuda
