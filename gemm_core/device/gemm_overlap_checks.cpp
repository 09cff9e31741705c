// The bytes of a product's operands against each other.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "gemm_core/base/error.hpp"
#include "gemm_core/device/gemm_checks.hpp"
#include "gemm_core/device/operand_extent.hpp"

namespace gemm_core {
namespace {

using base::DType;
using Code = GemmStatus::Code;

template <class... Parts>
GemmStatus refuse(Code code, const Parts&... parts) {
  return {code, base::concat("gemm: ", parts...)};
}

// Two elements of D must not share an address: from the smallest stride on, each steps over all
// that the smaller ones reach.
GemmStatus check_output_strides(const GemmArguments& g) {
  if (g.m == 0 || g.n == 0 || g.batch == 0) return {};
  std::array<Axis, 3> axes = axes_of(g.d, g.m, g.n, g.batch);
  for (Axis& axis : axes) axis.stride = axis.count > 1 ? std::abs(axis.stride) : 0;
  std::sort(axes.begin(), axes.end(),
            [](const Axis& x, const Axis& y) { return x.stride < y.stride; });
  std::int64_t reach = 0;
  for (const Axis& axis : axes) {
    if (axis.count <= 1) continue;
    if (axis.stride <= reach) {
      return refuse(Code::unsupported, "D [", g.m, ", ", g.n, "] x ", g.batch, " with strides ",
                    g.d.row_stride, ", ", g.d.column_stride, " and batch stride ", g.d.batch_stride,
                    " overlaps itself");
    }
    reach += (axis.count - 1) * axis.stride;
  }
  return {};
}

// Whether the bytes of D and of another operand meet, from first to last over all batches; with an
// array of pointers, batch by batch.
template <class Operand>
bool meets_d(const GemmArguments& g, const Operand& o, const Extent& e) {
  const auto address = [](const auto& operand, std::int64_t l) {
    return reinterpret_cast<std::intptr_t>(operand.pointers ? operand.pointers[l] : operand.data);
  };
  Extent d;
  extent_of(g.d, axes_of(g.d, g.m, g.n, g.batch), d);
  const std::int64_t pairs = g.d.pointers || o.pointers ? g.batch : 1;
  for (std::int64_t l = 0; l < pairs; ++l) {
    const std::intptr_t x = address(g.d, l), y = address(o, l);
    if (x + d.low < y + e.high && y + e.low < x + d.high) return true;
  }
  return false;
}

template <class Operand>
bool meets_d(const GemmArguments& g, const Operand& o, std::int64_t rows, std::int64_t columns) {
  Extent e;
  extent_of(o, axes_of(o, rows, columns, g.batch), e);
  return meets_d(g, o, e);
}

bool is_updated_in_place(const GemmArguments& g) {
  if (g.c.dtype != g.d.dtype || g.c.row_stride != g.d.row_stride ||
      g.c.column_stride != g.d.column_stride || g.c.rows.indices.data != g.d.rows.indices.data ||
      g.c.columns.indices.data != g.d.columns.indices.data) {
    return false;
  }
  if (g.c.pointers == nullptr && g.d.pointers == nullptr) {
    return g.c.data == g.d.data && (g.batch == 1 || g.c.batch_stride == g.d.batch_stride);
  }
  return g.c.pointers && g.d.pointers &&
         std::equal(g.c.pointers, g.c.pointers + g.batch, g.d.pointers);
}

GemmStatus check_operands(const GemmArguments& g) {
  if (g.m == 0 || g.n == 0 || g.batch == 0) return {};
  if (g.k > 0 && meets_d(g, g.a, g.m, columns_of_a(g))) {
    return refuse(Code::overlap, "operand D overlaps operand A");
  }
  if (g.k > 0 && meets_d(g, g.b, g.k, g.n)) {
    return refuse(Code::overlap, "operand D overlaps operand B");
  }
  if (has_c(g) && !is_updated_in_place(g) && meets_d(g, g.c, g.m, g.n)) {
    return refuse(Code::overlap, "operand D overlaps operand C without being the same matrix");
  }
  return {};
}

// What is read beside A, B and C: a matrix by its axes.
struct Side {
  std::string name;
  GemmOperand matrix;
  std::array<Axis, 3> axes;
};

void add_sides_of(const char* operand, const GemmOperand& o, std::int64_t rows,
                  std::int64_t columns, std::vector<Side>& sides) {
  if (rows == 0 || columns == 0) return;
  const struct {
    const char* name;
    const GroupedValues& values;
  } groups[] = {{"scale", o.scale}, {"zero point", o.zero}};
  for (const auto& [name, v] : groups) {
    if (v.data == nullptr) continue;
    sides.push_back({base::concat(name, "s of operand ", operand),
                     {v.data, v.dtype, v.row_stride, v.column_stride},
                     {Axis{(rows - 1) / v.row_group + 1, v.row_stride},
                      Axis{(columns - 1) / v.column_group + 1, v.column_stride}, Axis{1, 0}}});
  }
  const struct {
    const char* name;
    const GatherList& list;
    std::int64_t count;
  } lists[] = {{"row", o.rows, rows}, {"column", o.columns, columns}};
  for (const auto& [name, list, count] : lists) {
    if (!list.indices) continue;
    sides.push_back({base::concat(name, " indices of operand ", operand),
                     {list.indices.data, list.indices.dtype},
                     {Axis{1, 0}, Axis{count, 1}, Axis{1, 0}}});
  }
}

std::vector<Side> sides_of(const GemmArguments& g) {
  std::vector<Side> sides;
  add_sides_of("A", g.a, g.m, g.k, sides);
  add_sides_of("B", g.b, g.k, g.n, sides);
  if (has_c(g)) add_sides_of("C", g.c, g.m, g.n, sides);
  GemmOperand lists;
  lists.rows = g.d.rows;
  lists.columns = g.d.columns;
  add_sides_of("D", lists, g.m, g.n, sides);
  if (g.a.metadata && g.k > 0) {
    sides.push_back({"metadata of operand A",
                     {g.a.metadata, DType::u8, g.a.metadata_pitch},
                     {Axis{g.m, g.a.metadata_pitch}, Axis{(g.k + 7) / 8, 1}, Axis{1, 0}}});
  }
  return sides;
}

// A residual may be D itself, element by element, where one batch reads and writes it.
bool is_added_in_place(const GemmArguments& g, const base::ConstTensorView& aux) {
  return g.batch == 1 && !g.d.pointers && !g.d.rows.indices && !g.d.columns.indices &&
         aux.data == g.d.data && aux.dtype == g.d.dtype && aux.stride[0] == g.d.row_stride &&
         aux.stride[1] == g.d.column_stride;
}

void add_node_sides(const GemmArguments& g, std::vector<Side>& sides) {
  for (std::size_t i = 0; i < g.epilogue.nodes.size(); ++i) {
    const EpilogueNode& node = g.epilogue.nodes[i];
    const std::string name = base::concat("epilogue node ", i);
    if (node.kind == EpilogueNode::Kind::scale_shift) {
      for (const float* vector : {node.scale, node.shift}) {
        if (vector == nullptr) continue;
        sides.push_back({name + " (scale_shift)",
                         {vector, DType::f32},
                         {Axis{1, 0}, Axis{g.n, 1}, Axis{1, 0}}});
      }
    } else if (node.kind == EpilogueNode::Kind::add && !is_added_in_place(g, node.aux)) {
      const std::int64_t pitch = node.aux.stride[0];
      sides.push_back({name + " (add)",
                       {node.aux.data, node.aux.dtype, pitch},
                       {Axis{g.m, pitch}, Axis{g.n, 1}, Axis{1, 0}}});
    }
  }
}

template <class Operand>
void add_spans(const char* name, const Operand& o, const std::array<Axis, 3>& axes,
               std::int64_t batch, std::vector<GemmMemory>& all) {
  Extent e;
  extent_of(o, axes, e);
  for (std::int64_t l = 0; l < (o.pointers ? batch : 1); ++l) {
    const auto at = reinterpret_cast<std::intptr_t>(o.pointers ? o.pointers[l] : o.data);
    all.push_back({name, {at + e.low, at + e.high}});
  }
}

}  // namespace

GemmStatus check_gemm_overlap(const GemmArguments& g) {
  if (auto s = check_output_strides(g); !s.ok()) return s;
  if (auto s = check_batches_apart(g); !s.ok()) return s;
  return check_operands(g);
}

GemmStatus check_gemm_side_overlap(const GemmArguments& g) {
  if (g.m == 0 || g.n == 0 || g.batch == 0) return {};
  std::vector<Side> sides = sides_of(g);
  add_node_sides(g, sides);
  for (const Side& side : sides) {
    Extent extent;
    if (!extent_of(side.matrix, side.axes, extent))
      return refuse(Code::invalid_extent, side.name, " with strides ", side.matrix.row_stride, ", ",
                    side.matrix.column_stride, " spans more than 2^59 elements");
    if (meets_d(g, side.matrix, extent))
      return refuse(Code::overlap, "operand D overlaps ", side.name);
  }
  return {};
}

std::vector<GemmMemory> gemm_memory(const GemmArguments& g) {
  std::vector<GemmMemory> all;
  if (g.m == 0 || g.n == 0 || g.batch == 0) return all;
  add_spans("operand D", g.d, axes_of(g.d, g.m, g.n, g.batch), g.batch, all);
  if (g.k > 0) {
    add_spans("operand A", g.a, axes_of(g.a, g.m, columns_of_a(g), g.batch), g.batch, all);
    add_spans("operand B", g.b, axes_of(g.b, g.k, g.n, g.batch), g.batch, all);
  }
  if (has_c(g)) add_spans("operand C", g.c, axes_of(g.c, g.m, g.n, g.batch), g.batch, all);
  for (const Side& side : sides_of(g)) {
    Extent e;
    if (!extent_of(side.matrix, side.axes, e)) continue;  // refused with its operand
    const auto at = reinterpret_cast<std::intptr_t>(side.matrix.data);
    all.push_back({side.name, {at + e.low, at + e.high}});
  }
  return all;
}

}  // namespace gemm_core
