// In which order the tiles of a GEMM are taken. All schedulers of this folder are trivially
// copyable objects that host threads and device blocks use alike.
//   const TileOrder order({.m = 40, .n = 12, .batches = 1}, Raster::heuristic, 4);
//   order.tile(index)   // {m, n, batch}, each tile once for index = 0 .. order.count()-1
// Tiles run along one axis through a band that is `group` tiles wide on the other: a band's
// operands stay in L2. The last band may be narrower; no index is wasted on tiles that do not
// exist.
#pragma once
#include "gemm_core/base/fast_divmod.hpp"

namespace kernel {

struct TileGrid {
  std::int64_t m = 0, n = 0, batches = 1;  // in tiles

  BASE_HD constexpr std::int64_t count() const { return m * n * batches; }
};

struct TileCoord {
  std::uint32_t m = 0, n = 0, batch = 0;
  friend constexpr bool operator==(const TileCoord&, const TileCoord&) = default;
};

// `heuristic` runs along the shorter axis, so that the band crosses it before moving on.
enum class Raster : std::uint8_t { along_m, along_n, heuristic };

class TileOrder {
 public:
  constexpr TileOrder() = default;
  constexpr TileOrder(const TileGrid& grid, Raster raster, std::uint32_t group) {
    ENSURE(grid.m >= 0 && grid.n >= 0 && grid.batches >= 0, "tile order: negative extent");
    ENSURE(group == 1 || group == 2 || group == 4 || group == 8, "tile order: group ", group,
           ", expected 1, 2, 4 or 8");
    constexpr std::int64_t kLimit = 0xffffffff;
    ENSURE(grid.m <= kLimit && grid.n <= kLimit && grid.batches <= kLimit &&
               (grid.m == 0 || grid.n == 0 || grid.batches <= kLimit / grid.m / grid.n),
           "tile order: ", grid.m, " x ", grid.n, " x ", grid.batches, " tiles, the limit is ",
           kLimit);
    along_m_ = raster == Raster::along_m || (raster == Raster::heuristic && grid.m <= grid.n);
    count_ = static_cast<std::uint32_t>(grid.count());
    if (count_ == 0) return;
    const auto along = static_cast<std::uint32_t>(along_m_ ? grid.m : grid.n);
    const auto across = static_cast<std::uint32_t>(along_m_ ? grid.n : grid.m);
    const std::uint32_t width = group < across ? group : across;
    full_bands_ = across / width;
    by_batch_ = base::FastDivMod(along * across);
    by_band_ = base::FastDivMod(along * width);
    by_width_ = base::FastDivMod(width);
    by_last_width_ = base::FastDivMod(across % width == 0 ? width : across % width);
  }

  BASE_HD constexpr std::uint32_t count() const { return count_; }
  BASE_HD constexpr bool runs_along_m() const { return along_m_; }

  BASE_HD constexpr TileCoord tile(std::uint32_t index) const {
    const auto [batch, in_batch] = by_batch_(index);
    const auto [band, in_band] = by_band_(in_batch);
    const auto [along, across] = band < full_bands_ ? by_width_(in_band) : by_last_width_(in_band);
    const std::uint32_t other = band * by_width_.divisor() + across;
    return along_m_ ? TileCoord{along, other, batch} : TileCoord{other, along, batch};
  }

 private:
  base::FastDivMod by_batch_, by_band_, by_width_, by_last_width_;
  std::uint32_t count_ = 0, full_bands_ = 0;
  bool along_m_ = true;
};

}  // namespace kernel
