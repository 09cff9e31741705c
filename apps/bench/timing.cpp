#include "apps/bench/timing.hpp"

#include <algorithm>
#include <ctime>

namespace apps {

namespace {

double now_seconds(Clock clock) {
  timespec time{};
  clock_gettime(clock == Clock::wall ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

double seconds_of(const std::function<void()>& work, Clock clock) {
  const double start = now_seconds(clock);
  work();
  return now_seconds(clock) - start;
}

Times times_of(std::vector<double> sample) {
  std::ranges::sort(sample);
  const std::size_t middle = sample.size() / 2;
  const double median =
      sample.size() % 2 ? sample[middle] : (sample[middle - 1] + sample[middle]) / 2;
  return {median, sample.front()};
}

std::vector<Times> time_in_turn(const std::vector<std::function<double()>>& contenders,
                                const Rounds& rounds) {
  std::vector<std::vector<double>> milliseconds(contenders.size());
  for (int round = -rounds.warmup; round < rounds.repeat; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      const double taken = contenders[i]();
      if (round >= 0) milliseconds[i].push_back(1e3 * taken);
    }
  }
  std::vector<Times> times;
  for (std::vector<double>& sample : milliseconds) times.push_back(times_of(std::move(sample)));
  return times;
}

}  // namespace apps
