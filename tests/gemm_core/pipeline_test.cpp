// The pipeline's protocol, as state machines and with real threads.
#include "gemm_core/collective/pipeline.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

namespace {

using gemm_core::PhaseBarrier;
using gemm_core::PipelineState;

TEST(PipelineState, FlipsItsPhaseOnEveryWrap) {
  PipelineState<3> state;
  const int index[] = {0, 1, 2, 0, 1, 2, 0};
  const std::uint32_t phase[] = {0, 0, 0, 1, 1, 1, 0};
  for (int i = 0; i < 7; ++i, ++state) {
    EXPECT_EQ(state.index, index[i]);
    EXPECT_EQ(state.phase, phase[i]);
    EXPECT_EQ(state.count, i);
  }
}

TEST(AutoStages, AreThoseThatFitBesideTheEpilogue) {
  EXPECT_EQ(gemm_core::auto_stages(227 * 1024, 32 * 1024, 32 * 1024), 6);
  EXPECT_EQ(gemm_core::auto_stages(100, 0, 100), 1);
  EXPECT_THROW(gemm_core::auto_stages(100, 1, 100), base::Error);
}

// Every interleaving that the barriers allow, chosen at random: the consumers see every tile once,
// in order, and no stage is overwritten before all have released it.
template <int kStages>
void check_protocol(std::int64_t tiles, int consumers, unsigned seed) {
  std::deque<PhaseBarrier> full, empty;
  for (int i = 0; i < kStages; ++i) {
    full.emplace_back(1);
    empty.emplace_back(consumers);
  }
  std::vector<std::int64_t> stage(kStages, -1);
  auto write = gemm_core::producer_start<kStages>();
  std::vector<PipelineState<kStages>> read(static_cast<std::size_t>(consumers));
  unsigned random = seed;
  std::int64_t steps = 0;
  const auto done = [&] {
    for (const auto& r : read) {
      if (r.count < tiles) return false;
    }
    return write.count == tiles;
  };
  while (!done()) {
    ASSERT_LT(++steps, 100000) << "deadlock with " << kStages << " stages and " << tiles
                               << " tiles";
    random = random * 1664525u + 1013904223u;
    const int actor = static_cast<int>(random >> 8) % (consumers + 1);
    if (actor == consumers) {
      if (write.count == tiles ||
          !empty[static_cast<std::size_t>(write.index)].has_completed(write.phase))
        continue;
      stage[static_cast<std::size_t>(write.index)] = write.count;
      full[static_cast<std::size_t>(write.index)].arrive();
      ++write;
      continue;
    }
    auto& r = read[static_cast<std::size_t>(actor)];
    if (r.count == tiles || !full[static_cast<std::size_t>(r.index)].has_completed(r.phase))
      continue;
    ASSERT_EQ(stage[static_cast<std::size_t>(r.index)], r.count);
    empty[static_cast<std::size_t>(r.index)].arrive();
    ++r;
  }
}

template <int kStages>
void check_stages() {
  for (const std::int64_t tiles : {0, 1, kStages - 1, kStages, kStages + 1, 5 * kStages + 2}) {
    for (const int consumers : {1, 2, 3}) {
      for (unsigned seed = 0; seed < 20; ++seed) check_protocol<kStages>(tiles, consumers, seed);
    }
  }
}

TEST(Pipeline, HandsEveryTileOverOnceForEveryNumberOfStagesAndTiles) {
  check_stages<1>();
  check_stages<2>();
  check_stages<3>();
  check_stages<7>();
}

TEST(Pipeline, RunsBetweenThreads) {
  constexpr int kStages = 3;
  constexpr std::int64_t kTiles = 200;
  std::deque<PhaseBarrier> full, empty;
  for (int i = 0; i < kStages; ++i) {
    full.emplace_back(1);
    empty.emplace_back(1);
  }
  std::int64_t stage[kStages] = {};
  std::int64_t sum = 0;
  std::thread consumer([&] {
    for (PipelineState<kStages> read; read.count < kTiles; ++read) {
      full[static_cast<std::size_t>(read.index)].wait(read.phase);
      sum += stage[read.index];
      empty[static_cast<std::size_t>(read.index)].arrive();
    }
  });
  for (auto write = gemm_core::producer_start<kStages>(); write.count < kTiles; ++write) {
    empty[static_cast<std::size_t>(write.index)].wait(write.phase);
    stage[write.index] = write.count;
    full[static_cast<std::size_t>(write.index)].arrive();
  }
  consumer.join();
  EXPECT_EQ(sum, kTiles * (kTiles - 1) / 2);
}

}  // namespace
