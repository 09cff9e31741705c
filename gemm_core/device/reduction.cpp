#include "gemm_core/device/reduction.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "gemm_core/base/error.hpp"
#include "gemm_core/base/parallel.hpp"
#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/device/dense_operation.hpp"

namespace gemm_core {
namespace {

using base::DType;
using Code = GemmStatus::Code;

using Kind = visitor::Reduction;

constexpr std::int64_t kMost = std::int64_t{1} << 59;
constexpr std::int64_t kChunk = 4096;  // terms added one by one

template <class... Parts>
GemmStatus refuse(Code code, const Parts&... parts) {
  return {code, base::concat("reduction: ", parts...)};
}

bool is_term(DType t) { return is_narrow_float(t) || is_fp8(t) || t == DType::i8; }

struct Span {
  std::int64_t low = 0, high = 0;
  bool add(std::int64_t extent, std::int64_t stride) {
    std::int64_t step = 0;
    if (extent == 0) return true;
    if (__builtin_mul_overflow(extent - 1, stride, &step)) return false;
    std::int64_t& side = step < 0 ? low : high;
    return !__builtin_add_overflow(side, step, &side) && high < kMost && low > -kMost;
  }
};

std::int64_t product(const std::vector<ReductionMode>& modes) {
  std::int64_t all = 1;
  for (const auto& m : modes) all *= m.extent;
  return all;
}

std::vector<ReductionMode> chosen(const ReductionArguments& g, bool kept) {
  std::vector<ReductionMode> some;
  for (const auto& m : g.modes) {
    if (m.kept == kept) some.push_back(m);
  }
  return some;
}

struct Offsets {
  std::int64_t in = 0, out = 0;
};

Offsets at(const std::vector<ReductionMode>& modes, std::int64_t index) {
  Offsets o;
  for (const auto& m : modes) {
    o.in += index % m.extent * m.in;
    o.out += index % m.extent * m.out;
    index /= m.extent;
  }
  return o;
}

template <class Sum>
Sum identity(Kind kind) {
  using Limits = std::numeric_limits<Sum>;
  if (kind == Kind::maximum) return Limits::has_infinity ? -Limits::infinity() : Limits::min();
  if (kind == Kind::minimum) return Limits::has_infinity ? Limits::infinity() : Limits::max();
  return 0;
}

template <class Sum>
bool is_nan(Sum x) {
  return x != x;
}

template <class Sum>
Sum combined(Kind kind, Sum a, Sum b) {
  switch (kind) {
    case Kind::sum:
      if constexpr (std::is_integral_v<Sum>) {
        return static_cast<Sum>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
      } else {
        return a + b;
      }
    case Kind::minimum:
      return is_nan(a) || is_nan(b) ? a + b : std::min(a, b);
    default:
      return is_nan(a) || is_nan(b) ? a + b : std::max(a, b);
  }
}

template <class Sum>
Sum term(const ReductionArguments& g, std::int64_t offset) {
  Sum value;
  if constexpr (std::is_same_v<Sum, float>) {
    value = float_element(g.input.data, g.input.dtype, offset);
  } else {
    value = static_cast<const Sum*>(g.input.data)[offset];
  }
  if (g.reduction != Kind::amax) return value;
  if constexpr (std::is_integral_v<Sum>) {
    return value == std::numeric_limits<Sum>::min() ? std::numeric_limits<Sum>::max()
                                                    : std::abs(value);
  } else {
    return std::fabs(value);
  }
}

template <class Sum>
Sum reduce_terms(const ReductionArguments& g, const std::vector<ReductionMode>& reduced,
                 std::int64_t base, std::int64_t begin, std::int64_t end) {
  Sum sum = identity<Sum>(g.reduction);
  if (reduced.empty()) return combined(g.reduction, sum, term<Sum>(g, base));
  const ReductionMode& inner = reduced.front();
  for (std::int64_t i = begin; i < end;) {
    const std::int64_t run = std::min(end - i, inner.extent - i % inner.extent);
    std::int64_t offset = base + at(reduced, i).in;
    for (std::int64_t j = 0; j < run; ++j, offset += inner.in)
      sum = combined(g.reduction, sum, term<Sum>(g, offset));
    i += run;
  }
  return sum;
}

template <class Sum>
void store(const ReductionArguments& g, std::int64_t offset, Sum value) {
  if constexpr (std::is_same_v<Sum, float>) {
    store_element(g.output.data, g.output.dtype, offset, static_cast<float>(g.scale) * value);
  } else if constexpr (std::is_same_v<Sum, double>) {
    static_cast<double*>(g.output.data)[offset] = g.scale * value;
  } else {
    static_cast<Sum*>(g.output.data)[offset] = value;
  }
}

// Many results: a thread each. Few of many terms: chunks of terms, joined in their order.
template <class Sum>
void run_all(const ReductionArguments& g) {
  const auto kept = chosen(g, true), reduced = chosen(g, false);
  const std::int64_t results = product(kept), terms = product(reduced);
  const std::int64_t chunks = std::max<std::int64_t>(1, (terms + kChunk - 1) / kChunk);
  std::vector<Sum> partial(static_cast<std::size_t>(chunks == 1 ? 0 : results * chunks));
  const std::int64_t grain =
      std::max<std::int64_t>(1, kChunk / std::max<std::int64_t>(1, std::min(terms, kChunk)));
  base::parallel_blocks(results * chunks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t chunk = unit % chunks;
      const Offsets o = at(kept, unit / chunks);
      const Sum sum = reduce_terms<Sum>(g, reduced, o.in, chunk * kChunk,
                                        std::min(terms, (chunk + 1) * kChunk));
      if (chunks == 1) {
        store(g, o.out, sum);
      } else {
        partial[static_cast<std::size_t>(unit)] = sum;
      }
    }
  });
  if (chunks == 1) return;
  for (std::int64_t i = 0; i < results; ++i) {
    Sum sum = identity<Sum>(g.reduction);
    for (std::int64_t c = 0; c < chunks; ++c)
      sum = combined(g.reduction, sum, partial[static_cast<std::size_t>(i * chunks + c)]);
    store(g, at(kept, i).out, sum);
  }
}

