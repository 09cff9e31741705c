// The order in which a product asks the memory for what is wanted after it: a line or two between
// every four steps along k, so that the requests never queue before the product's own loads.
#pragma once
#include <algorithm>
#include <cstdint>

#include "gemm_core/atom/cpu_atoms.hpp"

namespace gemm_core::detail {

inline constexpr std::int64_t kLineBytes = 64, kAheadSteps = 4;

inline void prefetch_into_l2(std::uintptr_t address) {
  __builtin_prefetch(reinterpret_cast<const void*>(address), 0, 2);
}

// What one micro-tile asks for. Addresses are numbers: a run may end a few lines past its rows,
// where nothing is read.
struct Meanwhile {
  std::uintptr_t panel = 0;  // the next panel of B: a share of it
  std::uintptr_t panel_step = 0;
  std::uintptr_t line = 0;  // lines of rows, by twos where `second` is a line's length, ...
  std::uintptr_t second = 0, advance = kLineBytes;
  std::int64_t left = 1, steps = 1;  // ... in `left` steps to the end of this row of `steps`, ...
  std::uintptr_t gap = 0;            // ... then over the gap

  void step() {
    prefetch_into_l2(panel);
    panel += panel_step;
    prefetch_into_l2(line);
    prefetch_into_l2(line + second);
    line += advance;
    if (--left == 0) {
      line += gap;
      left = steps;
    }
  }
};

// Hands out the lines of an Ahead, one a step, or two where they are more than the steps, such that
// the last is asked for at the end of `steps` where they allow it.
class AheadCursor {
 public:
  AheadCursor(const Ahead* ahead, std::int64_t steps, const void* idle)
      : ahead_(ahead), idle_(reinterpret_cast<std::uintptr_t>(idle)) {
    if (ahead_ == nullptr || steps == 0) return;
    if (steps_in_all() > steps) width_ = 2;
    wait_ = std::max<std::int64_t>(0, steps - steps_in_all());
    begin_part();
  }

  // The lines for the next `steps` steps; leave() comes before the next ones.
  void take(std::int64_t steps, Meanwhile& m) {
    is_idle_ = ahead_ == nullptr || part_ == ahead_->count() || wait_ >= steps;
    if (is_idle_) {
      wait_ -= steps;
      m.line = idle_;
      m.gap = -m.advance;
      return;
    }
    m.line = line_;
    m.second = static_cast<std::uintptr_t>((width_ - 1) * kLineBytes);
    m.advance = static_cast<std::uintptr_t>(width_ * kLineBytes);
    m.left = left_;
    m.steps = of_row_;
    m.gap = gap_;
    rest_ -= steps;
  }

  // After as many steps as were asked for.
  void leave(const Meanwhile& m) {
    if (is_idle_) return;
    line_ = m.line;
    left_ = m.left;
    if (rest_ > 0) return;
    ++part_;
    begin_part();
  }

 private:
  void begin_part() {
    if (part_ == ahead_->count()) return;
    const AheadRows& rows = (*ahead_)[part_];
    line_ = first_line(rows);
    left_ = of_row_ = steps_of(rows);
    gap_ = static_cast<std::uintptr_t>(rows.pitch - of_row_ * width_ * kLineBytes);
    rest_ = of_row_ * rows.rows;
  }
  static std::uintptr_t first_line(const AheadRows& rows) {
    return reinterpret_cast<std::uintptr_t>(rows.first) / kLineBytes * kLineBytes;
  }
  std::int64_t steps_of(const AheadRows& rows) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(rows.first) - first_line(rows);
    const std::int64_t bytes = width_ * kLineBytes;
    return (static_cast<std::int64_t>(begin) + rows.bytes + bytes - 1) / bytes;
  }
  std::int64_t steps_in_all() const {
    std::int64_t total = 0;
    for (int i = 0; i < ahead_->count(); ++i) total += steps_of((*ahead_)[i]) * (*ahead_)[i].rows;
    return total;
  }

  const Ahead* ahead_;
  std::uintptr_t idle_;
  std::int64_t width_ = 1;  // lines a step
  std::int64_t wait_ = 0;
  bool is_idle_ = true;
  // In the current part: the next line, steps to the end of its row, steps of a row and in all.
  int part_ = 0;
  std::uintptr_t line_ = 0, gap_ = 0;
  std::int64_t left_ = 0, of_row_ = 0, rest_ = 0;
};

}  // namespace gemm_core::detail
