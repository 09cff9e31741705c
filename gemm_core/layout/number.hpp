// Number: the integer on which every algorithm of this folder is written once. It is either known,
// or a node of a Tape: a value that exists only at run time. Run-time layouts (tree.hpp) know all
// of theirs. Layouts that are types (layout.hpp) run the same algorithm in the compiler with a
// tape, keep the form that comes out as a type, and play the recorded arithmetic back at run time.
// So an algorithm may branch on known numbers only.
#pragma once
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "gemm_core/base/host_device.hpp"

namespace layout {

using Index = std::int64_t;

// The checks stand for questions that only the run-time values can answer; a check yields 1 (fine)
// or 0 (refuse).
enum class Operation : std::uint8_t {
  input,
  add,
  multiply,
  divide,
  remainder,
  ceil_divide,
  minimum,
  maximum,
  check_multiple,    // lhs is a multiple of rhs
  check_less,        // lhs < rhs
  check_one_divides  // one of lhs and rhs divides the other
};

template <class T>
BASE_HD constexpr T apply(Operation operation, T a, T b) {
  switch (operation) {
    case Operation::input:
      return a;
    case Operation::add:
      return a + b;
    case Operation::multiply:
      return a * b;
    case Operation::divide:
      return b == 0 ? std::numeric_limits<T>::max() : a / b;  // steps of a stride 0: no bound
    case Operation::remainder:
      return a % b;
    case Operation::ceil_divide:
      return (a + b - 1) / b;
    case Operation::minimum:
      return a < b ? a : b;
    case Operation::maximum:
      return a < b ? b : a;
    case Operation::check_multiple:
      return T(b != 0 && a % b == 0);
    case Operation::check_less:
      return T(a < b);
    case Operation::check_one_divides:
      return T((b != 0 && a % b == 0) || (a != 0 && b % a == 0));
  }
  return T(0);
}

BASE_HD constexpr bool is_check(Operation o) { return o >= Operation::check_multiple; }

// A constant, or the result of an earlier operation of the tape.
struct Operand {
  Index value = 0;
  int node = -1;
};

struct TapeEntry {
  Operation operation = Operation::input;
  Operand lhs, rhs;
};

class Tape {
 public:
  constexpr int record(Operation operation, Operand lhs, Operand rhs) {
    entries_.push_back({operation, lhs, rhs});
    return static_cast<int>(entries_.size()) - 1;
  }
  constexpr const std::vector<TapeEntry>& entries() const { return entries_; }

 private:
  std::vector<TapeEntry> entries_;
};

class Number {
 public:
  constexpr Number(Index value = 0) : operand_{.value = value} {}
  static constexpr Number input(Tape& tape, Index slot) {
    return Number(tape, tape.record(Operation::input, {.value = slot}, {}));
  }

  constexpr bool known() const { return operand_.node < 0; }
  constexpr Index value() const { return operand_.value; }  // only where known
  constexpr bool is(Index wanted) const { return known() && operand_.value == wanted; }
  constexpr const Operand& operand() const { return operand_; }

  friend constexpr Number operator+(Number a, Number b) {
    if (a.is(0)) return b;
    if (b.is(0)) return a;
    return combine(Operation::add, a, b);
  }
  friend constexpr Number operator*(Number a, Number b) {
    if (a.is(1) || b.is(0)) return b;
    if (b.is(1) || a.is(0)) return a;
    return combine(Operation::multiply, a, b);
  }
  friend constexpr Number operator/(Number a, Number b) {
    return b.is(1) ? a : combine(Operation::divide, a, b);
  }
  friend constexpr Number operator%(Number a, Number b) {
    return b.is(1) ? Number(0) : combine(Operation::remainder, a, b);
  }
  friend constexpr Number ceil_divide(Number a, Number b) {
    return b.is(1) ? a : combine(Operation::ceil_divide, a, b);
  }
  friend constexpr Number minimum(Number a, Number b) { return combine(Operation::minimum, a, b); }
  friend constexpr Number maximum(Number a, Number b) { return combine(Operation::maximum, a, b); }

  // False: refuse now. True: holds, or is checked when the values are there.
  friend constexpr bool require(Operation check, Number a, Number b) {
    const Number answer = combine(check, a, b);
    return !answer.known() || answer.value() != 0;
  }

 private:
  constexpr Number(Tape& tape, int node) : operand_{.node = node}, tape_(&tape) {}
  static constexpr Number combine(Operation operation, Number a, Number b) {
    if (a.known() && b.known()) return apply(operation, a.value(), b.value());
    Tape& tape = a.known() ? *b.tape_ : *a.tape_;
    return Number(tape, tape.record(operation, a.operand_, b.operand_));
  }

  Operand operand_;
  Tape* tape_ = nullptr;
};

// What an algorithm answers: a value, or the reason why there is none.
template <class T>
struct Answer {
  constexpr Answer(T v) : value(std::move(v)) {}
  constexpr Answer(const char* reason) : refusal(reason) {}
  constexpr explicit operator bool() const { return refusal == nullptr; }

  T value{};
  const char* refusal = nullptr;
};

}  // namespace layout
