// What a product reads beside its matrices: lists of indices, scales and zero points, what nodes
// add.
#include <cstdint>

#include "gemm_core/base/error.hpp"
#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/device/distinct_indices.hpp"
#include "gemm_core/device/gemm_checks.hpp"

namespace gemm_core {
namespace {

using base::DType;
using Code = GemmStatus::Code;

template <class... Parts>
GemmStatus refuse(Code code, const Parts&... parts) {
  return {code, base::concat("gemm: ", parts...)};
}

bool computes_in_f32(DType t) { return is_narrow_float(t) || t == DType::tf32 || is_fp8(t); }

bool is_aligned(const void* data, DType dtype) {
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(base::bytes(dtype)) ==
         0;
}

GemmStatus check_groups(const char* operand, const char* what, const GroupedValues& v,
                        const GemmArguments& g) {
  if (v.data == nullptr) return {};
  if (!computes_in_f32(g.compute)) {
    return refuse(Code::unsupported, "operand ", operand, " has ", what, "s, which ",
                  base::name(g.compute), " products do not take");
  }
  if (!is_narrow_float(v.dtype)) {
    return refuse(Code::unsupported, what, " of operand ", operand, ": element type ",
                  base::name(v.dtype), " is none of float32, float16, bfloat16");
  }
  if (v.row_group < 1 || v.column_group < 1) {
    return refuse(Code::invalid_extent, what, " of operand ", operand, ": groups of ", v.row_group,
                  " x ", v.column_group, ", expected at least 1");
  }
  if (!is_aligned(v.data, v.dtype)) {
    return refuse(Code::misaligned, what, "s of operand ", operand, " are not aligned to their ",
                  base::bytes(v.dtype), " bytes");
  }
  return {};
}

// Lists for `count` rows or columns of an operand; those that are written hold each index once.
GemmStatus check_list(const char* operand, const char* side, const GatherList& list,
                      std::int64_t count, bool is_written) {
  if (!list.indices) return {};
  if (list.indices.dtype != DType::i32 && list.indices.dtype != DType::i64) {
    return refuse(Code::unsupported, side, " indices of operand ", operand, ": element type ",
                  base::name(list.indices.dtype), " is neither int32 nor int64");
  }
  if (list.limit < 0) {
    return refuse(Code::invalid_extent, side, " indices of operand ", operand, ": limit ",
                  list.limit, " is negative");
  }
  if (count > 0 && !is_aligned(list.indices.data, list.indices.dtype)) {
    return refuse(Code::misaligned, side, " indices of operand ", operand,
                  " are not aligned to their ", base::bytes(list.indices.dtype), " bytes");
  }
  if (is_written && count > list.limit) {
    return refuse(Code::bad_index, count, " ", side, " indices of operand ", operand,
                  " cannot be distinct below the limit ", list.limit);
  }
  DistinctIndices distinct(is_written ? list.limit : 0, count);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = list.indices[i];
    if (index >= list.limit || (is_written && index < 0)) {
      return refuse(Code::bad_index, side, " index ", i, " of operand ", operand, " is ", index,
                    ", expected ", is_written ? "0" : "less than 0 (a hole)", " to ",
                    list.limit - 1);
    }
    if (is_written && !distinct.is_new(index)) {
      return refuse(Code::bad_index, side, " index ", i, " of operand ", operand, " is ", index,
                    " once more");
    }
  }
  return {};
}

GemmStatus check_lists(const GemmArguments& g) {
  const struct {
    const char* operand;
    const char* side;
    const GatherList& list;
    std::int64_t count;
    bool is_written;
  } lists[] = {{"A", "row", g.a.rows, g.m, false}, {"A", "column", g.a.columns, g.k, false},
               {"B", "row", g.b.rows, g.k, false}, {"B", "column", g.b.columns, g.n, false},
               {"C", "row", g.c.rows, g.m, false}, {"C", "column", g.c.columns, g.n, false},
               {"D", "row", g.d.rows, g.m, true},  {"D", "column", g.d.columns, g.n, true}};
  for (const auto& l : lists) {
    if (auto s = check_list(l.operand, l.side, l.list, l.count, l.is_written); !s.ok()) return s;
  }
  return {};
}

}  // namespace

GemmStatus check_gemm_side_operands(const GemmArguments& g) {
  const struct {
    const char* name;
    const GemmOperand& operand;
  } operands[] = {{"A", g.a}, {"B", g.b}, {"C", g.c}};
  for (const auto& [name, o] : operands) {
    if (auto s = check_groups(name, "scale", o.scale, g); !s.ok()) return s;
    if (auto s = check_groups(name, "zero point", o.zero, g); !s.ok()) return s;
  }
  return check_lists(g);
}

GemmStatus check_gemm_schedule(const GemmArguments& g) {
  if (g.schedule.splits < 1 || g.schedule.processors < 1 || g.schedule.processors > 4096) {
    return refuse(Code::invalid_extent, "schedule: ", g.schedule.splits, " splits on ",
                  g.schedule.processors,
                  " processors, expected at least 1 of each and at most 4096 processors");
  }
  if (g.tiling.tile_m < 0 || g.tiling.tile_n < 0 || g.tiling.tile_m > 4096 ||
      g.tiling.tile_n > 65536) {
    return refuse(Code::invalid_extent, "tiling: ", g.tiling.tile_m, " x ", g.tiling.tile_n,
                  ", expected at most 4096 x 65536");
  }
  return {};
}

GemmStatus check_gemm_nodes(const GemmArguments& g) {
  for (std::size_t i = 0; i < g.epilogue.nodes.size(); ++i) {
    const EpilogueNode& node = g.epilogue.nodes[i];
    const bool is_add = node.kind == EpilogueNode::Kind::add;
    const bool fits =
        is_add ? is_aligned(node.aux.data, node.aux.dtype)
               : is_aligned(node.scale, DType::f32) && is_aligned(node.shift, DType::f32);
    if (!fits) {
      return refuse(Code::misaligned, "epilogue node ", i, is_add ? " (add)" : " (scale_shift)",
                    " is not aligned to its element of ",
                    base::bytes(is_add ? node.aux.dtype : DType::f32), " bytes");
    }
  }
  return {};
}

}  // namespace gemm_core
