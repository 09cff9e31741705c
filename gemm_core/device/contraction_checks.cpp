#include "gemm_core/device/contraction_checks.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>

#include "gemm_core/base/error.hpp"
#include "gemm_core/device/distinct_indices.hpp"

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

struct Named {
  const char* name;
  const ContractionOperand& operand;
  Member member;
};

// Lowest and highest sum of steps over all modes.
struct Reach {
  std::int64_t low = 0, high = 0;
  // False past 2^59.
  bool add(std::int64_t extent, std::int64_t stride) {
    std::int64_t step = 0;
    if (extent == 0) return true;
    if (__builtin_mul_overflow(extent - 1, stride, &step)) return false;
    std::int64_t& side = step < 0 ? low : high;
    return !__builtin_add_overflow(side, step, &side) && high < kMost && low > -kMost;
  }
};

bool reach_of(const Modes& modes, ModeStrides ContractionMode::*which, Member operand,
              Reach& reach) {
  reach = {};
  return std::all_of(modes.begin(), modes.end(), [&](const ContractionMode& mode) {
    return reach.add(mode.extent, (mode.*which).*operand);
  });
}

// ---- modes ----

GemmStatus check_sides(const ContractionArguments& g, std::size_t i) {
  const ContractionMode& mode = g.modes[i];
  const auto steps = [&](Member operand) {
    return mode.stride.*operand != 0 || mode.slot.*operand != 0;
  };
  if (mode.kind == ModeKind::k && steps(&ModeStrides::d))
    return refuse(Code::unsupported, "mode ", i, " is summed over, but has stride ", mode.stride.d,
                  " in D");
  if (mode.kind == ModeKind::k && g.beta != 0 && steps(&ModeStrides::c))
    return refuse(Code::unsupported, "mode ", i, " is summed over, but has stride ", mode.stride.c,
                  " in C");
  if ((mode.kind == ModeKind::m && steps(&ModeStrides::b)) ||
      (mode.kind == ModeKind::n && steps(&ModeStrides::a)))
    return refuse(Code::unsupported, "mode ", i,
                  " has a stride in the operand that its kind does not have");
  return {};
}

// Extents of a kind multiplied; false past 2^59.
bool multiply(const Modes& modes, ModeKind kind, std::int64_t& product) {
  for (const auto& mode : modes) {
    if (mode.kind != kind) continue;
    if (__builtin_mul_overflow(product, std::max<std::int64_t>(1, mode.extent), &product) ||
        product > kMost)
      return false;
  }
  return true;
}

// The packed operands of all batches; each product of extents is at most 2^59.
bool packs_within_limit_of(const Modes& modes) {
  std::int64_t n = 1, k = 1, batch = 1;
  multiply(modes, ModeKind::n, n);
  multiply(modes, ModeKind::k, k);
  multiply(modes, ModeKind::batch, batch);
  return packs_within_limit(n, k, batch);
}

GemmStatus check_modes(const ContractionArguments& g) {
  for (std::size_t i = 0; i < g.modes.size(); ++i) {
    if (g.modes[i].extent < 0)
      return refuse(Code::invalid_extent, "mode ", i, " has extent ", g.modes[i].extent);
    if (auto s = check_sides(g, i); !s.ok()) return s;
  }
  const struct {
    const char* what;
    ModeKind rows, columns;
  } products[] = {{"the extents of D multiply", ModeKind::m, ModeKind::n},
                  {"the extents of A multiply", ModeKind::m, ModeKind::k},
                  {"the extents of B multiply", ModeKind::k, ModeKind::n}};
  for (const auto& [what, rows, columns] : products) {
    std::int64_t all = 1;
    if (!multiply(g.modes, rows, all) || !multiply(g.modes, columns, all) ||
        !multiply(g.modes, ModeKind::batch, all))
      return refuse(Code::invalid_extent, what, " to more than 2^59 elements");
  }
  if (!packs_within_limit_of(g.modes))
    return refuse(Code::invalid_extent, "the extents of B multiply to more than 2^62 bytes packed");
  return {};
}

