// Schedules dealt on the device, held to greedy dealing one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <queue>

#include "tests/cuda/host_map.hpp"
#include "tests/cuda/require_device.hpp"

namespace cuda_tests {
namespace {

using gemm_core::TileRecord;
using gemm_core::cuda::TilePart;

std::vector<std::vector<TileRecord>> read_lists(const gemm_core::TileSchedule& schedule) {
  std::vector<TileRecord> all(static_cast<std::size_t>(schedule.lists) *
                              static_cast<std::size_t>(schedule.pitch));
  CUDA_CHECK(cudaDeviceSynchronize());
  CUDA_CHECK(cudaMemcpy(all.data(), schedule.records, all.size() * sizeof(TileRecord),
                        cudaMemcpyDeviceToHost));
  std::vector<std::vector<TileRecord>> lists(static_cast<std::size_t>(schedule.lists));
  for (std::size_t list = 0; list < lists.size(); ++list) {
    const TileRecord* record = all.data() + list * static_cast<std::size_t>(schedule.pitch);
    for (; record->slot >= 0; ++record) lists[list].push_back(*record);
    EXPECT_LT(record[1].slot, 0) << "a second end record";
  }
  return lists;
}

int cost_of(const TileRecord& r) {
  return std::popcount(r.masks[0] | r.masks[1]) + 1 +
         (r.flags & gemm_core::kTileAddsPartials ? 1 : 0);
}

// Greedy dealing one by one in the order of keys: what the device must match in its heaviest list.
int makespan(std::vector<int> early, std::vector<int> late, int lists) {
  std::priority_queue<int, std::vector<int>, std::greater<>> loads;
  for (int i = 0; i < lists; ++i) loads.push(0);
  int heaviest = 0;
  for (auto* costs : {&early, &late}) {
    std::sort(costs->rbegin(), costs->rend());
    for (const int cost : *costs) {
      const int load = loads.top() + cost;
      loads.pop();
      loads.push(load);
      heaviest = std::max(heaviest, load);
    }
  }
  return heaviest;
}

TEST(TileSchedule, HoldsEveryTileOnceAndIsAsLevelAsGreedyDealing) {
  REQUIRE_DEVICE();
  for (const int rows : {0, 1, 64, 65, 500, 3000, 30000}) {
    const Coords cells = surface_cells(rows, 3);
    const HostMap map = build_map(cells, cells, {3, 3, 3}, 1, 1);
    for (const bool in_planes : {false, true}) {
      const HostTable host = in_planes ? order_planes(map) : order_rows(map);
      DeviceTable table(map, host, nullptr);
      for (const int tile : {64, 128}) {
        for (const int lists : {1, 7, 132, 528, 1024}) {
          for (const TilePart part : {TilePart::outer, TilePart::centre}) {
            const auto dealt = read_lists(table.schedule(part, tile, lists, nullptr));
            std::map<int, TileRecord> seen;
            std::vector<int> early, late;
            int heaviest = 0;
            for (const auto& list : dealt) {
              int load = 0;
              for (const TileRecord& r : list) {
                EXPECT_TRUE(seen.emplace(r.slot, r).second)
                    << "tile at slot " << r.slot << " twice";
                load += cost_of(r);
                (r.flags & gemm_core::kTileAddsPartials ? late : early).push_back(cost_of(r));
              }
              heaviest = std::max(heaviest, load);
            }
            const int begin = part == TilePart::outer ? 0 : host.plane_begin[2];
            const int end = part == TilePart::outer ? host.plane_begin[2] : host.plane_begin[4];
            EXPECT_EQ(static_cast<int>(seen.size()), (end - begin + tile - 1) / tile);
            EXPECT_EQ(heaviest, makespan(early, late, lists))
                << rows << " rows, tile " << tile << ", " << lists << " lists";
            for (const auto& [slot, r] : seen) {
              for (int group = 0; group < tile / 64; ++group) {
                const auto index = static_cast<std::size_t>(slot / 64 + group);
                EXPECT_EQ(r.masks[group],
                          index < host.group_masks.size() ? host.group_masks[index] : 0);
              }
              const std::uint32_t plane = part == TilePart::centre ? 0u
                                          : slot < host.plane_begin[1]
                                              ? std::uint32_t{gemm_core::kTileBelow}
                                              : std::uint32_t{gemm_core::kTileAbove};
              EXPECT_EQ(r.flags & 3u, plane);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace cuda_tests
