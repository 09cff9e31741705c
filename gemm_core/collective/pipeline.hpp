// The circular buffer of stages between a producer of operand tiles and their consumers. A stage is
// full or empty by a phase bit that flips each time around, so that full and empty barriers need no
// reset.
//
//   PipelineState<3> write = producer_start<3>(), read;
//   wait(empty[write.index], write.phase); load; arrive(full[write.index]); ++write;      //
//   producer: acquire, commit wait(full[read.index], read.phase);    use;
//   arrive(empty[read.index]); ++read;       // consumer: wait, release
//
// A barrier has completed phase p when its parity differs from p. Waiting for the phase before the
// first one (what producer_start asks of the empty barriers) succeeds at once.
#pragma once
#include <atomic>
#include <cstdint>
#include <thread>

#include "gemm_core/base/error.hpp"
#include "gemm_core/base/host_device.hpp"

namespace gemm_core {

template <int kStages>
struct PipelineState {
  static_assert(kStages >= 1, "pipeline: at least one stage");
  int index = 0;
  std::uint32_t phase = 0;
  std::int64_t count = 0;  // stages passed
  BASE_HD constexpr PipelineState& operator++() {
    ++count;
    if (++index == kStages) {
      index = 0;
      phase ^= 1;
    }
    return *this;
  }
};

// The producer starts as if every stage had just been released: one phase behind the consumers.
template <int kStages>
BASE_HD constexpr PipelineState<kStages> producer_start() {
  PipelineState<kStages> state;
  state.phase = 1;
  return state;
}

// Stages that fit beside the epilogue's shared storage.
constexpr std::int64_t auto_stages(std::int64_t capacity, std::int64_t epilogue_bytes,
                                   std::int64_t stage_bytes) {
  ENSURE(stage_bytes > 0 && epilogue_bytes >= 0 && capacity - epilogue_bytes >= stage_bytes,
         "auto_stages: ", capacity, " bytes less ", epilogue_bytes, " hold no stage of ",
         stage_bytes);
  return (capacity - epilogue_bytes) / stage_bytes;
}

// A barrier of host threads with the meaning of the device's: `arrivals` of them complete a phase.
class PhaseBarrier {
 public:
  explicit PhaseBarrier(int arrivals) : arrivals_(arrivals), left_(arrivals) {}
  void arrive() {
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      left_.store(arrivals_, std::memory_order_relaxed);
      parity_.fetch_xor(1, std::memory_order_release);
    }
  }
  bool has_completed(std::uint32_t phase) const {
    return parity_.load(std::memory_order_acquire) != phase;
  }
  void wait(std::uint32_t phase) const {
    while (!has_completed(phase)) std::this_thread::yield();
  }

 private:
  int arrivals_;
  std::atomic<int> left_;
  std::atomic<std::uint32_t> parity_{0};
};

}  // namespace gemm_core
