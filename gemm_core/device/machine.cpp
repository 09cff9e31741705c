#include "gemm_core/device/machine.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "gemm_core/atom/cpu_atoms.hpp"
#include "gemm_core/base/error.hpp"
#include "gemm_core/collective/aligned_buffer.hpp"

namespace gemm_core {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Sum over threads of each one's best rate over `bursts` runs of `burst`, which returns the work it
// did. The threads run side by side, so a rate is one of all cores busy.
template <class Burst>
double best_rate(int threads, int bursts, const Burst& burst) {
  ENSURE(threads >= 1 && threads <= 4096, "measure: threads ", threads, " is not in 1..4096");
  std::vector<double> best(static_cast<std::size_t>(threads), 0.0);
  std::vector<std::thread> workers;
  for (double& rate : best) {
    workers.emplace_back([&rate, &burst, bursts] {
      auto measure = burst();
      for (int i = 0; i < bursts; ++i) {
        const auto start = Clock::now();
        const double work = measure();
        rate = std::max(rate, work / seconds_since(start));
      }
    });
  }
  for (auto& worker : workers) worker.join();
  double sum = 0;
  for (const double rate : best) sum += rate;
  return sum;
}

}  // namespace

double measure_fma_peak(int threads) {
  constexpr std::int64_t kIterations = 500'000;  // a few milliseconds
  constexpr int kBursts = 40;
  return best_rate(threads, kBursts,
                   [] { return [] { return cpu_atoms().fma_burst(kIterations); }; });
}

double measure_copy_bandwidth(int threads) {
  constexpr std::int64_t kFloats = 16 << 20;  // 64 MiB each way and thread
  constexpr int kBursts = 8;
  return best_rate(threads, kBursts, [] {
    return [from = AlignedBuffer(), to = AlignedBuffer(), filled = false]() mutable {
      constexpr auto kBytes = static_cast<std::size_t>(kFloats) * sizeof(float);
      float* source = from.reserve(kFloats);
      float* target = to.reserve(kFloats);
      if (!filled) std::memset(source, 1, kBytes);
      filled = true;
      std::memcpy(target, source, kBytes);
      return 2.0 * static_cast<double>(kBytes);
    };
  });
}

const char* cpu_instruction_set() { return cpu_atoms().name; }

}  // namespace gemm_core
