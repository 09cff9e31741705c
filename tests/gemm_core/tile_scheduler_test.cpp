// Partition laws of the schedulers, over sweeps of shapes.
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "gemm_core/kernel/grouped_schedule.hpp"
#include "gemm_core/kernel/stream_k.hpp"
#include "gemm_core/kernel/tile_schedule.hpp"

namespace {

using namespace kernel;  // NOLINT: a test file

static_assert(std::is_trivially_copyable_v<PersistentSchedule> &&
              std::is_trivially_copyable_v<StreamKPlan> &&
              std::is_trivially_copyable_v<GroupedSchedule>);

const std::vector<TileGrid> kGrids = {{0, 3, 1},   {3, 0, 1},   {1, 1, 1},  {1, 17, 1}, {17, 1, 2},
                                      {2, 3, 5},   {8, 8, 1},   {13, 7, 1}, {7, 13, 3}, {40, 12, 1},
                                      {3, 131, 1}, {133, 1, 1}, {5, 5, 0}};

TEST(PersistentSchedule, TakesEveryTileOnceForEveryShapeRasterGroupAndNumberOfProcessors) {
  for (const TileGrid& grid : kGrids)
    for (const Raster raster : {Raster::along_m, Raster::along_n, Raster::heuristic})
      for (const std::uint32_t group : {1u, 2u, 4u, 8u})
        for (const std::uint32_t processors : {1u, 2u, 7u, 132u}) {
          const PersistentSchedule schedule(TileOrder(grid, raster, group), processors);
          ASSERT_EQ(schedule.workers(), std::min<std::int64_t>(grid.count(), processors));
          std::vector<int> taken(static_cast<std::size_t>(grid.count()));
          for (std::uint32_t w = 0; w < schedule.workers(); ++w)
            for (auto i = schedule.first(w); schedule.has(i); i = schedule.next(i)) {
              const TileCoord t = schedule.tile(i);
              ASSERT_TRUE(t.m < grid.m && t.n < grid.n && t.batch < grid.batches);
              ++taken[static_cast<std::size_t>((t.batch * grid.n + t.n) * grid.m + t.m)];
            }
          for (const int times : taken) ASSERT_EQ(times, 1);
        }
}

TEST(PersistentSchedule, GivesWorkersTileCountsThatDifferByAtMostOne) {
  const PersistentSchedule schedule(TileOrder({40, 12, 1}, Raster::along_m, 4), 132);
  std::set<int> counts;
  for (std::uint32_t w = 0; w < schedule.workers(); ++w) {
    int count = 0;
    for (auto i = schedule.first(w); schedule.has(i); i = schedule.next(i)) ++count;
    counts.insert(count);
  }
  EXPECT_EQ(counts, (std::set<int>{3, 4}));
}

TEST(TileOrder, RunsAlongItsAxisThroughBandsOfTheGroup) {
  const TileOrder order({3, 5, 1}, Raster::along_m, 2);
  const std::vector<TileCoord> expected = {{0, 0, 0}, {0, 1, 0}, {1, 0, 0}, {1, 1, 0},
                                           {2, 0, 0}, {2, 1, 0}, {0, 2, 0}};
  for (std::uint32_t i = 0; i < expected.size(); ++i) EXPECT_EQ(order.tile(i), expected[i]) << i;
  EXPECT_EQ(order.tile(13), (TileCoord{1, 4, 0})) << "the last band is one tile wide";
  EXPECT_TRUE(TileOrder({3, 5, 1}, Raster::heuristic, 1).runs_along_m());
  EXPECT_FALSE(TileOrder({5, 3, 1}, Raster::heuristic, 1).runs_along_m());
}

TEST(TileOrder, RefusesMoreTilesThanAnIndexHoldsAndOtherGroups) {
  EXPECT_NO_THROW(TileOrder({65536, 65535, 1}, Raster::along_m, 1));
  EXPECT_THROW(TileOrder({65536, 65536, 1}, Raster::along_m, 1), base::Error);
  EXPECT_THROW(TileOrder({4, 4, 1}, Raster::along_m, 3), base::Error);
  EXPECT_THROW(TileOrder({-1, 4, 1}, Raster::along_m, 1), base::Error);
}

TEST(DataParallelSchedule, GivesEachWorkerOneTile) {
  const DataParallelSchedule schedule(TileOrder({4, 3, 1}, Raster::along_n, 1));
  EXPECT_EQ(schedule.workers(), 12u);
  for (std::uint32_t w = 0; w < 12; ++w)
    EXPECT_FALSE(schedule.has(schedule.next(schedule.first(w))));
  EXPECT_EQ(DataParallelSchedule(TileOrder({0, 3, 1}, Raster::along_n, 1)).workers(), 0u);
}

TEST(GroupedSchedule, TakesEveryTileOfEveryGroupOnceWhateverIsEmpty) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<GroupShape> shapes(random() % 12);
    std::int64_t expected = 0;
    for (GroupShape& s : shapes) {
      const auto size = [&] {
        return random() % 4 == 0 ? 0 : static_cast<std::int64_t>(random() % 300);
      };
      s = {size(), size(), size()};
      expected += (s.m + 63) / 64 * ((s.n + 31) / 32);
    }
    const std::int64_t workers = 1 + static_cast<std::int64_t>(random() % 9);
    const GroupedSchedule schedule(shapes.data(), std::ssize(shapes), 64, 32, workers);
    std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> taken;
    for (std::int64_t w = 0; w < workers; ++w)
      for (auto cursor = schedule.first(w); schedule.has(cursor); schedule.advance(cursor)) {
        const GroupTile t = schedule.tile(cursor);
        ASSERT_LT(t.m * 64, schedule.shape(cursor).m);
        ASSERT_LT(t.n * 32, schedule.shape(cursor).n);
        ASSERT_TRUE(taken.emplace(cursor.group, t.m, t.n).second);
      }
    ASSERT_EQ(std::ssize(taken), expected);
  }
}

