// The order in which a product asks the memory for what is wanted after it: a line or two every few
// steps along k, so that the requests never queue before the product's own loads. These are the
// steps that are counted here: four or eight of k, as the micro-tile has it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>

#include "gemm_core/atom/cpu_atoms.hpp"

namespace gemm_core::detail {

inline constexpr std::int64_t kLineBytes = 64;

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
    if (ahead == nullptr || steps == 0) {
      begin_idle(std::numeric_limits<std::int64_t>::max());
      return;
    }
    if (steps_in_all() > steps) width_ = 2;
    begin_idle(std::max<std::int64_t>(0, steps - steps_in_all()));
  }

  void share_panel(std::int64_t bytes) {
    meanwhile_.panel_step = static_cast<std::uintptr_t>(bytes);
  }
  // What to ask for during the next `steps` steps.
  Meanwhile& next(std::int64_t steps) {
    if (rest_ <= 0) begin_part();
    rest_ -= steps;
    return meanwhile_;
  }

 private:
  void begin_idle(std::int64_t steps) {
    meanwhile_.line = idle_;
    meanwhile_.second = meanwhile_.advance = meanwhile_.gap = 0;
    meanwhile_.left = meanwhile_.steps = std::numeric_limits<std::int64_t>::max();
    rest_ = steps;
  }
  void begin_part() {
    if (part_ == ahead_->count()) return begin_idle(std::numeric_limits<std::int64_t>::max());
    const AheadRows& rows = (*ahead_)[part_++];
    const std::int64_t of_row = steps_of(rows), advance = width_ * kLineBytes;
    meanwhile_.line = first_line(rows);
    meanwhile_.second = static_cast<std::uintptr_t>(advance - kLineBytes);
    meanwhile_.advance = static_cast<std::uintptr_t>(advance);
    meanwhile_.left = meanwhile_.steps = of_row;
    meanwhile_.gap = static_cast<std::uintptr_t>(rows.pitch - of_row * advance);
    rest_ = of_row * rows.rows;
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
  int part_ = 0;            // the next part
  std::int64_t rest_ = 0;   // steps of the current one
  Meanwhile meanwhile_;
};

}  // namespace gemm_core::detail
