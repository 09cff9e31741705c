// Times of several contenders taken in turn, so that what else runs on the machine meets them
// alike.
#pragma once
#include <functional>
#include <vector>

namespace apps {

struct Times {
  double median_ms = 0, min_ms = 0;
};

Times times_of(std::vector<double> milliseconds);  // at least one

struct Rounds {
  int warmup = 2, repeat = 15;
};

// One element a contender. A contender returns the seconds it wants counted.
std::vector<Times> time_in_turn(const std::vector<std::function<double()>>& contenders,
                                const Rounds& rounds);

// Time that passes, or that processors spend on this process: on a machine that others use, the
// second tells more of one thread's speed.
enum class Clock { wall, processor };

// Seconds that `work` takes.
double seconds_of(const std::function<void()>& work, Clock clock = Clock::wall);

}  // namespace apps
