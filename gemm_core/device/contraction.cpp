#include "gemm_core/device/contraction.hpp"

#include <new>
#include <stdexcept>

#include "gemm_core/base/error.hpp"
#include "gemm_core/device/contraction_checks.hpp"

namespace gemm_core {
namespace {

using Code = GemmStatus::Code;
using Member = std::int64_t ModeStrides::*;
using Modes = std::vector<ContractionMode>;
Modes modes_of(const Modes& all, ModeKind kind) {
  Modes some;
  for (const auto& mode : all) {
    if (mode.kind == kind) some.push_back(mode);
  }
  return some;
}

std::int64_t extent_of(const Modes& modes) {
  std::int64_t product = 1;
  for (const auto& mode : modes) product *= mode.extent;
  return product;
}

// The sum of steps of every coordinate, first mode fastest.
std::vector<std::int64_t> table_of(const Modes& modes, ModeStrides ContractionMode::*which,
                                   Member operand) {
  std::vector<std::int64_t> table{0};
  table.reserve(static_cast<std::size_t>(extent_of(modes)));
  for (const auto& mode : modes) {
    const std::size_t inner = table.size();
    table.resize(inner * static_cast<std::size_t>(mode.extent));
    for (std::int64_t i = 1; i < mode.extent; ++i) {
      for (std::size_t j = 0; j < inner; ++j)
        table[static_cast<std::size_t>(i) * inner + j] = table[j] + i * (mode.*which).*operand;
    }
  }
  return table;
}

struct Side {
  Modes rows, columns;
};

// Columns that lie side by side and share a slot: the first mode, where it has stride 1.
std::int64_t run_of(const Modes& columns, Member operand) {
  if (columns.empty() || columns[0].stride.*operand != 1 || columns[0].slot.*operand != 0) return 1;
  return columns[0].extent;
}

// The tables of one operand, and its steps from batch to batch.
struct Tables {
  const OperandAccess* access;
  std::vector<std::int64_t> batch, batch_slots;
};

Tables tables_of(LoweredProducts& lowered, const ContractionOperand& o, const Side& side,
                 const Modes& batch, Member operand) {
  OperandAccess& access = lowered.accesses.emplace_back();
  access.row_offsets = lowered.keep(table_of(side.rows, &ContractionMode::stride, operand));
  access.column_offsets = lowered.keep(table_of(side.columns, &ContractionMode::stride, operand));
  access.run = run_of(side.columns, operand);
  if (o.slots) {
    access.slots = o.slots;
    access.slot_pitch = o.slot_pitch;
    access.row_slots = lowered.keep(table_of(side.rows, &ContractionMode::slot, operand));
    access.column_slots = lowered.keep(table_of(side.columns, &ContractionMode::slot, operand));
  }
  return {&access, table_of(batch, &ContractionMode::stride, operand),
          table_of(batch, &ContractionMode::slot, operand)};
}

MatrixRef matrix_of(LoweredProducts& lowered, const ContractionOperand& o, const Tables& t,
                    std::size_t batch) {
  const OperandAccess* access = t.access;
  if (o.slots && t.batch_slots[batch] != 0) {
    OperandAccess& moved = lowered.accesses.emplace_back(*access);
    moved.slots.data =
        static_cast<const char*>(o.slots.data) + t.batch_slots[batch] * base::bytes(o.slots.dtype);
    access = &moved;
  }
  return {static_cast<char*>(o.data) + t.batch[batch] * base::bytes(o.dtype), o.dtype, 0, 0,
          access};
}

struct Kinds {
  Modes m, n, k, batch;
  explicit Kinds(const Modes& all)
      : m(modes_of(all, ModeKind::m)),
        n(modes_of(all, ModeKind::n)),
        k(modes_of(all, ModeKind::k)),
        batch(modes_of(all, ModeKind::batch)) {}
};

DenseProblem shape_of(const ContractionArguments& g, const Kinds& kinds) {
  DenseProblem p{.m = extent_of(kinds.m), .n = extent_of(kinds.n), .k = extent_of(kinds.k)};
  p.a.dtype = g.a.dtype;
  p.b.dtype = g.b.dtype;
  p.d_dtype = g.d.dtype;
  p.compute = g.compute;
  p.alpha = g.alpha;
  p.beta = g.beta;
  return p;
}

CpuSplit split_of(const GemmSchedule& s) {
  return {s.decomposition, s.splits, s.processors, s.deterministic};
}

GemmStatus refuse_tables(const ContractionArguments& g) {
  const Kinds kinds(g.modes);
  return {Code::unsupported, base::concat("contraction: no memory for tables of m ",
                                          extent_of(kinds.m), ", n ", extent_of(kinds.n), ", k ",
                                          extent_of(kinds.k), ", batch ", extent_of(kinds.batch))};
}

}  // namespace

GemmStatus Contraction::can_implement(const ContractionArguments& g) {
  return check_contraction(g, g);
}

std::size_t Contraction::workspace_size(const ContractionArguments& g) {
  if (!can_implement(g).ok()) return 0;
  const Kinds kinds(g.modes);
  return products_workspace(shape_of(g, kinds), extent_of(kinds.batch), split_of(g.schedule));
}

LoweredProducts lower_contraction(const ContractionArguments& g) {
  const Kinds kinds(g.modes);
  LoweredProducts lowered;
  lowered.split = split_of(g.schedule);
  const Tables a = tables_of(lowered, g.a, {kinds.m, kinds.k}, kinds.batch, &ModeStrides::a);
  const Tables b = tables_of(lowered, g.b, {kinds.k, kinds.n}, kinds.batch, &ModeStrides::b);
  const Tables c = tables_of(lowered, g.c, {kinds.m, kinds.n}, kinds.batch, &ModeStrides::c);
  const Tables d = tables_of(lowered, g.d, {kinds.m, kinds.n}, kinds.batch, &ModeStrides::d);
  for (std::size_t l = 0; l < static_cast<std::size_t>(extent_of(kinds.batch)); ++l) {
    DenseProblem p = shape_of(g, kinds);
    p.a = matrix_of(lowered, g.a, a, l);
    p.b = matrix_of(lowered, g.b, b, l);
    if (g.beta != 0) p.c = matrix_of(lowered, g.c, c, l);
    const MatrixRef result = matrix_of(lowered, g.d, d, l);
    p.d = const_cast<void*>(result.data);
    p.d_column_stride = 0;
    p.d_access = result.access;
    p.batch = static_cast<std::int64_t>(l);
    lowered.problems.push_back(p);
  }
  return lowered;
}

GemmStatus Contraction::initialize(const ContractionArguments& g, void* workspace,
                                   std::size_t bytes) {
  initialized_ = false;
  if (auto s = can_implement(g); !s.ok()) return s;
  if (auto s = check_workspace("contraction", workspace, bytes, workspace_size(g)); !s.ok())
    return s;
  try {
    lowered_ = lower_contraction(g);
  } catch (const std::bad_alloc&) {
    return refuse_tables(g);
  } catch (const std::length_error&) {
    return refuse_tables(g);
  }
  workspace_ = workspace;
  initialized_ = true;
  return {};
}

GemmStatus Contraction::run() {
  if (!initialized_) return {Code::not_initialized, "contraction: run before initialize"};
  return run_within_memory("contraction", [&] { run_products(lowered_, workspace_); });
}

}  // namespace gemm_core
