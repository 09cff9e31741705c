#include "gemm_core/device/cuda/gemm/complex_gemm.hpp"

#include <algorithm>

namespace gemm_core::cuda {
namespace {

using Tile = ComplexGemmTile;

std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }

template <class Operand>
ComplexMatrix matrix_of(const Operand& o, std::int64_t rows, bool turned) {
  ComplexMatrix to;
  to.data = const_cast<void*>(static_cast<const void*>(o.data));
  to.pointers = const_cast<void* const*>(static_cast<const void* const*>(o.pointers));
  to.row_stride = turned ? o.column_stride : o.row_stride;
  to.column_stride = turned ? o.row_stride : o.column_stride;
  to.batch_stride = o.batch_stride;
  to.rows = rows;
  return to;
}

}  // namespace

LoweredGemm lower_complex(const GemmArguments& g, std::uint32_t group) {
  LoweredGemm lowered;
  lowered.name = base::concat("simt_", base::name(g.compute));
  ComplexGemmParams& params = lowered.params.emplace<ComplexGemmParams>();
  params.type = g.compute;
  params.k = g.k;
  params.alpha = {g.alpha, g.alpha_imag};
  params.beta = {g.beta, g.beta_imag};
  params.a = matrix_of(g.a, g.m, false);
  params.b = matrix_of(g.b, g.n, true);
  params.a.conjugate = g.a.conjugate;
  params.b.conjugate = g.b.conjugate;
  // Neighbouring threads write neighbouring columns: of the transpose, where D is column-major.
  const bool turned = g.d.row_stride == 1 && g.d.column_stride != 1;
  params.c = matrix_of(g.c, g.m, turned);
  params.d = matrix_of(g.d, g.m, turned);
  if (turned) std::swap(params.a, params.b);
  params.order = kernel::TileOrder(
      {ceil_div(params.a.rows, Tile::kM), ceil_div(params.b.rows, Tile::kN), g.batch},
      kernel::Raster::heuristic, group);
  lowered.blocks = static_cast<int>(std::min<std::int64_t>(params.order.count(), 0x7fffffff));
  return lowered;
}

}  // namespace gemm_core::cuda