bool sums_nothing(const Modes& modes) {
  return std::any_of(modes.begin(), modes.end(), [](const ContractionMode& mode) {
    return mode.extent == 0 && mode.kind == ModeKind::k;
  });
}
bool has_no_result(const Modes& modes) {
  return std::any_of(modes.begin(), modes.end(), [](const ContractionMode& mode) {
    return mode.extent == 0 && mode.kind != ModeKind::k;
  });
}

// ---- one operand ----

GemmStatus check_buffer(const ContractionArguments& g, const Named& o) {
  const IndexRef& slots = o.operand.slots;
  if (!slots) return {};
  if (slots.dtype != base::DType::i32 && slots.dtype != base::DType::i64) {
    return refuse(Code::unsupported, "index buffer of operand ", o.name, ": element type ",
                  base::name(slots.dtype), " is neither int32 nor int64");
  }
  const std::int64_t size = base::bytes(slots.dtype);
  if (reinterpret_cast<std::uintptr_t>(slots.data) % static_cast<std::uintptr_t>(size) != 0)
    return refuse(Code::misaligned, "index buffer of operand ", o.name, " is not aligned to its ",
                  size, " bytes");
  Reach reach;
  if (!reach_of(g.modes, &ContractionMode::slot, o.member, reach) || reach.low < 0)
    return refuse(Code::invalid_extent, "slots of operand ", o.name, " reach from ", reach.low,
                  " to ", reach.high, ", expected 0 to at most 2^59");
  return {};
}

// Least and greatest entry that is no hole; least > greatest where there is none.
struct Entries {
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), greatest = -1;
};

GemmStatus check_entries(const ContractionArguments& g, const Named& o, Entries& entries) {
  Reach reach;
  reach_of(g.modes, &ContractionMode::slot, o.member, reach);
  const bool is_written = o.member == &ModeStrides::d;
  for (std::int64_t i = 0; i <= reach.high; ++i) {
    const std::int64_t index = o.operand.slots[i];
    if (index >= o.operand.slot_limit || (is_written && index < 0)) {
      return refuse(Code::bad_index, "index ", i, " of operand ", o.name, " is ", index,
                    ", the limit is ", o.operand.slot_limit);
    }
    if (index < 0) continue;
    entries.least = std::min(entries.least, index);
    entries.greatest = std::max(entries.greatest, index);
  }
  return {};
}

// Bytes from the first to behind the last element, as addresses.
struct Span {
  std::intptr_t from = 0, to = 0;
  bool meets(const Span& other) const { return from < other.to && other.from < to; }
};

// An operand by itself; `span` is where its elements lie.
GemmStatus check_operand(const ContractionArguments& g, const Named& o, Span& span) {
  const ContractionOperand& x = o.operand;
  if (x.data == nullptr) return refuse(Code::null_operand, "operand ", o.name, " is null");
  if (base::bits(x.dtype) < 8) {
    return refuse(Code::unsupported, "operand ", o.name, ": packed ", base::name(x.dtype),
                  " elements are taken by Gemm only");
  }
  const std::int64_t size = base::bytes(x.dtype);
  const auto address = reinterpret_cast<std::intptr_t>(x.data);
  if (address % size != 0)
    return refuse(Code::misaligned, "operand ", o.name, " is not aligned to its element of ", size,
                  " bytes");
  Reach reach;
  bool fits = reach_of(g.modes, &ContractionMode::stride, o.member, reach);
  if (fits && x.slots) {
    Entries entries;
    if (auto s = check_entries(g, o, entries); !s.ok()) return s;
    std::int64_t least = 0, greatest = 0;
    if (entries.greatest >= 0) {
      fits = !__builtin_mul_overflow(entries.least, x.slot_pitch, &least) &&
             !__builtin_mul_overflow(entries.greatest, x.slot_pitch, &greatest) &&
             !__builtin_add_overflow(reach.low, std::min(least, greatest), &reach.low) &&
             !__builtin_add_overflow(reach.high, std::max(least, greatest), &reach.high);
    }
  }
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;
  if (!fits || reach.high >= kMostBytes / size || reach.low <= -kMostBytes / size)
    return refuse(Code::invalid_extent, "operand ", o.name, " spans more than 2^62 bytes");
  span = {address + reach.low * size, address + (reach.high + 1) * size};
  return {};
}

