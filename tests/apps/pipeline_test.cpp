// The parts under the commands: order, bounds and failures of the pipeline; the log of finished
// results; option texts.
#include "apps/batch/pipeline.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "apps/batch/result_log.hpp"
#include "apps/values.hpp"
#include "tests/apps/command_line.hpp"

using namespace apps;
using command_line::ScratchFolder, command_line::write_bytes;

namespace {

TEST(OrderedLoader, HandsResultsOutInOrderWhateverTheTiming) {
  std::atomic<int> loading{0}, most{0};
  OrderedLoader<std::size_t> loader(40, 4, [&](std::size_t i) {
    most = std::max(most.load(), ++loading);
    std::this_thread::sleep_for(std::chrono::milliseconds((i * 7) % 5));
    --loading;
    ENSURE(i % 10 != 3, "number ", i);
    return i * i;
  });
  for (std::size_t i = 0; i < 40; ++i) {
    const auto loaded = loader.next();
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->index, i);
    if (i % 10 == 3) {
      EXPECT_EQ(loaded->error, "number " + std::to_string(i));
    } else {
      EXPECT_EQ(loaded->value.value(), i * i);
    }
  }
  EXPECT_FALSE(loader.next());
  EXPECT_LE(most, 4);
}

TEST(OrderedLoader, ReadsNoFurtherAheadThanItsJobs) {
  std::atomic<std::size_t> loads{0};
  OrderedLoader<int> loader(100, 3, [&](std::size_t) { return static_cast<int>(++loads); });
  loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(loads, 4u);  // the one taken and three ahead
}  // and the destructor ends the rest

// A first load that takes long holds nobody up until as many as asked for lie behind it.
TEST(OrderedLoader, GoesOnBehindASlowOneAsFarAsAsked) {
  std::atomic<int> loads{0};
  std::atomic<bool> may_end{false};
  OrderedLoader<int> loader(
      100, 2,
      [&](std::size_t i) {
        while (i == 0 && !may_end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return static_cast<int>(i) + 0 * ++loads;
      },
      6);
  for (int waited = 0; loads < 5 && waited < 5000; ++waited)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(loads, 5);  // six without the slow one
  may_end = true;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(loader.next()->value.value(), i);
}

TEST(OrderedWorkers, RunSecondPartsInOrderAndKeepTheFirstFailure) {
  for (const int threads : {1, 4}) {
    std::vector<int> done;
    OrderedWorkers workers(threads);
    for (int i = 0; i < 10; ++i) {
      workers.push([&done, i] {
        return [&done, i] {
          ENSURE(i != 6, "job 6");
          done.push_back(i);
        };
      });
    }
    EXPECT_THROW(workers.finish(), base::Error);
    EXPECT_EQ(done, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  }
}

TEST(OrderedWorkers, RunFirstPartsAtTheSameTimeWhateverTheirLength) {
  std::vector<int> done;
  std::atomic<int> running{0}, most{0}, seconds{0};
  OrderedWorkers workers(3);
  for (int i = 0; i < 60; ++i) {
    workers.push([&, i] {
      most = std::max(most.load(), ++running);
      std::this_thread::sleep_for(std::chrono::milliseconds(i % 3 == 0 ? 5 : 1));
      --running;
      return [&, i] {
        EXPECT_EQ(++seconds, 1);
        done.push_back(i);
        --seconds;
      };
    });
  }
  workers.finish();
  ASSERT_EQ(done.size(), 60u);
  for (int i = 0; i < 60; ++i) EXPECT_EQ(done[static_cast<std::size_t>(i)], i);
  EXPECT_GE(most, 2);
  EXPECT_LE(most, 3);
}

TEST(OrderedWorkers, AFailingFirstPartEndsWhatFollowsButNotWhatCameBefore) {
  std::vector<int> done;
  OrderedWorkers workers(3);
  for (int i = 0; i < 20; ++i) {
    workers.push([&done, i] {
      if (i < 5) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ENSURE(i != 5, "job 5");
      return [&done, i] { done.push_back(i); };
    });
  }
  EXPECT_THROW(workers.finish(), base::Error);
  EXPECT_EQ(done, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(BatchThreads, LeaveAQuarterOfTheCoresToWriters) {
  for (const auto& [cores, jobs, writers] :
       {std::array{1, 1, 1}, {2, 1, 1}, {3, 2, 1}, {4, 3, 2}, {16, 12, 4}}) {
    EXPECT_EQ(batch_threads(cores).jobs, jobs) << cores;
    EXPECT_EQ(batch_threads(cores).writers, writers) << cores;
    EXPECT_EQ(batch_threads(cores).each, 1) << cores;
  }
  EXPECT_EQ(batch_threads(16, 1).each, 12);
  EXPECT_EQ(batch_threads(16, 5).each, 2);
  EXPECT_EQ(batch_threads(2, 8).jobs, 8);
  EXPECT_EQ(batch_threads(2, 8).each, 1);
}

TEST(ResultLog, KnowsResultsAcrossCrashes) {
  const ScratchFolder folder;
  write_bytes(folder / "a.h5", "result");
  write_bytes(folder / "\xff.h5", "result");
  {
    ResultLog log(folder.path());
    log.add(folder / "a.h5", "same");
    log.add(folder / "\xff.h5", "same");
  }
  std::ofstream(folder / ".sparseconv-run.jsonl", std::ios::app)
      << "\n{\"result\": \"b.h5\", \"sta";  // cut short
  ResultLog log(folder.path());
  EXPECT_TRUE(log.has(folder / "a.h5", "same"));
  EXPECT_TRUE(log.has(folder / "\xff.h5", "same"));
  EXPECT_FALSE(log.has(folder / "a.h5", "other"));
  EXPECT_FALSE(log.has(folder / "b.h5", "same"));
  log.add(folder / "a.h5", "other");
  EXPECT_TRUE(ResultLog(folder.path()).has(folder / "a.h5", "other"));
  write_bytes(folder / "a.h5", "longer result");
  EXPECT_FALSE(ResultLog(folder.path()).has(folder / "a.h5", "other"));
}

TEST(Values, NumbersAreReadWholeOrRefused) {
  EXPECT_EQ(parse_number("x", "-1.5e-3"), -1.5e-3);
  EXPECT_EQ(parse_number("x", "+2"), 2);
  EXPECT_EQ(parse_numbers("x", "1,-2.5"), (std::vector<double>{1, -2.5}));
  for (const char* text : {"", "1,5", "1.5m", " 1", "1 ", "nan", "inf", "1e999", "0x10"}) {
    EXPECT_THROW(parse_number("x", text), UsageError) << text;
  }
  EXPECT_EQ(split_list("a,,b,"), (std::vector<std::string>{"a", "", "b", ""}));
  EXPECT_EQ(split_list(""), std::vector<std::string>{});
  EXPECT_EQ(parse_voxel_size("v", "0.5"), (std::array<double, 3>{0.5, 0.5, 0.5}));
}

}  // namespace
