#include "sparseconv/voxel_grid.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <mutex>

#include "gemm_core/base/parallel.hpp"
#include "sparseconv/cpu/point_keys.hpp"
#include "sparseconv/point_features.hpp"
#include "sparseconv/tap_keys.hpp"

namespace sparseconv::detail {
namespace {

constexpr const char* kAxisNames[3] = {"x", "y", "z"};
constexpr double kAxisCells = 1 << kAxisBits;

std::string number(double value) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

using Columns = std::array<const io::Column*, 3>;

enum State : std::uint8_t { kNonFinite = 1, kOutside = 2, kMisfit = 4 };

// State of points and, in `cells`, where they lie before the shift and before the floor. Bounds are
// whole numbers, so they may be compared with either.
void locate_axis(const VoxelGrid& grid, std::size_t a, std::int64_t count, double* cells,
                 std::uint8_t* states) {
  const double origin = grid.origin[a], size = grid.size[a], low = grid.low[a], high = grid.high[a];
  const double from = grid.range ? (*grid.range)[a] : -HUGE_VAL,
               to = grid.range ? (*grid.range)[a + 3] : HUGE_VAL;
  for (std::int64_t i = 0; i < count; ++i) {
    const double p = cells[i], q = (p - origin) / size;
    const bool is_finite = std::abs(p) <= std::numeric_limits<double>::max();
    const bool is_inside = (p >= from) & (p < to) & (q >= low) & (q < high);
    states[i] |=
        static_cast<std::uint8_t>((is_finite ? 0 : kNonFinite) | (is_inside ? 0 : kOutside));
    cells[i] = q;
  }
}

// floor() is a library call on baseline x86-64; truncation is one instruction.
std::int32_t floor_of(double value) {
  const auto whole = static_cast<std::int32_t>(value);
  return whole - (static_cast<double>(whole) > value ? 1 : 0);
}

AxisBounds axis_bounds(const VoxelGrid& grid, std::size_t a) {
  return {grid.origin[a],
          grid.size[a],
          grid.range ? (*grid.range)[a] : -HUGE_VAL,
          grid.range ? (*grid.range)[a + 3] : HUGE_VAL,
          std::max(grid.low[a], static_cast<double>(kAxisMin)),
          std::min(grid.high[a], kAxisMax + 1.0)};
}

// No cell that the grid allows lies outside the range of a key.
bool always_fits(const VoxelGrid& grid) {
  bool fits = true;
  for (std::size_t a = 0; a < 3; ++a) {
    fits = fits && grid.low[a] >= kAxisMin && grid.high[a] <= kAxisMax + 1.0;
  }
  return fits;
}

// Three columns of one floating point type and no shift, in one pass. Nothing, and keys undefined,
// for other columns and where a cell may not fit.
std::optional<CellStatistics> pack_block(const Columns& columns, const VoxelGrid& grid,
                                         std::int64_t begin, std::int64_t end, Key batch,
                                         Key* keys) {
  const base::DType type = columns[0]->values.dtype();
  const bool is_usual = (type == base::DType::f32 || type == base::DType::f64) &&
                        columns[1]->values.dtype() == type && columns[2]->values.dtype() == type &&
                        grid.shift == Triple{};
  if (!is_usual) return std::nullopt;
  const PointKeys to{.bounds = {axis_bounds(grid, 0), axis_bounds(grid, 1), axis_bounds(grid, 2)},
                     .batch = batch,
                     .count = end - begin,
                     .keys = keys};
  std::optional<CellStatistics> statistics(CellStatistics{.kept = to.count});
  base::visit_dtype<float, double>(type, "voxelize", [&]<class T>() {
    std::array<const T*, 3> from;
    for (std::size_t a = 0; a < 3; ++a) from[a] = columns[a]->values.data<T>() + begin;
    if (pack_points(to, from)) return;
    if (!always_fits(grid)) return statistics.reset();
    for (std::int64_t i = 0; i < to.count; ++i) {
      if (keys[i] != kNoKey) continue;
      const bool is_finite =
          std::isfinite(from[0][i]) && std::isfinite(from[1][i]) && std::isfinite(from[2][i]);
      ++(is_finite ? statistics->outside : statistics->non_finite);
      --statistics->kept;
    }
  });
  return statistics;
}

class Block {
 public:
  Block(const Columns& columns, const VoxelGrid& grid, std::int64_t begin, std::int64_t end)
      : count_(end - begin) {
    states_.fill(0);
    for (std::size_t a = 0; a < 3; ++a) {
      read_column(*columns[a], begin, count_, cells_[a].data());
      locate_axis(grid, a, count_, cells_[a].data(), states_.data());
    }
  }
  CellStatistics write_keys(const VoxelGrid& grid, Key batch, Key* keys) {
    for (std::size_t a = 0; a < 3 && grid.shift != Triple{}; ++a) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(count_); ++i) {
        cells_[a][i] = std::floor(cells_[a][i]) - grid.shift[a];
      }
    }
    pack_cells(batch, keys);
    CellStatistics statistics;
    for (std::int64_t i = 0; i < count_; ++i) {
      const std::uint8_t state = states_[static_cast<std::size_t>(i)];
      if (state == 0) continue;
      keys[i] = kNoKey;
      if ((state & kNonFinite) != 0) {
        ++statistics.non_finite;
      } else if ((state & kOutside) != 0) {
        ++statistics.outside;
      } else {
        statistics.fit = false;
      }
    }
    statistics.kept = count_ - statistics.non_finite - statistics.outside;
    return statistics;
  }
  void pack_cells(Key batch, Key* keys) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(count_); ++i) {
      const double x = cells_[0][i], y = cells_[1][i], z = cells_[2][i];
      const bool fits = (x >= kAxisMin) & (x < kAxisMax + 1.0) & (y >= kAxisMin) &
                        (y < kAxisMax + 1.0) & (z >= kAxisMin) & (z < kAxisMax + 1.0);
      states_[i] |= fits ? 0 : kMisfit;
      keys[i] = batch | axis_key(floor_of(fits ? x : 0.0), 0) |
                axis_key(floor_of(fits ? y : 0.0), 1) | axis_key(floor_of(fits ? z : 0.0), 2);
    }
  }
  void extend(Triple& min, Triple& max) const {
    for (std::size_t i = 0; i < static_cast<std::size_t>(count_); ++i) {
      if ((states_[i] & (kNonFinite | kOutside)) != 0) continue;
      for (std::size_t a = 0; a < 3; ++a) {
        min[a] = std::min(min[a], std::floor(cells_[a][i]));
        max[a] = std::max(max[a], std::floor(cells_[a][i]));
      }
    }
  }

 private:
  std::int64_t count_;
  std::array<std::array<double, kPointBlock>, 3> cells_;
  std::array<std::uint8_t, kPointBlock> states_;
};

}  // namespace

