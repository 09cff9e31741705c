// Runs an algorithm on layout types: in the compiler, with unknown numbers for what exists only at
// run time. The form of the answer becomes a type; the arithmetic that was recorded for its unknown
// numbers is played back at run time.
#pragma once
#include <tuple>

#include "gemm_core/layout/composition.hpp"
#include "gemm_core/layout/layout.hpp"

namespace layout::detail {

// ---- inputs: layouts, integers, tilers. Each run-time integer is a slot, numbered from left to
// right -------------
template <class T>
struct InputOf;

template <class T>
constexpr Number number_of(Tape& tape, Index& slot) {
  if constexpr (StaticInteger<T>)
    return T::value;
  else
    return Number::input(tape, slot++);
}

template <class Shape>
constexpr IntTree tree_of(Tape& tape, Index& slot) {
  if constexpr (IsTuple<Shape>)
    return []<class... T>(Tape& t, Index& s, Tuple<T...>*) {
      std::vector<IntTree> list;
      (list.push_back(tree_of<T>(t, s)), ...);
      return IntTree::tuple(std::move(list));
    }(tape, slot, static_cast<Shape*>(nullptr));
  else
    return number_of<Shape>(tape, slot);
}

constexpr LayoutTree zip(const IntTree& shape, const IntTree& stride) {
  if (shape.is_leaf) return Mode{shape.value, stride.value};
  std::vector<LayoutTree> list;
  for (std::size_t k = 0; k < shape.children.size(); ++k)
    list.push_back(zip(shape.children[k], stride.children[k]));
  return LayoutTree::tuple(std::move(list));
}

template <class S, class D>
struct InputOf<Layout<S, D>> {
  static constexpr LayoutTree make(Tape& tape, Index& slot) {
    const IntTree shape = tree_of<S>(tape, slot);
    return zip(shape, tree_of<D>(tape, slot));
  }
};
template <Integer T>
struct InputOf<T> {
  static constexpr Number make(Tape& tape, Index& slot) { return number_of<T>(tape, slot); }
};
template <class... T>
struct InputOf<Tuple<T...>> {
  static constexpr Tiler make(Tape& tape, Index& slot) {
    Tiler tiler;
    (append<T>(tiler, tape, slot), ...);
    return tiler;
  }
  template <class E>
  static constexpr void append(Tiler& tiler, Tape& tape, Index& slot) {
    if constexpr (std::is_same_v<E, Underscore>)
      tiler.emplace_back();
    else if constexpr (Integer<E>)
      tiler.emplace_back(LayoutTree(Mode{number_of<E>(tape, slot), 1}));
    else
      tiler.emplace_back(InputOf<E>::make(tape, slot));
  }
};

// ---- the answer as a constant of the program
// --------------------------------------------------------------------
struct Token {
  int children = -1;  // -1: a leaf
  int extent = 1;     // tokens of this subtree
  Operand size, stride;
};

template <int Tokens, int Entries>
struct Program {
  bool answered = false;
  Token tokens[static_cast<std::size_t>(Tokens)]{};
  TapeEntry entries[static_cast<std::size_t>(Entries > 0 ? Entries : 1)]{};
};

constexpr int append_tokens(const LayoutTree& a, std::vector<Token>& out) {
  const std::size_t at = out.size();
  out.push_back({.size = a.leaf.size.operand(), .stride = a.leaf.stride.operand()});
  int extent = 1;
  for (const LayoutTree& m : a.modes) extent += append_tokens(m, out);
  out[at].extent = extent;
  if (!a.is_leaf) out[at].children = static_cast<int>(a.modes.size());
  return extent;
}

struct Run {
  bool answered;
  std::vector<Token> tokens;
  std::vector<TapeEntry> entries;
};

constexpr Run finish(const Answer<LayoutTree>& answer, const Tape& tape) {
  Run out{answer.refusal == nullptr, {}, tape.entries()};
  append_tokens(answer.value, out.tokens);
  return out;
}

template <auto Algorithm, class... Inputs>
constexpr Run run() {
  Tape tape;
  Index slot = 0;
  // Braces: the inputs take their slots from left to right.
  const std::tuple<decltype(InputOf<Inputs>::make(tape, slot))...> inputs{
      InputOf<Inputs>::make(tape, slot)...};
  return finish(std::apply(Algorithm, inputs), tape);
}

template <int Tokens, int Entries>
constexpr Program<Tokens, Entries> program_of(const Run& traced) {
  Program<Tokens, Entries> out{.answered = traced.answered};
  for (std::size_t i = 0; i < traced.tokens.size(); ++i) out.tokens[i] = traced.tokens[i];
  for (std::size_t i = 0; i < traced.entries.size(); ++i) out.entries[i] = traced.entries[i];
  return out;
}

template <auto Algorithm, class... Inputs>
struct Traced {
  static constexpr int kTokens = static_cast<int>(run<Algorithm, Inputs...>().tokens.size());
  static constexpr int kEntries = static_cast<int>(run<Algorithm, Inputs...>().entries.size());
  static constexpr Program<kTokens, kEntries> program =
      program_of<kTokens, kEntries>(run<Algorithm, Inputs...>());
};

// ---- at run time
// ------------------------------------------------------------------------------------------------
template <int N>
struct Values {
  Index value[static_cast<std::size_t>(N > 0 ? N : 1)]{};
};

template <class T>
BASE_HD constexpr void collect(const T& input, Index* slots, int& next) {
  if constexpr (IsTuple<T>) {
    with_indices<T::kRank>(
        [&](auto... i) { (collect(get<static_cast<int>(i.value)>(input), slots, next), ...); });
  } else if constexpr (IsLayout<T>) {
    collect(input.shape, slots, next);
    collect(input.stride, slots, next);
  } else if constexpr (std::integral<T>) {
    slots[next++] = static_cast<Index>(input);
  }
}

// Device code has no exceptions: it stops.
BASE_HD inline void refuse_values() {
#if defined(__CUDA_ARCH__)
  __trap();
#else
  base::fail("layout: no layout has the right values for these run-time sizes and strides");
#endif
}

template <class Trace, int I, int N>
BASE_HD constexpr void play(Values<N>& values, const Index* slots) {
  constexpr TapeEntry entry = Trace::program.entries[I];
  if constexpr (entry.operation == Operation::input) {
    values.value[I] = slots[entry.lhs.value];
  } else {
    const Index a = entry.lhs.node < 0 ? entry.lhs.value
                                       : values.value[entry.lhs.node < 0 ? 0 : entry.lhs.node];
    const Index b = entry.rhs.node < 0 ? entry.rhs.value
                                       : values.value[entry.rhs.node < 0 ? 0 : entry.rhs.node];
    values.value[I] = apply(entry.operation, a, b);
    if constexpr (is_check(entry.operation))
      if (values.value[I] == 0) refuse_values();
  }
}

enum class Part : std::uint8_t { shape, stride };

template <class Trace>
BASE_HD constexpr int child_position(int at, int child) {
  int position = at + 1;
  for (int k = 0; k < child; ++k) position += Trace::program.tokens[position].extent;
  return position;
}

template <class Trace, Part P, int At, int N>
BASE_HD constexpr auto part_of(const Values<N>& values) {
  constexpr Token token = Trace::program.tokens[At];
  if constexpr (token.children >= 0) {
    return with_indices<token.children>([&](auto... i) {
      return make_tuple(
          part_of<Trace, P, child_position<Trace>(At, static_cast<int>(decltype(i)::value))>(
              values)...);
    });
  } else {
    constexpr Operand operand = P == Part::shape ? token.size : token.stride;
    if constexpr (operand.node < 0)
      return Int<operand.value>{};
    else
      return values.value[operand.node];
  }
}

template <auto Algorithm, class... Inputs>
concept Answered = Traced<Algorithm, Inputs...>::program.answered;

template <auto Algorithm, class... Inputs>
BASE_HD constexpr auto traced(const Inputs&... inputs) {
  using Trace = Traced<Algorithm, Inputs...>;
  Values<Trace::kEntries> slots, values;  // never more slots than entries
  int next = 0;
  (collect(inputs, slots.value, next), ...);
  with_indices<Trace::kEntries>([&](auto... i) {
    (play<Trace, static_cast<int>(decltype(i)::value)>(values, slots.value), ...);
  });
  return make_layout(part_of<Trace, Part::shape, 0>(values),
                     part_of<Trace, Part::stride, 0>(values));
}

}  // namespace layout::detail
