#include "gemm_core/device/contraction.hpp"

#include <algorithm>
#include <cstdlib>

#include "gemm_core/base/error.hpp"

namespace gemm_core {
namespace {

using Code = GemmStatus::Code;
using Member = std::int64_t ModeStrides::*;
using Modes = std::vector<ContractionMode>;
constexpr std::int64_t kMost = std::int64_t{1} << 59;

template <class... Parts>
GemmStatus refuse(Code code, const Parts&... parts) {
  return {code, base::concat("contraction: ", parts...)};
}

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

// Lowest and highest sum of steps over all modes; false past 2^59.
bool reach_of(const Modes& modes, ModeStrides ContractionMode::*which, Member operand,
              std::int64_t& low, std::int64_t& high) {
  low = high = 0;
  for (const auto& mode : modes) {
    std::int64_t step = 0;
    if (mode.extent == 0) continue;
    if (__builtin_mul_overflow(mode.extent - 1, (mode.*which).*operand, &step)) return false;
    std::int64_t& side = step < 0 ? low : high;
    if (__builtin_add_overflow(side, step, &side)) return false;
  }
  return high < kMost && low > -kMost;
}

struct Named {
  const char* name;
  const ContractionOperand& operand;
  Member member;
};

GemmStatus check_slots(const ContractionArguments& g, const Named& o) {
  if (!o.operand.slots) return {};
  if (o.operand.slots.dtype != base::DType::i32 && o.operand.slots.dtype != base::DType::i64) {
    return refuse(Code::unsupported, "index buffer of operand ", o.name, ": element type ",
                  base::name(o.operand.slots.dtype), " is neither int32 nor int64");
  }
  std::int64_t low = 0, high = 0;
  if (!reach_of(g.modes, &ContractionMode::slot, o.member, low, high) || low < 0)
    return refuse(Code::invalid_extent, "slots of operand ", o.name, " reach from ", low, " to ",
                  high);
  for (std::int64_t i = 0; i <= high; ++i) {
    const std::int64_t index = o.operand.slots[i];
    if (index >= o.operand.slot_limit || (o.member == &ModeStrides::d && index < 0)) {
      return refuse(Code::bad_index, "index ", i, " of operand ", o.name, " is ", index,
                    ", the limit is ", o.operand.slot_limit);
    }
  }
  return {};
}

GemmStatus check_operand(const ContractionArguments& g, const Named& o) {
  std::int64_t low = 0, high = 0;
  if (!reach_of(g.modes, &ContractionMode::stride, o.member, low, high))
    return refuse(Code::invalid_extent, "operand ", o.name, " spans more than 2^59 elements");
  if (o.operand.data == nullptr) return refuse(Code::null_operand, "operand ", o.name, " is null");
  if (base::bits(o.operand.dtype) < 8) {
    return refuse(Code::unsupported, "operand ", o.name, ": packed ", base::name(o.operand.dtype),
                  " elements are taken by Gemm only");
  }
  const auto size = static_cast<std::uintptr_t>(base::bytes(o.operand.dtype));
  if (reinterpret_cast<std::uintptr_t>(o.operand.data) % size != 0)
    return refuse(Code::misaligned, "operand ", o.name, " is not aligned to its element of ", size,
                  " bytes");
  return check_slots(g, o);
}

// Two elements of D must not share an address. Through an index buffer that is the caller's to see
// to.
GemmStatus check_output(const ContractionArguments& g) {
  if (g.d.slots) return {};
  Modes modes = g.modes;
  std::erase_if(modes,
                [](const auto& mode) { return mode.kind == ModeKind::k || mode.extent <= 1; });
  std::sort(modes.begin(), modes.end(), [](const auto& x, const auto& y) {
    return std::abs(x.stride.d) < std::abs(y.stride.d);
  });
  std::int64_t reach = 0;
  for (const auto& mode : modes) {
    if (std::abs(mode.stride.d) <= reach)
      return refuse(Code::unsupported, "D overlaps itself: a mode of extent ", mode.extent,
                    " has stride ", mode.stride.d, ", smaller ones reach ", reach);
    reach += (mode.extent - 1) * std::abs(mode.stride.d);
  }
  return {};
}

GemmStatus check_modes(const ContractionArguments& g) {
  std::int64_t all = 1;
  for (std::size_t i = 0; i < g.modes.size(); ++i) {
    const auto& mode = g.modes[i];
    if (mode.extent < 0)
      return refuse(Code::invalid_extent, "mode ", i, " has extent ", mode.extent);
    if (mode.kind != ModeKind::k &&
        __builtin_mul_overflow(all, std::max<std::int64_t>(1, mode.extent), &all))
      return refuse(Code::invalid_extent, "the extents of D multiply to more than 2^63");
    if (mode.kind == ModeKind::k && (mode.stride.d != 0 || mode.slot.d != 0))
      return refuse(Code::unsupported, "mode ", i, " is summed over, but has stride ",
                    mode.stride.d, " in D");
    if ((mode.kind == ModeKind::m && mode.stride.b != 0) ||
        (mode.kind == ModeKind::n && mode.stride.a != 0))
      return refuse(Code::unsupported, "mode ", i,
                    " has a stride in the operand that its kind does not have");
  }
  if (all > kMost) return refuse(Code::invalid_extent, "D has more than 2^59 elements");
  std::int64_t depth = 1;
  for (const auto& mode : modes_of(g.modes, ModeKind::k)) {
    if (__builtin_mul_overflow(depth, mode.extent, &depth) || depth > kMost)
      return refuse(Code::invalid_extent, "the sum has more than 2^59 terms");
  }
  return {};
}

// Byte ranges of D and another operand, where both are plain.
bool meet(const ContractionArguments& g, const Named& o) {
  if (g.d.slots || o.operand.slots) return false;
  const auto range = [&](const ContractionOperand& x, Member member, std::intptr_t& from,
                         std::intptr_t& to) {
    std::int64_t low = 0, high = 0;
    reach_of(g.modes, &ContractionMode::stride, member, low, high);
    from = reinterpret_cast<std::intptr_t>(x.data) + low * base::bytes(x.dtype);
    to = reinterpret_cast<std::intptr_t>(x.data) + (high + 1) * base::bytes(x.dtype);
  };
  std::intptr_t d0, d1, o0, o1;
  range(g.d, &ModeStrides::d, d0, d1);
  range(o.operand, o.member, o0, o1);
  return d0 < o1 && o0 < d1;
}

}  // namespace

GemmStatus Contraction::can_implement(const ContractionArguments& g) {
  if (auto s = check_product("contraction", product_types(g)); !s.ok()) return s;
  if (auto s = check_modes(g); !s.ok()) return s;
  const Kinds kinds(g.modes);
  if (extent_of(kinds.m) * extent_of(kinds.n) * extent_of(kinds.batch) == 0) return {};
  const Named a{"A", g.a, &ModeStrides::a}, b{"B", g.b, &ModeStrides::b},
      c{"C", g.c, &ModeStrides::c}, d{"D", g.d, &ModeStrides::d};
  if (extent_of(kinds.k) > 0) {
    for (const Named* o : {&a, &b}) {
      if (auto s = check_operand(g, *o); !s.ok()) return s;
      if (meet(g, *o)) return refuse(Code::overlap, "operand D overlaps operand ", o->name);
    }
  }
  if (g.beta != 0) {
    if (auto s = check_operand(g, c); !s.ok()) return s;
    if (g.c.data != g.d.data && meet(g, c))
      return refuse(Code::overlap, "operand D overlaps operand C");
  }
  if (auto s = check_operand(g, d); !s.ok()) return s;
  return check_output(g);
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
  lowered_ = lower_contraction(g);
  workspace_ = workspace;
  initialized_ = true;
  return {};
}

GemmStatus Contraction::run() {
  if (!initialized_) return {Code::not_initialized, "contraction: run before initialize"};
  run_products(lowered_, workspace_);
  return {};
}

}  // namespace gemm_core
