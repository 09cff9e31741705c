#include "sparseconv/voxel_grid.hpp"

#include <algorithm>
#include <charconv>
#include <mutex>

#include "gemm_core/base/parallel.hpp"
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
// floor() is a library call on baseline x86-64; truncation is one instruction.
double floor_of(double value) {
  if (!(std::abs(value) < 2147483648.0)) return std::floor(value);
  const auto whole = static_cast<std::int32_t>(value);
  return static_cast<double>(whole) - (static_cast<double>(whole) > value ? 1.0 : 0.0);
}

// Keys of points [begin, begin + count), kNoKey for dropped ones and those that do not fit.
CellStatistics assign_block(const std::array<const io::Column*, 3>& columns, const VoxelGrid& grid,
                            Key batch, std::int64_t begin, std::int64_t count, Key* keys) {
  std::array<std::array<double, kPointBlock>, 3> position;
  for (std::size_t a = 0; a < 3; ++a) read_column(*columns[a], begin, count, position[a].data());
  CellStatistics statistics;
  for (std::int64_t i = 0; i < count; ++i) {
    const Triple p{position[0][static_cast<std::size_t>(i)],
                   position[1][static_cast<std::size_t>(i)],
                   position[2][static_cast<std::size_t>(i)]};
    keys[i] = kNoKey;
    if (!(std::isfinite(p[0]) && std::isfinite(p[1]) && std::isfinite(p[2]))) {
      ++statistics.non_finite;
      continue;
    }
    Triple cell;
    bool is_inside = true, is_packable = true;
    for (std::size_t a = 0; a < 3; ++a) {
      if (grid.range)
        is_inside = is_inside && p[a] >= (*grid.range)[a] && p[a] < (*grid.range)[a + 3];
      cell[a] = floor_of((p[a] - grid.origin[a]) / grid.size[a]);
      is_inside = is_inside && cell[a] >= grid.low[a] && cell[a] < grid.high[a];
      const double local = cell[a] - grid.shift[a];
      is_packable = is_packable && local >= kAxisMin && local <= kAxisMax;
    }
    if (!is_inside) {
      ++statistics.outside;
      continue;
    }
    for (std::size_t a = 0; a < 3; ++a) {
      statistics.min[a] = std::min(statistics.min[a], cell[a]);
      statistics.max[a] = std::max(statistics.max[a], cell[a]);
    }
    if (!is_packable) continue;
    keys[i] = batch;
    for (int a = 0; a < 3; ++a) {
      const auto i_axis = static_cast<std::size_t>(a);
      keys[i] |= axis_key(static_cast<std::int64_t>(cell[i_axis] - grid.shift[i_axis]), a);
    }
  }
  return statistics;
}

}  // namespace

void CellStatistics::merge(const CellStatistics& other) {
  non_finite += other.non_finite;
  outside += other.outside;
  for (std::size_t a = 0; a < 3; ++a) {
    min[a] = std::min(min[a], other.min[a]);
    max[a] = std::max(max[a], other.max[a]);
  }
}

bool CellStatistics::fit(const Triple& shift) const {
  for (std::size_t a = 0; a < 3; ++a) {
    if (min[a] - shift[a] < kAxisMin || max[a] - shift[a] > kAxisMax) return false;
  }
  return true;
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
  const auto columns = position_columns(cloud);
  const Key batch_key = static_cast<Key>(batch) << (3 * kAxisBits);
  CellStatistics all;
  std::mutex mutex;
  base::parallel_blocks(cloud.size(), kPointBlock, [&](std::int64_t begin, std::int64_t end) {
    const auto statistics =
        assign_block(columns, grid, batch_key, begin, end - begin, keys.data() + begin);
    const std::lock_guard lock(mutex);
    all.merge(statistics);
  });
  return all;
}

void shift_to_fit(VoxelGrid& grid, const CellStatistics& statistics) {
  for (std::size_t a = 0; a < 3; ++a) {
    const double extent = statistics.max[a] - statistics.min[a] + 1;
    ENSURE(extent <= kAxisCells, "voxelize: the extent on axis ", kAxisNames[a], " is ",
           number(extent), " cells of ", number(grid.size[a]), ", the key range holds ",
           number(kAxisCells));
    grid.shift[a] = statistics.min[a] - (extent > kAxisMax + 1.0 ? kAxisMin : 0);
  }
}

}  // namespace sparseconv::detail