// ---- D ----

struct Axis {
  std::int64_t extent = 1, stride = 0;
};

// The axis that steps onto what the smaller ones reach, or null: then no two elements share a
// place.
const Axis* overlapping_axis(std::vector<Axis>& axes, std::int64_t& reach) {
  std::sort(axes.begin(), axes.end(),
            [](const Axis& x, const Axis& y) { return std::abs(x.stride) < std::abs(y.stride); });
  reach = 0;
  for (const Axis& axis : axes) {
    if (axis.extent <= 1) continue;
    if (std::abs(axis.stride) <= reach) return &axis;
    reach += (axis.extent - 1) * std::abs(axis.stride);
  }
  return nullptr;
}

// body(sum of slot steps, sum of strides) for every element of D; stops where it gives false.
template <class Body>
bool for_each_element(const Modes& modes, std::size_t i, ModeStrides slot, ModeStrides stride,
                      const Body& body) {
  if (i == modes.size()) return body(slot.d, stride.d);
  for (std::int64_t x = 0; x < modes[i].extent; ++x) {
    if (!for_each_element(modes, i + 1, slot, stride, body)) return false;
    slot.d += modes[i].slot.d;
    stride.d += modes[i].stride.d;
  }
  return true;
}

GemmStatus check_plain_output(const Modes& modes) {
  std::vector<Axis> axes;
  for (const auto& mode : modes) axes.push_back({mode.extent, mode.stride.d});
  std::int64_t reach = 0;
  if (const Axis* axis = overlapping_axis(axes, reach))
    return refuse(Code::unsupported, "D overlaps itself: a mode of extent ", axis->extent,
                  " has stride ", axis->stride, ", smaller ones reach ", reach);
  return {};
}

// Modes that choose the entry and modes that step beside it, where no mode does both. False where
// two elements might share a place; `repeated` is then an index that comes again, if one does.
bool is_scattered_apart(const ContractionOperand& d, const Modes& modes, std::int64_t& repeated) {
  Modes choosing;
  std::vector<Axis> slot_axes, axes;
  for (const auto& mode : modes) {
    if (mode.slot.d == 0) {
      axes.push_back({mode.extent, mode.stride.d});
      continue;
    }
    if (mode.stride.d != 0) return false;
    slot_axes.push_back({mode.extent, mode.slot.d});
    choosing.push_back(mode);
  }
  std::int64_t reach = 0;
  if (overlapping_axis(slot_axes, reach)) return false;
  DistinctIndices distinct(d.slot_limit, reach + 1);
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), greatest = 0;
  const bool all_new = for_each_element(choosing, 0, {}, {}, [&](std::int64_t slot, std::int64_t) {
    const std::int64_t index = d.slots[slot];
    least = std::min(least, index);
    greatest = std::max(greatest, index);
    if (distinct.is_new(index)) return true;
    repeated = slot;
    return false;
  });
  if (!all_new) return false;
  if (greatest > least) axes.push_back({greatest - least + 1, d.slot_pitch});
  return overlapping_axis(axes, reach) == nullptr;
}

// By every element, where there are few.
bool has_distinct_elements(const ContractionArguments& g, const Modes& modes, std::int64_t count,
                           const Span& span) {
  const std::int64_t size = base::bytes(g.d.dtype);
  const std::int64_t first = (span.from - reinterpret_cast<std::intptr_t>(g.d.data)) / size;
  DistinctIndices distinct((span.to - span.from) / size, count);
  return for_each_element(modes, 0, {}, {}, [&](std::int64_t slot, std::int64_t offset) {
    return distinct.is_new(g.d.slots[slot] * g.d.slot_pitch + offset - first);
  });
}

