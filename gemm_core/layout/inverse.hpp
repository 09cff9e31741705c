// Inverses of layouts, and the longest run that two layouts share.
#pragma once
#include "gemm_core/layout/complement.hpp"
#include "gemm_core/layout/composed.hpp"
#include "gemm_core/layout/composition.hpp"

namespace layout::detail {

// A mode of a layout seen from its values: `size` steps of `value` are steps of `index` in the
// domain.
struct Step {
  Number size, value, index;
};

constexpr std::vector<Step> steps(const LayoutTree& a) {
  std::vector<Step> list;
  Number index = 1;
  for (const Mode& m : coalesce(leaves(a))) {
    list.push_back({m.size, m.stride, index});
    index = index * m.size;
  }
  return list;
}

// A(R(i)) = i on [0, size R), R as large as whole modes of A allow. Unknown strides end the run.
constexpr LayoutTree right_inverse(const LayoutTree& a) {
  const std::vector<Step> list = steps(a);
  Modes out;
  Number reached = 1;
  while (reached.known()) {
    const Step* longest = nullptr;  // overlapping layouts have several modes of that stride
    for (const Step& step : list) {
      if (!step.value.is(reached.value())) continue;
      const bool shorter = longest && longest->size.known() && step.size.known() &&
                           step.size.value() <= longest->size.value();
      if (!shorter) longest = &step;
    }
    if (longest == nullptr) break;
    out.push_back({longest->size, longest->index});
    reached = reached * longest->size;
  }
  return from_modes(coalesce(out));
}

// R(A(i)) = i for every i: between strides d0 < d1 < ... of A, R has modes of d0, d1/d0, ...
// values.
constexpr Answer<LayoutTree> left_inverse(const LayoutTree& a) {
  std::vector<Step> list = steps(a);
  for (const Step& step : list)
    if (!step.value.known()) return "strides known only at run time cannot be put in order";
  std::sort(list.begin(), list.end(),
            [](const Step& x, const Step& y) { return x.value.value() < y.value.value(); });
  Modes out;
  Number covered = 1, index = 0;  // values below `covered` are told apart by the modes so far, up
                                  // to the last one's size
  Number last_size = 1;
  for (const Step& step : list) {
    if (step.value.is(0)) return "the layout is not injective: a mode has stride 0";
    if (!require(Operation::check_multiple, step.value, covered))
      return "a stride is no multiple of the next smaller one";
    const Number room = step.value / covered;
    if (!require(Operation::check_less, last_size + Number(-1), room))
      return "the layout is not injective";
    out.push_back({room, index});
    covered = step.value;
    index = step.index;
    last_size = step.size;
  }
  out.push_back({last_size, index});
  return from_modes(coalesce(out));
}

// How many steps of one mode of B have the same values in A, inside A.
constexpr Index common_run(const Modes& a, const Step& step, Index value) {
  const Index end = size(a).value();
  Index run = 1;
  for (; run < step.size.value(); ++run) {
    const Index index = run * step.index.value();
    if (index >= end || value_at(a, index) != run * value) break;
  }
  return run;
}

// The longest n such that for each i < n one index has the value i in both; the answer maps i to
// that index. Known layouts only: the answer decides how wide a vector access may be, so it must
// not be found at run time.
constexpr Answer<LayoutTree> max_common_vector(const LayoutTree& a, const LayoutTree& b) {
  const std::vector<Step> list = steps(b);
  const Modes outer = coalesce(leaves(a));
  Modes out;
  Index reached = 1;
  for (;;) {
    Mode longest{1, 0};
    for (const Step& step : list) {
      if (!step.value.is(reached)) continue;
      const Index run = common_run(outer, step, reached);
      if (run > longest.size.value()) longest = {run, step.index};
    }
    if (longest.size.is(1)) return from_modes(coalesce(out));
    out.push_back(longest);
    const LayoutTree shared = from_modes(out);
    if (cosize(shared).value() > size(outer).value() || !composition(a, shared))
      return "the shared run is not a layout";
    reached *= longest.size.value();
  }
}

}  // namespace layout::detail

namespace layout {

// Takes a value of a ComposedTree back to its index: inner inverse o (-offset) o swizzle.
struct ComposedInverse {
  LayoutTree inner_inverse;
  Index offset = 0;
  Swizzle swizzle;

  constexpr Index operator()(Index value) const { return inner_inverse(swizzle(value) - offset); }
};

constexpr ComposedInverse left_inverse(const ComposedTree& a) {
  const Answer<LayoutTree> inner = detail::left_inverse(a.inner);
  ENSURE(inner, "left_inverse: ", inner.refusal);
  return {inner.value, a.offset, a.swizzle};
}

}  // namespace layout