std::vector<std::string> cell_warnings(const io::Cloud& cloud, const CellStatistics& statistics) {
  std::vector<std::string> warnings;
  const bool is_said =
      std::find(cloud.warnings.begin(), cloud.warnings.end(), "0 points") != cloud.warnings.end();
  if (cloud.size() == 0 && !is_said) warnings.push_back("0 points");
  if (statistics.non_finite > 0) {
    warnings.push_back(base::concat(statistics.non_finite, " of ", cloud.size(),
                                    " points have a non-finite coordinate and were dropped"));
  }
  if (cloud.size() > 0 && statistics.kept == 0) {
    warnings.push_back(base::concat("0 voxels: ", statistics.outside, " of ", cloud.size(),
                                    " points are out of range"));
  }
  return warnings;
}

std::string replaced_warning(std::int64_t values, const std::string& feature) {
  return base::concat(values, " values of ", feature, " are not finite in float and count as 0");
}

std::string to_string(const Triple& v) {
  return number(v[0]) + ", " + number(v[1]) + ", " + number(v[2]);
}

VoxelGrid make_grid(const VoxelizeOptions& options) {
  VoxelGrid grid{.origin = options.origin, .size = options.voxel_size, .range = options.range};
  for (std::size_t a = 0; a < 3; ++a) {
    const double size = grid.size[a];
    ENSURE(size > 0 && std::isfinite(size), "voxelize: voxel size ", number(size), " on axis ",
           kAxisNames[a], " is not positive and finite");
    ENSURE(std::isfinite(grid.origin[a]), "voxelize: origin on axis ", kAxisNames[a],
           " is not finite");
    grid.low[a] = -HUGE_VAL;
    grid.high[a] = HUGE_VAL;
    if (options.range) {
      const double from = (*options.range)[a], to = (*options.range)[a + 3];
      ENSURE(std::isfinite(from) && std::isfinite(to) && from < to, "voxelize: range on axis ",
             kAxisNames[a], ", ", number(from), " to ", number(to), ", is empty or not finite");
      grid.origin[a] = from;
      // A range is meant to hold whole cells; the last one must not appear by rounding alone.
      const double cells = (to - from) / size, whole = std::round(cells);
      grid.low[a] = 0;
      grid.high[a] = std::abs(cells - whole) < 1e-6 ? whole : std::ceil(cells);
    }
    if (options.spatial_shape) {
      ENSURE((*options.spatial_shape)[a] >= 0, "voxelize: spatial shape ",
             (*options.spatial_shape)[a], " on axis ", kAxisNames[a], " is negative");
      grid.low[a] = 0;
      grid.high[a] = std::min(grid.high[a], static_cast<double>((*options.spatial_shape)[a]));
    }
  }
  return grid;
}

CellStatistics assign_keys(const io::Cloud& cloud, const VoxelGrid& grid, std::int32_t batch,
                           std::span<Key> keys) {
  const Columns columns = position_columns(cloud);
  const Key batch_key = static_cast<Key>(batch) << (3 * kAxisBits);
  CellStatistics all;
  std::mutex mutex;
  base::parallel_blocks(cloud.size(), kPointBlock, [&](std::int64_t begin, std::int64_t end) {
    Key* const to = keys.data() + begin;
    CellStatistics part;
    if (const auto packed = pack_block(columns, grid, begin, end, batch_key, to)) {
      part = *packed;
    } else {
      part = Block(columns, grid, begin, end).write_keys(grid, batch_key, to);
    }
    const std::lock_guard lock(mutex);
    all.non_finite += part.non_finite;
    all.outside += part.outside;
    all.kept += part.kept;
    all.fit = all.fit && part.fit;
  });
  return all;
}

void shift_to_fit(const io::Cloud& cloud, VoxelGrid& grid) {
  const Columns columns = position_columns(cloud);
  Triple min{HUGE_VAL, HUGE_VAL, HUGE_VAL}, max{-HUGE_VAL, -HUGE_VAL, -HUGE_VAL};
  for (std::int64_t begin = 0; begin < cloud.size(); begin += kPointBlock) {
    Block(columns, grid, begin, std::min(cloud.size(), begin + kPointBlock)).extend(min, max);
  }
  for (std::size_t a = 0; a < 3; ++a) {
    const double extent = max[a] - min[a] + 1;
    ENSURE(extent <= kAxisCells, "voxelize: the extent on axis ", kAxisNames[a], " is ",
           number(extent), " cells of ", number(grid.size[a]), ", the key range holds ",
           number(kAxisCells));
    grid.shift[a] = min[a] - (extent > kAxisMax + 1.0 ? kAxisMin : 0);
  }
}

}  // namespace sparseconv::detail