// No element of D may be written twice.
GemmStatus check_output(const ContractionArguments& g, const Span& span) {
  Modes modes = g.modes;
  std::erase_if(modes,
                [](const auto& mode) { return mode.kind == ModeKind::k || mode.extent <= 1; });
  if (!g.d.slots) return check_plain_output(modes);
  std::int64_t repeated = -1;
  if (is_scattered_apart(g.d, modes, repeated)) return {};
  constexpr std::int64_t kMostElements = std::int64_t{1} << 22;
  std::int64_t count = 1;
  for (const auto& mode : modes) count *= mode.extent;
  if (count <= kMostElements && has_distinct_elements(g, modes, count, span)) return {};
  const std::string which =
      repeated < 0 ? std::string("entries reach each other's elements")
                   : base::concat("index ", repeated, " is ", g.d.slots[repeated], " once more");
  return refuse(Code::bad_index, "D [", count, " elements] ",
                count <= kMostElements ? "is" : "cannot be shown not to be",
                " written twice through its index buffer: ", which);
}

// ---- operands against each other ----

bool is_updated_in_place(const ContractionArguments& g) {
  const ContractionOperand &c = g.c, &d = g.d;
  if (c.data != d.data || c.dtype != d.dtype || c.slots.data != d.slots.data) return false;
  if (c.slots && (c.slots.dtype != d.slots.dtype || c.slot_pitch != d.slot_pitch)) return false;
  return std::all_of(g.modes.begin(), g.modes.end(), [&](const ContractionMode& mode) {
    return mode.extent <= 1 || mode.kind == ModeKind::k ||
           (mode.stride.c == mode.stride.d && (!c.slots || mode.slot.c == mode.slot.d));
  });
}

struct Placed {
  Named operand;
  Span span;
  const void* slots;  // where the operation reads them
};

GemmStatus check_against(const ContractionArguments& g, const Placed& o, const Span& d,
                         bool in_place) {
  const Named& named = o.operand;
  const bool is_c = named.member == &ModeStrides::c, is_d = named.member == &ModeStrides::d;
  if (!is_d && !(is_c && in_place) && d.meets(o.span)) {
    return refuse(Code::overlap, "operand D overlaps operand ", named.name,
                  is_c ? " without being the same tensor" : "");
  }
  if (!named.operand.slots) return {};
  Reach reach;
  reach_of(g.modes, &ContractionMode::slot, named.member, reach);
  const auto from = reinterpret_cast<std::intptr_t>(o.slots);
  if (d.meets({from, from + (reach.high + 1) * base::bytes(named.operand.slots.dtype)}))
    return refuse(Code::overlap, "operand D overlaps the index buffer of operand ", named.name);
  return {};
}

std::vector<Named> operands_of(const ContractionArguments& g) {
  std::vector<Named> all;
  if (!sums_nothing(g.modes)) {
    all.push_back({"A", g.a, &ModeStrides::a});
    all.push_back({"B", g.b, &ModeStrides::b});
  }
  if (g.beta != 0) all.push_back({"C", g.c, &ModeStrides::c});
  all.push_back({"D", g.d, &ModeStrides::d});
  return all;
}

}  // namespace

GemmStatus check_contraction_buffers(const ContractionArguments& g) {
  if (auto s = check_modes(g); !s.ok()) return s;
  if (has_no_result(g.modes)) return {};
  for (const Named& o : operands_of(g)) {
    if (auto s = check_buffer(g, o); !s.ok()) return s;
  }
  return {};
}

GemmStatus check_contraction(const ContractionArguments& g, const ContractionArguments& placed) {
  if (auto s = check_product("contraction", product_types(g)); !s.ok()) return s;
  if (auto s = check_contraction_buffers(g); !s.ok()) return s;
  if (has_no_result(g.modes)) return {};
  std::vector<Placed> operands;
  const std::vector<Named> lying = operands_of(placed);
  for (const Named& o : operands_of(g)) {
    Placed& p = operands.emplace_back(Placed{o, {}, lying[operands.size()].operand.slots.data});
    if (auto s = check_operand(g, o, p.span); !s.ok()) {
      if (s.code == Code::null_operand && o.member == &ModeStrides::c)
        s.message += base::concat(", beta is ", g.beta);
      return s;
    }
  }
  const Span d = operands.back().span;
  for (const Placed& o : operands) {
    if (auto s = check_against(g, o, d, is_updated_in_place(placed)); !s.ok()) return s;
  }
  return check_output(g, d);
}

}  // namespace gemm_core