std::vector<StreamKOptions> all_options() {
  std::vector<StreamKOptions> list = {
      {Decomposition::heuristic}, {Decomposition::data_parallel}, {Decomposition::stream_k}};
  for (const std::int64_t splits : {1, 2, 3, 8, 1000})
    list.push_back({Decomposition::split_k, splits});
  return list;
}

std::vector<StreamKProblem> all_problems() {
  std::vector<StreamKProblem> list;
  for (const std::int64_t processors : {1, 2, 5, 8, 132})
    for (const std::int64_t tiles : std::set<std::int64_t>{0, 1, 2, 3, processors - 1, processors,
                                                           processors + 1, 2 * processors + 1, 97})
      for (const std::int64_t k_tiles : {0, 1, 2, 7, 8, 13, 16, 31, 64, 127})
        list.push_back({tiles, k_tiles, processors});
  return list;
}

void expect_partition(const StreamKProblem& problem, const StreamKPlan& plan) {
  std::vector<std::vector<int>> covered(
      static_cast<std::size_t>(problem.tiles),
      std::vector<int>(static_cast<std::size_t>(problem.k_tiles)));
  std::vector<int> finished(static_cast<std::size_t>(problem.tiles)), started(finished);
  for (std::int64_t u = 0; u < plan.units(); ++u)
    for (std::int64_t i = 0; i < plan.piece_count(u); ++i) {
      const StreamKPiece piece = plan.piece(u, i);
      ASSERT_TRUE(piece.tile >= 0 && piece.tile < problem.tiles);
      ASSERT_TRUE(piece.k_begin >= 0 && piece.k_end <= problem.k_tiles);
      ASSERT_TRUE(piece.k_begin < piece.k_end || problem.k_tiles == 0) << "a piece without work";
      const auto tile = static_cast<std::size_t>(piece.tile);
      for (std::int64_t k = piece.k_begin; k < piece.k_end; ++k)
        ++covered[tile][static_cast<std::size_t>(k)];
      finished[tile] += piece.finishes_tile;
      started[tile] += piece.starts_tile;
      ASSERT_TRUE(piece.finishes_tile || (u < plan.stream_units() && i + 1 == plan.piece_count(u)))
          << "only the last piece of a unit may leave a tile unfinished";
    }
  for (const auto& tile : covered)
    for (const int times : tile) ASSERT_EQ(times, 1);
  for (const int times : finished) ASSERT_EQ(times, 1);
  for (const int times : started) ASSERT_EQ(times, 1);
}

TEST(StreamK, PiecesOfATilePartitionItsKTilesAndOneOfThemFinishesIt) {
  for (const StreamKProblem& problem : all_problems())
    for (const StreamKOptions& options : all_options()) {
      SCOPED_TRACE(testing::Message()
                   << problem.tiles << " tiles, " << problem.k_tiles << " k-tiles, "
                   << problem.processors << " processors, decomposition "
                   << static_cast<int>(options.decomposition));
      ASSERT_NO_FATAL_FAILURE(expect_partition(problem, plan_stream_k(problem, options)));
    }
}

