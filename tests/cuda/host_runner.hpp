// Runs the steps of sparseconv/cuda one after the other on the host.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gemm_core/base/error.hpp"
#include "sparseconv/cuda/maps/coordinate_steps.cuh"
#include "sparseconv/cuda/maps/plain_marks.cuh"
#include "sparseconv/cuda/maps/slot_steps.cuh"

namespace cuda_tests {

class HostRunner {
 public:
  template <class Step>
  void run(const Step& step) {
    using sparseconv::cuda::kWarp;
    for (int job = 0; job < step.jobs(); ++job) {
      const std::int32_t size = step.size(job);
      ENSURE(size <= step.capacity(job), "a step is larger than its launch");
      for (std::int32_t i = 0; i < (size + kWarp - 1) / kWarp * kWarp; ++i) {
        call(step, job, i, i < size);
      }
    }
  }
  template <class Counts, class Sum>
  void scan(const Counts& counts, Sum* sums, std::int32_t items) {
    Sum sum{};
    for (std::int32_t i = 0; i < items; ++i) sums[i] = sum = sum + counts(i);
  }
  template <class Key>
  sparseconv::cuda::Sorted<Key> sort(sparseconv::cuda::Sorted<Key> from,
                                     sparseconv::cuda::Sorted<Key> to,
                                     const sparseconv::cuda::ItemCount& number,
                                     const sparseconv::cuda::SortBits& bits) {
    const std::int64_t items = number.items();
    const int count = bits.count();
    const Key mask = count == static_cast<int>(8 * sizeof(Key)) ? ~Key{0} : (Key{1} << count) - 1;
    const auto seen = [&](Key key) { return static_cast<Key>(bits.of(key) & mask); };
    std::vector<std::int64_t> order(static_cast<std::size_t>(items));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return seen(from.keys[a]) < seen(from.keys[b]);
    });
    for (std::int64_t i = 0; i < items; ++i) {
      to.keys[i] = from.keys[order[static_cast<std::size_t>(i)]];
      to.values[i] = from.values[order[static_cast<std::size_t>(i)]];
    }
    return to;
  }
  void levels(const sparseconv::cuda::Pyramid& pyramid) {
    using namespace sparseconv::cuda;
    const std::int32_t rows = pyramid.source.size();
    LevelRows through{};
    for (std::int32_t begin = 0; begin < rows; begin += kWarp) {
      LevelBits bits{};
      const std::int32_t end = std::min(rows, begin + kWarp);
      for (std::int32_t i = begin; i < end; ++i) {
        pyramid.mark(i, true, [&](int level, bool begins) {
          bits.word[level] |= (begins ? 1u : 0u) << (i - begin);
          through.row[level] += begins ? 1 : 0;
        });
      }
      for (std::int32_t i = begin; i < end; ++i) pyramid.build(i, bits, through);
    }
  }
  void mark_blocks(const sparseconv::cuda::PlainMarks& marks) {
    using namespace sparseconv::cuda;
    for (int job = 0; job < marks.count; ++job) {
      const PlainMark& mark = marks[job];
      for (std::int32_t b = 0; b < *mark.source.used; ++b) {
        const BlockHead head = mark.source.entries[mark.source.list[b]].head;
        const auto span =
            BlockSpan::of(mark, head.id, mark.is_marked != 0 ? ~head.mask : head.mask);
        for (int block = 0; block < span.blocks; ++block) span.put(mark, block);
      }
    }
  }
  void order(const sparseconv::cuda::OrderJobs& orders) {
    using namespace sparseconv::cuda;
    for (int job = 0; job < orders.count; ++job) {
      const OrderJob& order = orders[job];
      std::uint32_t key_bits[kWarp] = {};
      for (int tap = 0; tap < order.source.taps; ++tap) key_bits[tap] = key_bits_of(order, tap);
      write_plane_begin(order);
      for (int p = 0; p < order.parts(); ++p) {
        const CountedPart part = CountedPart::of(order, p);
        std::vector<std::int32_t> rows;
        for (std::int32_t i = 0; i < order.source.output.size(); ++i) {
          if (part.has(order.masks[i])) rows.push_back(i);
        }
        const auto key = [&](std::int32_t i) {
          const std::uint32_t mask = order.masks[i];
          return std::pair(part.is_late(mask), key_of(key_bits, mask & part.taps));
        };
        std::stable_sort(rows.begin(), rows.end(),
                         [&](std::int32_t a, std::int32_t b) { return key(a) < key(b); });
        std::copy(rows.begin(), rows.end(),
                  order.sorted + std::int64_t{p} * order.source.output.capacity);
      }
    }
    run(JoinMasks{{orders, nullptr, nullptr}});
  }
  template <class T>
  void copy(T* to, const T* from, std::int64_t count) {
    if (to != from) std::copy_n(from, count, to);
  }

 private:
  template <class Step>
  static void call(const Step& step, int job, std::int32_t i, bool is_active) {
    using namespace sparseconv::cuda;
    constexpr bool kCounts = CountingStep<Step>, kHasMemory = StepWithMemory<Step>;
    if constexpr (kCounts || kHasMemory) {
      MemoryWord words[64];
      StepContext context{nullptr, words, 1};
      if constexpr (kCounts) context.tally = step.counters(job);
      step(job, i, is_active, context);
    } else {
      step(job, i, is_active);
    }
  }
};

}  // namespace cuda_tests
