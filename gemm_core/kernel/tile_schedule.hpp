// Which worker (a block, a thread, a task) computes which tile.
//   DataParallelSchedule: one worker a tile.
//   PersistentSchedule: min(tiles, processors) workers; worker w takes tiles w, w + workers, ...
//   for (auto t = schedule.first(worker); schedule.has(t); t = schedule.next(t))
//   run(schedule.tile(t));
#pragma once
#include "gemm_core/kernel/tile_order.hpp"

namespace kernel {

class PersistentSchedule {
 public:
  constexpr PersistentSchedule() = default;
  constexpr PersistentSchedule(const TileOrder& order, std::uint32_t processors) : order_(order) {
    ENSURE(processors >= 1, "persistent schedule: no processors");
    workers_ = order.count() < processors ? order.count() : processors;
  }

  BASE_HD constexpr std::uint32_t workers() const {
    return workers_;
  }  // 0 for an empty grid: launch nothing
  BASE_HD constexpr std::uint64_t first(std::uint32_t worker) const { return worker; }
  BASE_HD constexpr bool has(std::uint64_t index) const { return index < order_.count(); }
  // 64 bits: the step past the last tile may pass 2^32.
  BASE_HD constexpr std::uint64_t next(std::uint64_t index) const { return index + workers_; }
  BASE_HD constexpr TileCoord tile(std::uint64_t index) const {
    return order_.tile(static_cast<std::uint32_t>(index));
  }

 private:
  TileOrder order_;
  std::uint32_t workers_ = 0;
};

class DataParallelSchedule : public PersistentSchedule {
 public:
  constexpr DataParallelSchedule() = default;
  constexpr explicit DataParallelSchedule(const TileOrder& order)
      : PersistentSchedule(order, order.count() > 0 ? order.count() : 1) {}
};

}  // namespace kernel
