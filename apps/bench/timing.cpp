#include "apps/bench/timing.hpp"

#include <algorithm>
#include <chrono>

namespace apps {

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<Times> time_in_turn(const std::vector<std::function<double()>>& contenders,
                                const Rounds& rounds) {
  std::vector<std::vector<double>> seconds(contenders.size());
  for (int round = -rounds.warmup; round < rounds.repeat; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      const double taken = contenders[i]();
      if (round >= 0) seconds[i].push_back(taken);
    }
  }
  std::vector<Times> times;
  for (std::vector<double>& sample : seconds) {
    std::ranges::sort(sample);
    const std::size_t middle = sample.size() / 2;
    const double median =
        sample.size() % 2 ? sample[middle] : (sample[middle - 1] + sample[middle]) / 2;
    times.push_back({median * 1e3, sample.front() * 1e3});
  }
  return times;
}

Times time_of(const std::function<void()>& work, const Rounds& rounds) {
  return time_in_turn({[&] { return seconds_of(work); }}, rounds)[0];
}

}  // namespace apps