GemmStatus check_modes(const ReductionArguments& g, Span& in, Span& out) {
  std::int64_t all = 1;
  for (std::size_t i = 0; i < g.modes.size(); ++i) {
    const auto& m = g.modes[i];
    if (m.extent < 0) return refuse(Code::invalid_extent, "mode ", i, " has extent ", m.extent);
    if (!m.kept && m.out != 0)
      return refuse(Code::unsupported, "mode ", i, " is reduced, but has stride ", m.out,
                    " in the output");
    if (__builtin_mul_overflow(all, std::max<std::int64_t>(1, m.extent), &all) || all > kMost ||
        !in.add(m.extent, m.in) || !out.add(m.extent, m.out))
      return refuse(Code::invalid_extent, "mode ", i, " of extent ", m.extent,
                    " makes more than 2^59 elements");
  }
  auto kept = chosen(g, true);
  std::erase_if(kept, [](const auto& m) { return m.extent <= 1; });
  std::sort(kept.begin(), kept.end(),
            [](const auto& x, const auto& y) { return std::abs(x.out) < std::abs(y.out); });
  std::int64_t reach = 0;
  for (const auto& m : kept) {
    if (std::abs(m.out) <= reach)
      return refuse(Code::unsupported, "the output overlaps itself: a mode of extent ", m.extent,
                    " has stride ", m.out);
    reach += (m.extent - 1) * std::abs(m.out);
  }
  return {};
}

GemmStatus check_operand(const char* name, const ReductionOperand& o) {
  if (o.data == nullptr) return refuse(Code::null_operand, "the ", name, " is null");
  const auto size = static_cast<std::uintptr_t>(base::bytes(o.dtype));
  if (reinterpret_cast<std::uintptr_t>(o.data) % size != 0)
    return refuse(Code::misaligned, "the ", name, " is not aligned to its element of ", size,
                  " bytes");
  return {};
}

}  // namespace

GemmStatus Reduction::can_implement(const ReductionArguments& g) {
  const DType in = g.input.dtype, out = g.output.dtype;
  const bool fits = (is_term(in) && is_narrow_float(out)) ||
                    (in == DType::f64 && out == DType::f64) ||
                    (in == DType::i32 && out == DType::i32);
  if (!fits)
    return refuse(Code::unsupported, base::name(in), " to ", base::name(out), " is not supported");
  if (in == DType::i32 && g.scale != 1)
    return refuse(Code::unsupported, "int32 takes scale 1, got ", g.scale);
  Span in_span, out_span;
  if (auto s = check_modes(g, in_span, out_span); !s.ok()) return s;
  if (product(chosen(g, true)) == 0) return {};
  if (auto s = check_operand("output", g.output); !s.ok()) return s;
  if (product(chosen(g, false)) == 0) return {};  // the input is not read
  if (auto s = check_operand("input", g.input); !s.ok()) return s;
  const auto address = [](const ReductionOperand& o, std::int64_t e) {
    return reinterpret_cast<std::intptr_t>(o.data) + e * base::bytes(o.dtype);
  };
  if (address(g.output, out_span.low) < address(g.input, in_span.high + 1) &&
      address(g.input, in_span.low) < address(g.output, out_span.high + 1))
    return refuse(Code::overlap, "the output overlaps the input");
  return {};
}

GemmStatus Reduction::initialize(const ReductionArguments& g) {
  initialized_ = false;
  if (auto s = can_implement(g); !s.ok()) return s;
  arguments_ = g;
  initialized_ = true;
  return {};
}

GemmStatus Reduction::run() {
  if (!initialized_) return {Code::not_initialized, "reduction: run before initialize"};
  return run_within_memory("reduction", [&] {
    switch (arguments_.input.dtype) {
      case DType::f64:
        return run_all<double>(arguments_);
      case DType::i32:
        return run_all<std::int32_t>(arguments_);
      default:
        return run_all<float>(arguments_);
    }
  });
}

}  // namespace gemm_core
