// Steps that fill the slots of ordered maps: what the gather kernels read (gather_table.hpp).
#pragma once
#include "sparseconv/cuda/maps/order_steps.cuh"

namespace sparseconv::cuda {

// Slots of a job, as steps visit them.
struct OrderSlots {
  OrderJobs orders;
  const std::int32_t* items;  // of orders that were sorted
  const std::int32_t* segment_begin;

  SPARSECONV_DEVICE std::int32_t jobs() const { return orders.count; }
  std::int32_t capacity(int job) const { return static_cast<std::int32_t>(orders[job].capacity); }
  // What a kernel may look at: padding up to the alignment, and one group more.
  SPARSECONV_DEVICE std::int32_t size(int job) const {
    const std::int64_t end = orders[job].plane_begin[4] + 2 * gemm_core::kSlotAlignment - 1;
    const std::int64_t aligned = end / gemm_core::kSlotAlignment * gemm_core::kSlotAlignment;
    return static_cast<std::int32_t>(aligned < orders[job].capacity ? aligned
                                                                    : orders[job].capacity);
  }

  // Adds a row's taps to those of its group.
  SPARSECONV_DEVICE static void join(const OrderJob& order, std::int32_t slot, std::uint32_t mask) {
    warp_or(order.group_masks + slot / gemm_core::kSlotGroup, mask);
  }

  struct Place {
    int plane;
    std::int32_t rank;  // of the row as steps visit them; -1: padding
    std::uint32_t taps;
  };
  SPARSECONV_DEVICE Place place(const OrderJob& order, std::int32_t slot) const {
    const std::int32_t* begin = order.plane_begin;
    const int plane = slot < begin[1] ? 0 : slot < begin[2] ? 1 : 2;
    const std::int32_t within = slot - begin[plane];
    const std::int32_t rows = plane == 2 ? begin[4] - begin[2] : order.counters[kWarp + plane];
    const int part = order.is_planes != 0 ? plane : 0;
    Place at{plane, -1, order.is_planes != 0 ? plane_taps(plane) : ~0u};
    if (within >= rows) return at;
    at.rank = order.is_counted != 0
                  ? order.sorted[std::int64_t{part} * order.source.output.capacity + within]
                  : items[segment_begin[order.first_segment + part] + within];
    return at;
  }
};

// Which taps the rows of each group of slots have; of counted orders, bucket_sort.cuh.
struct JoinMasks {
  OrderSlots slots;
  SPARSECONV_DEVICE std::int32_t jobs() const { return slots.jobs(); }
  std::int32_t capacity(int job) const { return slots.capacity(job); }
  SPARSECONV_DEVICE std::int32_t size(int job) const { return slots.size(job); }
  SPARSECONV_DEVICE void operator()(int job, std::int32_t slot, bool is_active) const {
    if (!is_active) return;  // sizes are whole groups
    const OrderJob& order = slots.orders[job];
    const OrderSlots::Place at = slots.place(order, slot);
    slots.join(order, slot, at.rank < 0 ? 0 : order.masks[at.rank] & at.taps);
  }
};

// Quads of a row that belong to a slot. Threads of a warp call it together, with slots next to each
// other, and fetch rows together, as many lanes a row as it has quads: lanes that each read a row
// of their own took several times as long.
class SlotQuads {
 public:
  static constexpr int kMost = 8;
  static constexpr int kWords = kMost * sizeof(Quad) / sizeof(MemoryWord);  // of a StepContext

