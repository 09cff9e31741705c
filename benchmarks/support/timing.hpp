// Contenders timed in turn, so that what else runs on the machine meets them alike; the minimum of
// many rounds counts. On a machine that others use, the clock of the process (CPU time) tells more
// of one thread's speed than the wall's.
#pragma once
#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>
#include <limits>
#include <vector>

namespace benchmarks {

enum class TimedBy { wall, process_cpu };

inline double now_seconds(TimedBy clock) {
  if (clock == TimedBy::process_cpu) {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Best seconds of each contender over `rounds` rounds, after one round that is not counted.
inline std::vector<double> best_seconds(const std::vector<std::function<void()>>& contenders,
                                        int rounds, TimedBy clock = TimedBy::wall) {
  std::vector<double> best(contenders.size(), std::numeric_limits<double>::infinity());
  for (int round = -1; round < rounds; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      const double start = now_seconds(clock);
      contenders[i]();
      const double seconds = now_seconds(clock) - start;
      if (round >= 0) best[i] = std::min(best[i], seconds);
    }
  }
  return best;
}

}  // namespace benchmarks
