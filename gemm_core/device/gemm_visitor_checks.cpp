// What the nodes of a visitor read and write, against a product's operands and against each other.
#include <algorithm>
#include <optional>
#include <vector>

#include "gemm_core/base/error.hpp"
#include "gemm_core/device/gemm_checks.hpp"

namespace gemm_core {
namespace {

using Code = GemmStatus::Code;

template <class... Parts>
GemmStatus refuse(Code code, const Parts&... parts) {
  return {code, base::concat("gemm: ", parts...)};
}

// D as a node would see it, where it is one matrix a batch.
std::optional<NodeMemory> result_of(const GemmArguments& g) {
  if (g.d.pointers || g.d.rows.indices || g.d.columns.indices) return std::nullopt;
  return NodeMemory{.name = {},
                    .matrix = {g.d.data, g.d.dtype, g.d.row_stride, g.d.column_stride},
                    .rows = g.m,
                    .columns = g.n,
                    .batch = g.batch,
                    .batch_stride = g.d.batch_stride};
}

// A matrix that is read may be D itself, element by element.
GemmStatus check_operands(const GemmArguments& g, const NodeMemory& x, const ByteSpan& span,
                          const std::vector<GemmMemory>& operands) {
  const std::optional<NodeMemory> d = result_of(g);
  const bool in_place = !x.is_written && d && d->is_same_place(x);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool is_d = operands[i].name == "operand D";
    if ((is_d ? in_place : !x.is_written) || !operands[i].span.meets(span)) continue;
    return refuse(Code::overlap, operands[i].name, " overlaps ", x.name);
  }
  return {};
}

}  // namespace

GemmStatus check_gemm_visitor(const GemmArguments& g) {
  std::vector<NodeMemory> nodes = g.visitor->memory(g.m, g.n, g.batch);
  std::erase_if(nodes, [](const NodeMemory& x) { return x.rows * x.columns * x.batch == 0; });
  std::vector<ByteSpan> spans;
  for (const NodeMemory& x : nodes) {
    if (!x.is_aligned())
      return refuse(Code::misaligned, x.name, " is not aligned to its element of ",
                    base::bytes(x.matrix.dtype), " bytes");
    const std::optional<ByteSpan> span = x.span();
    if (!span)
      return refuse(Code::invalid_extent, x.name, " [", x.rows, ", ", x.columns, "] with strides ",
                    x.matrix.row_stride, ", ", x.matrix.column_stride, " and batch stride ",
                    x.batch_stride, " spans more than 2^59 elements");
    spans.push_back(*span);
  }
  const std::vector<GemmMemory> operands = gemm_memory(g);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (auto s = check_operands(g, nodes[i], spans[i], operands); !s.ok()) return s;
    if (!nodes[i].is_written) continue;
    for (std::size_t j = 0; j < nodes.size(); ++j) {
      const bool is_updated = !nodes[j].is_written && nodes[i].is_same_place(nodes[j]);
      if (i != j && !is_updated && spans[i].meets(spans[j]))
        return refuse(Code::overlap, nodes[i].name, " overlaps ", nodes[j].name);
    }
  }
  return {};
}

}  // namespace gemm_core
