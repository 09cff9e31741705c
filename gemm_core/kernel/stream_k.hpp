// Stream-K: the k loops of all tiles laid end to end, tiles x k-tiles in all, cut into even units,
// so that every processor gets the same work whatever the number of tiles (Osama et al.,
// "Stream-K", PPoPP 2023).
//   const StreamKPlan plan = plan_stream_k({.tiles = 133, .k_tiles = 64, .processors = 132}, {});
//   for (u = worker; u < plan.units(); u += plan.workers())            // rising u: see below
//     for (i = plan.piece_count(u); i-- > 0;) run(plan.piece(u, i));   // last piece first
// A unit covers a stretch of that line; its pieces are what it covers of each tile, in rising
// tiles. All pieces of a tile partition its k-tiles. The piece that reaches the end of k finishes
// the tile: it adds the partial sums of the tile's earlier pieces and runs the epilogue. Only a
// unit's last piece can leave a tile unfinished, so a unit has one workspace slot. Taking the last
// piece first, and units in rising order, a finisher waits only for pieces that were started before
// it: no deadlock however few units run at a time. Adding in piece order makes sums deterministic;
// atomics are the other choice.
#pragma once
#include <algorithm>

#include "gemm_core/base/error.hpp"
#include "gemm_core/base/host_device.hpp"

namespace kernel {

enum class Decomposition : std::uint8_t { heuristic, data_parallel, split_k, stream_k };

struct StreamKProblem {
  std::int64_t tiles = 0, k_tiles = 0, processors = 1;
};

struct StreamKOptions {
  Decomposition decomposition = Decomposition::heuristic;
  std::int64_t splits = 1;  // split_k: pieces a tile, clamped to processors and k-tiles
};

inline constexpr std::int64_t kMinKTilesPerUnit =
    8;  // below, fix-up costs more than the even split gains
inline constexpr std::int64_t kMaxStreamKGroups = 8;

// A unit's part of one tile.
struct StreamKPiece {
  std::int64_t tile = 0, k_begin = 0, k_end = 0;
  bool starts_tile = true, finishes_tile = true;
};

class StreamKPlan {
 public:
  BASE_HD constexpr std::int64_t units() const { return stream_units_ + whole_tiles_; }
  BASE_HD constexpr std::int64_t workers() const {
    return units() < processors_ ? units() : processors_;
  }
  BASE_HD constexpr std::int64_t stream_units() const {
    return stream_units_;
  }  // the only ones with workspace slots
  BASE_HD constexpr std::int64_t stream_tiles() const {
    return stream_tiles_;
  }  // tiles 0 .. stream_tiles-1
  BASE_HD constexpr std::int64_t whole_tiles() const {
    return whole_tiles_;
  }  // the rest, one unit each
  BASE_HD constexpr std::int64_t groups() const { return groups_; }

  BASE_HD constexpr std::int64_t piece_count(std::int64_t unit) const {
    if (unit >= stream_units_) return 1;
    const std::int64_t position = position_of(unit);
    return (begin(position + 1) - 1) / k_tiles_ - begin(position) / k_tiles_ + 1;
  }

  BASE_HD constexpr StreamKPiece piece(std::int64_t unit, std::int64_t i) const {
    if (unit >= stream_units_)
      return {stream_tiles_ + unit - stream_units_, 0, k_tiles_, true, true};
    const std::int64_t position = position_of(unit), from = begin(position),
                       to = begin(position + 1);
    const std::int64_t tile = from / k_tiles_ + i, tile_begin = tile * k_tiles_;
    const std::int64_t k_begin = i == 0 ? from - tile_begin : 0;
    const std::int64_t k_end = to - tile_begin < k_tiles_ ? to - tile_begin : k_tiles_;
    return {tile, k_begin, k_end, k_begin == 0, k_end == k_tiles_};
  }

  // The unit that holds the k-tile before `piece` of the same tile: what a finisher walks back
  // over, until starts_tile.
  BASE_HD constexpr std::int64_t previous_unit(std::int64_t unit) const { return unit - groups_; }

 private:
  friend constexpr StreamKPlan plan_stream_k(const StreamKProblem&, const StreamKOptions&);

