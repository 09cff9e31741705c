// What the benchmarks of single operations take from their command line, and their operands.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "benchmarks/support/timing.hpp"

namespace benchmarks {

struct Settings {
  int threads = 1, rounds = 9;
  double peak = 0;  // multiply-adds of this machine, flop a second
  TimedBy clock = TimedBy::wall;
};

// argv[first] on: [threads] [rounds] [wall|cpu].
inline Settings settings_of(int argc, char** argv, int first = 1) {
  Settings s;
  if (argc > first) s.threads = std::atoi(argv[first]);
  if (argc > first + 1) s.rounds = std::atoi(argv[first + 1]);
  if (argc > first + 2 && std::string(argv[first + 2]) == "cpu") s.clock = TimedBy::process_cpu;
  return s;
}

// Values that begin on a cache line, as those of tensors do.
template <class T>
struct LineAllocator {
  using value_type = T;
  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>&) {}
  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), kLine));
  }
  void deallocate(T* values, std::size_t) { ::operator delete(values, kLine); }
  friend bool operator==(const LineAllocator&, const LineAllocator&) { return true; }

 private:
  static constexpr std::align_val_t kLine{64};
};
using Values = std::vector<float, LineAllocator<float>>;

// Normally distributed; the same in every run.
inline Values random_values(std::int64_t count) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  Values values(static_cast<std::size_t>(count));
  for (float& v : values) v = normal(random);
  return values;
}

}  // namespace benchmarks
