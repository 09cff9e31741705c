#include <algorithm>
#include <cmath>

#include "gemm_core/base/error.hpp"
#include "sparseconv/training/options.hpp"

namespace sparseconv::training {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kOneCycleStart = 25;  // one_cycle starts at rate / 25

// From 1 at 0 to 0 at 1.
double half_cosine(double t) { return 0.5 * (1 + std::cos(kPi * t)); }

}  // namespace

void check(const ScheduleOptions& o) {
  ENSURE(std::isfinite(o.rate) && o.rate > 0, "schedule: rate ", o.rate, " must be positive");
  ENSURE(o.steps >= 1, "schedule: steps ", o.steps, " must be at least 1");
  ENSURE(o.warmup_steps >= 0 && o.warmup_steps <= o.steps, "schedule: warmup_steps ",
         o.warmup_steps, " is not in 0..", o.steps);
  ENSURE(o.final_fraction >= 0 && o.final_fraction <= 1, "schedule: final_fraction ",
         o.final_fraction, " is not in 0..1");
  ENSURE(o.kind != ScheduleOptions::Kind::one_cycle || (o.rise > 0 && o.rise < 1),
         "schedule: rise ", o.rise, " is not between 0 and 1");
}

double learning_rate(const ScheduleOptions& o, std::int64_t step) {
  using Kind = ScheduleOptions::Kind;
  const auto at = static_cast<double>(std::clamp<std::int64_t>(step, 0, o.steps - 1));
  const double last = static_cast<double>(o.steps - 1);
  const double lowest = o.rate * o.final_fraction;
  if (o.kind == Kind::one_cycle) {
    const double peak = o.rise * last;
    if (at < peak) {
      const double start = o.rate / kOneCycleStart;
      return o.rate + (start - o.rate) * half_cosine(at / peak);
    }
    return lowest + (o.rate - lowest) * half_cosine(last > peak ? (at - peak) / (last - peak) : 0);
  }
  const auto warmup = static_cast<double>(o.warmup_steps);
  if (at < warmup) return o.rate * (at + 1) / warmup;
  if (o.kind == Kind::constant) return o.rate;
  return lowest +
         (o.rate - lowest) * half_cosine(last > warmup ? (at - warmup) / (last - warmup) : 0);
}

}  // namespace sparseconv::training
