// Runs the steps of sparseconv/cuda one after the other on the host.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gemm_core/base/error.hpp"
#include "sparseconv/cuda/coordinate_steps.cuh"

namespace cuda_tests {

class HostRunner {
 public:
  template <class Step>
  void run(const Step& step, std::int64_t max_size, int jobs) {
    using sparseconv::cuda::kWarp;
    for (int job = 0; job < jobs; ++job) {
      const std::int32_t size = step.size(job);
      ENSURE(size <= max_size, "a step is larger than its launch");
      for (std::int32_t i = 0; i < (size + kWarp - 1) / kWarp * kWarp; ++i) {
        if constexpr (sparseconv::cuda::CountingStep<Step>)
          step(job, i, i < size, step.counters(job));
        else
          step(job, i, i < size);
      }
    }
  }
  void scan(const sparseconv::cuda::Pyramid& pyramid, sparseconv::cuda::LevelRows* rows,
            std::int32_t items) {
    sparseconv::cuda::LevelRows sum{};
    for (std::int32_t i = 0; i < items; ++i) rows[i] = sum = sum + pyramid.first_of_rows(i);
  }
  template <class Counts>
  void scan(const Counts& counts, std::int32_t* sums, std::int32_t items) {
    std::int32_t sum = 0;
    for (std::int32_t i = 0; i < items; ++i) sums[i] = sum += counts(i);
  }
  template <class Key>
  sparseconv::cuda::Sorted<Key> sort(sparseconv::cuda::Sorted<Key> from,
                                     sparseconv::cuda::Sorted<Key> to, std::int64_t items,
                                     int bits) {
    const Key mask = bits == static_cast<int>(8 * sizeof(Key)) ? ~Key{0} : (Key{1} << bits) - 1;
    std::vector<std::int64_t> order(static_cast<std::size_t>(items));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return (from.keys[a] & mask) < (from.keys[b] & mask);
    });
    for (std::int64_t i = 0; i < items; ++i) {
      to.keys[i] = from.keys[order[static_cast<std::size_t>(i)]];
      to.values[i] = from.values[order[static_cast<std::size_t>(i)]];
    }
    return to;
  }
  template <class T>
  void copy(T* to, const T* from, std::int64_t count) {
    if (to != from) std::copy_n(from, count, to);
  }
};

}  // namespace cuda_tests