  // `row`: -1 for none, whose neighbours are none. `count`: of quads from `first` on.
  SPARSECONV_DEVICE SlotQuads(const OrderJob& order, std::int32_t row, int first, int count,
                              [[maybe_unused]] const StepContext& context) {
#if defined(__CUDA_ARCH__)
    lane_ = static_cast<int>(threadIdx.x % kWarp);
    kept_ = reinterpret_cast<Quad*>(context.words - threadIdx.x) +
            threadIdx.x / kWarp * (kWarp * kMost);
    const int shift = count <= 2 ? 1 : count <= 4 ? 2 : 3, rounds = 1 << shift;
    const int quad = lane_ & (rounds - 1);
    constexpr int kAtOnce = 4;
    __syncwarp();  // the slots before are done
    for (int round = 0; round < rounds; round += kAtOnce) {
      Quad quads[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const std::int32_t other =
            __shfl_sync(~0u, row, (round + j << (5 - shift)) + (lane_ >> shift) & (kWarp - 1));
        quads[j] = {{-1, -1, -1, -1}};
        if (other >= 0 && quad < count && round + j < rounds)
          quads[j] = order.staged[static_cast<std::int64_t>(other) * order.quads + first + quad];
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (round + j < rounds)
          kept_[place((round + j << (5 - shift)) + (lane_ >> shift), quad)] = quads[j];
      }
    }
    __syncwarp();
#else
    (void)count;
    if (row >= 0) kept_ = order.staged + static_cast<std::int64_t>(row) * order.quads + first;
#endif
  }
  SPARSECONV_DEVICE Quad operator[](int quad) const {
#if defined(__CUDA_ARCH__)
    return kept_[place(lane_, quad)];
#else
    return kept_ != nullptr ? kept_[quad] : Quad{{-1, -1, -1, -1}};
#endif
  }

 private:
#if defined(__CUDA_ARCH__)
  // Of lanes that ask for one quad of theirs, or for the quads of a row, eight meet all banks.
  __device__ static int place(int row, int quad) {
    return row * kMost + (quad ^ (row & (kMost - 1)));
  }
  int lane_;
#endif
  Quad* kept_ = nullptr;
};

// `kIsBeside`: reads nothing of the launch before it (tile schedules), whose start says that all
// before that one are done: so it goes on beside that launch, and ends after it.
template <bool kIsBeside>
struct FillSlots {
  static constexpr int kBlocksPerMultiprocessor = 5;
  static constexpr int kMemoryWords = SlotQuads::kWords;
  static constexpr bool kWaitsLast = kIsBeside;
  OrderSlots slots;
  SPARSECONV_DEVICE std::int32_t jobs() const { return slots.jobs(); }
  std::int32_t capacity(int job) const { return slots.capacity(job); }
  SPARSECONV_DEVICE std::int32_t size(int job) const { return slots.size(job); }
  SPARSECONV_DEVICE void operator()(int job, std::int32_t slot, bool is_active,
                                    const StepContext& context) const {
    if (!is_active) return;  // sizes are whole groups, of one plane each
    const OrderJob& order = slots.orders[job];
    const auto [plane, i, taps] = slots.place(order, slot);
    const std::uint32_t mask = i < 0 ? 0 : order.masks[i];
    const bool is_planes = order.is_planes != 0;
    const int values = is_planes ? 9 : order.source.taps;
    const SlotQuads quads(order, i, is_planes ? plane * kPlaneQuads : 0,
                          is_planes ? kPlaneQuads : order.quads, context);
    std::int32_t* to = order.neighbours + slot;
    if (is_planes) to += first_tap_of(plane) * order.capacity;
    const std::int64_t step = is_planes ? 3 * order.capacity : order.capacity;
    for (int q = 0; 4 * q < values; ++q) {
      const Quad quad = quads[q];
      SPARSECONV_UNROLL
      for (int k = 0; k < 4; ++k, to += step) {
        if (4 * q + k < values) *to = quad.value[k];
      }
    }
    std::int32_t entry = i < 0 ? -1 : order.source.output_row(i);
    if (is_planes && plane == 2) {
      if ((mask & plane_taps(0)) != 0) entry |= gemm_core::kSlotBelow;
      if ((mask & plane_taps(1)) != 0) entry |= gemm_core::kSlotAbove;
    }
    order.rows[slot] = entry;
  }
};

}  // namespace sparseconv::cuda
