#include "gemm_core/device/cuda/gather/list_gemm.hpp"

#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/device/cuda/gemm/dense_checks.hpp"
#include "gemm_core/kernel/simt_list_gemm.cuh"

namespace gemm_core::cuda {
namespace {

using base::DType;
using Code = GemmStatus::Code;

std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }

SlotList list_of(const GatherList& list) {
  SlotList to;
  to.data = list.indices.data;
  to.is_long = list.indices.dtype == DType::i64;
  return to;
}

template <class Operand>
PlacedMatrix placed(const Operand& o, std::int64_t rows, std::int64_t columns, DType rounds_to) {
  PlacedMatrix to;
  to.elements.data = o.data;
  to.elements.pointers = const_cast<const void* const*>(o.pointers);
  to.elements.row_stride = o.row_stride;
  to.elements.k_stride = o.column_stride;
  to.elements.batch_stride = o.batch_stride;
  to.elements.type = o.dtype;
  to.elements.rounds_to = rounds_to;
  to.rows = list_of(o.rows);
  to.columns = list_of(o.columns);
  to.row_limit = o.rows.indices ? o.rows.limit : rows;
  to.column_limit = o.columns.indices ? o.columns.limit : columns;
  return to;
}

GemmStatus check_list(const char* operand, const char* side, const GatherList& list, int device) {
  if (!list.indices) return {};
  const std::string name = base::concat(operand, "'s ", side);
  if (list.indices.dtype != DType::i32 && list.indices.dtype != DType::i64)
    return {Code::unsupported, base::concat("gemm on CUDA: the list of ", name, " is of ",
                                            base::name(list.indices.dtype))};
  if (list.limit < 0)
    return {Code::bad_index,
            base::concat("gemm on CUDA: the list of ", name, " has the limit ", list.limit)};
  return check_pointer(base::concat("the list of ", name).c_str(), list.indices.data, device);
}

}  // namespace

bool has_lists(const GemmArguments& g) {
  const auto any = [](const auto& o) { return o.rows.indices || o.columns.indices; };
  return any(g.a) || any(g.b) || any(g.c) || any(g.d);
}

GemmStatus check_list_gemm(const GemmArguments& g) {
  GemmArguments plain = g;
  plain.a.rows = plain.a.columns = plain.b.rows = plain.b.columns = {};
  plain.c.rows = plain.c.columns = plain.d.rows = plain.d.columns = {};
  if (auto s = check_dense(plain); !s.ok()) return s;
  if (is_complex(g.compute) || g.a.scale.data || g.a.zero.data || g.b.scale.data || g.b.zero.data)
    return {Code::unsupported,
            "gemm on CUDA: complex numbers, scales and zero points do not go with gather lists"};
  if (!g.epilogue.nodes.empty())
    return {Code::unsupported, "gemm on CUDA: epilogue nodes do not go with gather lists"};
  if (g.schedule.decomposition != kernel::Decomposition::data_parallel)
    return {Code::unsupported, "gemm on CUDA: gather lists do not go with sums that are cut"};
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return {Code::wrong_device, "no CUDA device"};
  const auto check = [&](const char* name, const auto& o) {
    auto s = check_list(name, "rows", o.rows, device);
    return s.ok() ? check_list(name, "columns", o.columns, device) : s;
  };
  if (auto s = check("operand A", g.a); !s.ok()) return s;
  if (auto s = check("operand B", g.b); !s.ok()) return s;
  if (auto s = check("operand C", g.c); !s.ok()) return s;
  return check("operand D", g.d);
}

void launch_list_gemm(const GemmArguments& g, cudaStream_t stream) {
  SimtListParams p;
  const bool is_integer = g.compute == DType::i8;
  p.a = placed(g.a, g.m, g.k, is_integer ? g.a.dtype : g.compute);
  p.b = placed(g.b, g.k, g.n, is_integer ? g.b.dtype : g.compute);
  p.c = placed(g.c, g.m, g.n, g.c.dtype);
  p.d = placed(g.d, g.m, g.n, g.d.dtype);
  p.m = g.m;
  p.n = g.n;
  p.k = g.k;
  p.alpha = g.alpha;
  p.beta = g.beta;
  using Tile = SimtListTile;
  p.order = kernel::TileOrder({ceil_div(g.m, Tile::kM), ceil_div(g.n, Tile::kN), g.batch},
                              kernel::Raster::heuristic, 8);
  const base::cuda::LaunchShape shape{.grid = dim3(p.order.count()), .block = dim3(Tile::kThreads)};
  if (is_integer)
    base::cuda::launch(simt_list_gemm<std::int32_t>, shape, stream, p);
  else if (g.compute == DType::f64)
    base::cuda::launch(simt_list_gemm<double>, shape, stream, p);
  else
    base::cuda::launch(simt_list_gemm<float>, shape, stream, p);
}

}  // namespace gemm_core::cuda
