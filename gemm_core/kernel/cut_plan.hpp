// How the loops over k of tiles are cut, in 32-bit arithmetic without divisions on the device:
// whole tiles, equal pieces of each (split-k), or one line of all of k cut into even units
// (stream-K, see stream_k.hpp).
//   const CutPlan plan = CutPlan::stream_k(133, 64, 132);
//   for (u = worker; u < plan.units(); u += workers) plan.for_each_piece(u, [](CutPiece) { ... });
// A unit's pieces come last first, so that what it leaves unfinished, if anything, comes first. The
// unit that reaches the end of k adds the pieces of units first_unit(piece) .. unit - 1.
#pragma once
#include <algorithm>

#include "gemm_core/base/fast_divmod.hpp"

namespace kernel {

struct CutPiece {
  std::uint32_t tile = 0, k_begin = 0, k_end = 0;
  bool starts_tile = true, finishes_tile = true;
};

class CutPlan {
 public:
  CutPlan() = default;
  static CutPlan whole_tiles(std::uint32_t tiles, std::uint32_t k_tiles) {
    return CutPlan(tiles, k_tiles, tiles);
  }
  // Pieces a tile: clamped to its k-tiles.
  static CutPlan split_k(std::uint32_t tiles, std::uint32_t k_tiles, std::uint32_t splits) {
    CutPlan plan(tiles, k_tiles, tiles);
    plan.splits_ = std::max(1u, std::min(splits, k_tiles));
    plan.by_splits_ = base::FastDivMod(plan.splits_);
    plan.units_ = tiles * plan.splits_;
    plan.share(k_tiles, plan.splits_);
    return plan;
  }
  // At least `least` k-tiles a unit.
  static CutPlan stream_k(std::uint32_t tiles, std::uint32_t k_tiles, std::uint32_t units,
                          std::uint32_t least = 1) {
    const std::uint32_t most = std::max(1u, tiles * k_tiles / std::max(1u, least));
    return CutPlan(tiles, k_tiles, std::min(units, most));
  }

  BASE_HD std::uint32_t units() const { return units_; }
  BASE_HD bool is_cut() const { return units_ != tiles_; }

  template <class F>
  BASE_HD void for_each_piece(std::uint32_t unit, const F& f) const {
    std::uint32_t to = begin(unit + 1);
    const std::uint32_t from = begin(unit);
    while (to > from) {
      const std::uint32_t tile = by_k_.divide(to - 1), start = tile * by_k_.divisor();
      const std::uint32_t low = from > start ? from : start;
      f(CutPiece{tile, low - start, to - start, low == start, to == start + by_k_.divisor()});
      to = low;
    }
  }
  // The unit that holds the first piece of the tile of a piece of `unit` that does not start it.
  BASE_HD std::uint32_t first_unit(std::uint32_t unit, std::uint32_t tile) const {
    const std::uint32_t start = tile * by_k_.divisor();
    do {
      --unit;
    } while (begin(unit) > start);
    return unit;
  }

 private:
  CutPlan(std::uint32_t tiles, std::uint32_t k_tiles, std::uint32_t units)
      : by_k_(k_tiles), by_splits_(1), tiles_(tiles), units_(units) {
    share(tiles * k_tiles, units);
  }
  void share(std::uint32_t length, std::uint32_t parts) {
    quotient_ = parts == 0 ? 0 : length / parts;
    remainder_ = parts == 0 ? 0 : length % parts;
  }
  BASE_HD std::uint32_t begin(std::uint32_t unit) const {
    std::uint32_t tile = 0, within = unit;
    if (splits_ > 0) {
      const auto [quotient, rest] = by_splits_(unit);
      tile = quotient;
      within = rest;
    }
    return tile * by_k_.divisor() + within * quotient_ +
           (within < remainder_ ? within : remainder_);
  }

  base::FastDivMod by_k_, by_splits_;
  std::uint32_t tiles_ = 0, units_ = 0, splits_ = 0, quotient_ = 0, remainder_ = 0;
};

}  // namespace kernel
