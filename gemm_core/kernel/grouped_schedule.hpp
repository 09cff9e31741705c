// Tiles of many GEMMs of different sizes, in one launch. Sizes lie in memory that the workers read
// (device memory on a GPU), so they need not be known when the launch is planned. A worker takes
// linear tiles w, w + workers, ... and walks the groups' tile counts forward as it goes: all walks
// together read every group once a worker, and none is sorted or searched.
//   auto cursor = schedule.first(worker);
//   for (; schedule.has(cursor); schedule.advance(cursor)) run(cursor.group,
//   schedule.tile(cursor));
// Groups without rows or columns have no tiles. A group with k = 0 keeps its tiles: they hold beta
// * C.
#pragma once
#include "gemm_core/base/error.hpp"
#include "gemm_core/base/host_device.hpp"

namespace kernel {

struct GroupShape {
  std::int64_t m = 0, n = 0, k = 0;
};

struct GroupTile {
  std::int64_t m = 0, n = 0;  // in tiles, inside the group
};

struct GroupCursor {
  std::int64_t index = 0;        // linear tile over all groups
  std::int64_t group_begin = 0;  // linear tile of the first one of `group`
  std::int64_t group = 0;
};

class GroupedSchedule {
 public:
  // `shapes` is not owned. Sizes must not be negative.
  constexpr GroupedSchedule(const GroupShape* shapes, std::int64_t groups, std::int64_t tile_m,
                            std::int64_t tile_n, std::int64_t workers)
      : shapes_(shapes), groups_(groups), tile_m_(tile_m), tile_n_(tile_n), workers_(workers) {
    ENSURE(groups >= 0 && (groups == 0 || shapes != nullptr), "grouped schedule: no shapes for ",
           groups, " groups");
    ENSURE(tile_m >= 1 && tile_n >= 1 && workers >= 1, "grouped schedule: tile ", tile_m, " x ",
           tile_n, ", ", workers, " workers, expected at least 1 of each");
  }

  BASE_HD constexpr std::int64_t workers() const { return workers_; }
  BASE_HD constexpr GroupCursor first(std::int64_t worker) const {
    GroupCursor cursor{.index = worker};
    walk(cursor);
    return cursor;
  }
  BASE_HD constexpr bool has(const GroupCursor& cursor) const { return cursor.group < groups_; }
  BASE_HD constexpr void advance(GroupCursor& cursor) const {
    cursor.index += workers_;
    walk(cursor);
  }
  BASE_HD constexpr const GroupShape& shape(const GroupCursor& cursor) const {
    return shapes_[cursor.group];
  }
  // Down the rows first: consecutive tiles share B.
  BASE_HD constexpr GroupTile tile(const GroupCursor& cursor) const {
    const std::int64_t local = cursor.index - cursor.group_begin, rows = tiles_m(cursor.group);
    return {local % rows, local / rows};
  }

 private:
  BASE_HD constexpr std::int64_t tiles_m(std::int64_t group) const {
    return (shapes_[group].m + tile_m_ - 1) / tile_m_;
  }
  BASE_HD constexpr std::int64_t tiles_in(std::int64_t group) const {
    return tiles_m(group) * ((shapes_[group].n + tile_n_ - 1) / tile_n_);
  }
  BASE_HD constexpr void walk(GroupCursor& cursor) const {
    for (; cursor.group < groups_; ++cursor.group) {
      const std::int64_t count = tiles_in(cursor.group);
      if (cursor.index < cursor.group_begin + count) return;
      cursor.group_begin += count;
    }
  }

  const GroupShape* shapes_;
  std::int64_t groups_, tile_m_, tile_n_, workers_;
};

}  // namespace kernel