  // Units are dealt to the groups in turn, so that units that run side by side stand at one k
  // offset of different tiles.
  BASE_HD constexpr std::int64_t position_of(std::int64_t unit) const {
    return unit % groups_ * (stream_units_ / groups_) + unit / groups_;
  }
  // Where a position starts on the line of all k-tiles. Parts differ by at most one k-tile.
  BASE_HD constexpr std::int64_t begin(std::int64_t position) const {
    const std::int64_t part = position / units_per_part_, within = position % units_per_part_;
    const std::int64_t extra = within < remainder_ ? within : remainder_;
    return part * part_length_ + within * quotient_ + extra;
  }
  constexpr void split(std::int64_t parts, std::int64_t part_length, std::int64_t units_per_part) {
    part_length_ = part_length;
    units_per_part_ = units_per_part;
    quotient_ = part_length / units_per_part;
    remainder_ = part_length % units_per_part;
    stream_units_ = parts * units_per_part;
  }

  std::int64_t k_tiles_ = 0, processors_ = 1;
  std::int64_t stream_tiles_ = 0, stream_units_ = 0, whole_tiles_ = 0, groups_ = 1;
  // The line is cut into equal parts of whole tiles (split-k: one a tile; stream-k: one a group),
  // and each part into units.
  std::int64_t part_length_ = 0, units_per_part_ = 1, quotient_ = 0, remainder_ = 0;
};

namespace detail {

// Stream-k pays where the last wave of whole tiles would leave processors idle, and k is long
// enough to cut.
constexpr Decomposition choose(const StreamKProblem& problem) {
  if (problem.k_tiles < 2 * kMinKTilesPerUnit) return Decomposition::data_parallel;
  const std::int64_t in_last_wave = problem.tiles % problem.processors;
  const std::int64_t waves = (problem.tiles + problem.processors - 1) / problem.processors;
  const bool is_full = in_last_wave == 0 || 10 * problem.tiles >= 9 * waves * problem.processors;
  return is_full ? Decomposition::data_parallel : Decomposition::stream_k;
}

}  // namespace detail

constexpr StreamKPlan plan_stream_k(const StreamKProblem& problem, const StreamKOptions& options) {
  ENSURE(
      problem.tiles >= 0 && problem.k_tiles >= 0 && problem.processors >= 1 && options.splits >= 1,
      "stream-k: ", problem.tiles, " tiles, ", problem.k_tiles, " k-tiles, ", problem.processors,
      " processors, ", options.splits, " splits");
  StreamKPlan plan;
  plan.k_tiles_ = problem.k_tiles;
  plan.processors_ = problem.processors;
  Decomposition how = options.decomposition;
  if (how == Decomposition::heuristic) how = detail::choose(problem);
  // Without k-tiles there is nothing to cut, yet every tile needs its epilogue.
  if (problem.tiles == 0 || problem.k_tiles == 0) how = Decomposition::data_parallel;

  if (how == Decomposition::split_k) {
    const std::int64_t splits = std::min({options.splits, problem.processors, problem.k_tiles});
    plan.stream_tiles_ = problem.tiles;
    plan.split(problem.tiles, problem.k_tiles, splits);
  } else if (how == Decomposition::stream_k) {
    // The last full wave joins the tiles that do not fill one: units then have more than one tile's
    // work each. Whole waves before it need no fix-up.
    const std::int64_t waves = problem.tiles / problem.processors;
    const std::int64_t whole =
        problem.tiles % problem.processors == 0 ? 0 : std::max<std::int64_t>(waves - 1, 0);
    plan.stream_tiles_ = problem.tiles - whole * problem.processors;
    const std::int64_t line = plan.stream_tiles_ * problem.k_tiles;
    const std::int64_t units =
        std::max<std::int64_t>(1, std::min(problem.processors, line / kMinKTilesPerUnit));
    for (std::int64_t g = kMaxStreamKGroups; g > 1 && plan.groups_ == 1; --g)
      if (plan.stream_tiles_ % g == 0 && units % g == 0) plan.groups_ = g;
    plan.split(plan.groups_, line / plan.groups_, units / plan.groups_);
  }
  plan.whole_tiles_ = problem.tiles - plan.stream_tiles_;
  return plan;
}

}  // namespace kernel