TEST(StreamK, UnitsAreEvenAndNoShorterThanTheMinimum) {
  for (const StreamKProblem& problem : all_problems()) {
    const StreamKPlan plan = plan_stream_k(problem, {Decomposition::stream_k});
    EXPECT_LE(plan.groups(), kMaxStreamKGroups);
    EXPECT_LE(plan.stream_units(), problem.processors);
    std::set<std::int64_t> lengths;
    for (std::int64_t u = 0; u < plan.stream_units(); ++u) {
      std::int64_t length = 0;
      for (std::int64_t i = 0; i < plan.piece_count(u); ++i)
        length += plan.piece(u, i).k_end - plan.piece(u, i).k_begin;
      lengths.insert(length);
    }
    if (lengths.empty()) continue;
    EXPECT_LE(*lengths.rbegin() - *lengths.begin(), 1);
    EXPECT_TRUE(*lengths.begin() >= kMinKTilesPerUnit || plan.stream_units() == 1);
  }
}

// Finishers walk back over earlier units until the tile starts, in falling k: what deterministic
// sums add up, and the wait is on smaller units only.
TEST(StreamK, AFinisherFindsEveryEarlierPieceInEarlierUnits) {
  for (const StreamKProblem& problem : all_problems())
    for (const StreamKOptions& options : all_options()) {
      const StreamKPlan plan = plan_stream_k(problem, options);
      for (std::int64_t u = 0; u < plan.stream_units(); ++u)
        for (std::int64_t i = 0; i < plan.piece_count(u); ++i) {
          StreamKPiece piece = plan.piece(u, i);
          if (!piece.finishes_tile) continue;
          for (std::int64_t before = u; !piece.starts_tile;) {
            before = plan.previous_unit(before);
            ASSERT_GE(before, 0);
            const StreamKPiece earlier = plan.piece(before, plan.piece_count(before) - 1);
            ASSERT_EQ(earlier.tile, piece.tile);
            ASSERT_EQ(earlier.k_end, piece.k_begin);
            piece = earlier;
          }
        }
    }
}

// Workers take units in rising order and pieces from the last; a finisher may run only when its
// tile's other pieces have.
TEST(StreamK, NeverDeadlocksHoweverFewWorkersRun) {
  const StreamKPlan plan =
      plan_stream_k({.tiles = 7, .k_tiles = 31, .processors = 5}, {Decomposition::stream_k});
  std::vector<std::int64_t> done(7);
  for (std::int64_t u = 0; u < plan.units(); ++u)  // one worker: the hardest case
    for (std::int64_t i = plan.piece_count(u); i-- > 0;) {
      const StreamKPiece piece = plan.piece(u, i);
      auto& reached = done[static_cast<std::size_t>(piece.tile)];
      if (piece.finishes_tile) {
        ASSERT_EQ(reached, piece.k_begin);
      }
      reached += piece.k_end - piece.k_begin;
    }
  EXPECT_EQ(done, std::vector<std::int64_t>(7, 31));
}

TEST(StreamK, SplitsAreClampedToProcessorsAndKTiles) {
  EXPECT_EQ(plan_stream_k({2, 100, 4}, {Decomposition::split_k, 1000}).stream_units(), 8);
  EXPECT_EQ(plan_stream_k({2, 3, 132}, {Decomposition::split_k, 1000}).stream_units(), 6);
}

TEST(StreamK, TheHeuristicCutsOnlyWhereAWaveWouldStandHalfEmpty) {
  EXPECT_EQ(plan_stream_k({132, 64, 132}, {}).stream_units(), 0);
  EXPECT_EQ(plan_stream_k({131, 64, 132}, {}).stream_units(), 0);
  EXPECT_EQ(plan_stream_k({133, 64, 132}, {}).stream_units(), 132);
  EXPECT_EQ(plan_stream_k({1, 64, 132}, {}).stream_units(), 8);
  EXPECT_EQ(plan_stream_k({133, 4, 132}, {}).stream_units(), 0) << "k is too short to cut";
  EXPECT_EQ(plan_stream_k({400, 64, 132}, {}).whole_tiles(), 264);
}

TEST(StreamK, RefusesNegativeProblems) { EXPECT_THROW(plan_stream_k({-1, 4, 4}, {}), base::Error); }

}  // namespace
