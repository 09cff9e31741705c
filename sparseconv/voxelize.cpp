#include "sparseconv/voxelize.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <mutex>
#include <utility>

#include "gemm_core/base/parallel.hpp"
#include "sparseconv/hash_map.hpp"
#include "sparseconv/point_features.hpp"
#include "sparseconv/tap_keys.hpp"

namespace sparseconv {
namespace {

constexpr std::int64_t kBlock = 2048;  // points whose columns are converted at a time
constexpr const char* kAxisNames[3] = {"x", "y", "z"};
constexpr double kAxisCells = 1 << kAxisBits;

using Triple = std::array<double, 3>;

std::string number(double value) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}
std::string triple(const Triple& v) {
  return number(v[0]) + ", " + number(v[1]) + ", " + number(v[2]);
}

// floor() is a library call on baseline x86-64; truncation is one instruction.
double floor_of(double value) {
  if (!(std::abs(value) < 2147483648.0)) return std::floor(value);
  const auto whole = static_cast<std::int32_t>(value);
  return static_cast<double>(whole) - (static_cast<double>(whole) > value ? 1.0 : 0.0);
}

// Where a cell lies, for one cloud.
struct Grid {
  Triple origin{}, size{}, shift{};  // cell = floor((p - origin) / size) - shift; shift is whole
  std::optional<std::array<double, 6>> range;
  Triple low, high;  // allowed cells, high exclusive: spatial shape, and what the range holds
  Triple shifted_origin() const {
    return {origin[0] + shift[0] * size[0], origin[1] + shift[1] * size[1],
            origin[2] + shift[2] * size[2]};
  }
};

struct CellStatistics {
  std::int64_t non_finite = 0, outside = 0;
  Triple min{HUGE_VAL, HUGE_VAL, HUGE_VAL}, max{-HUGE_VAL, -HUGE_VAL, -HUGE_VAL};
  void merge(const CellStatistics& other) {
    non_finite += other.non_finite;
    outside += other.outside;
    for (std::size_t a = 0; a < 3; ++a) {
      min[a] = std::min(min[a], other.min[a]);
      max[a] = std::max(max[a], other.max[a]);
    }
  }
  bool is_empty() const { return min[0] > max[0]; }
  bool fit(const Triple& shift) const {
    for (std::size_t a = 0; a < 3; ++a) {
      if (min[a] - shift[a] < kAxisMin || max[a] - shift[a] > kAxisMax) return false;
    }
    return true;
  }
};

Grid make_grid(const VoxelizeOptions& options) {
  Grid grid{.origin = options.origin, .size = options.voxel_size, .range = options.range};
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

// Keys of points [begin, begin + count), kNoKey for dropped ones and those that do not fit.
CellStatistics assign_block(const std::array<const io::Column*, 3>& columns, const Grid& grid,
                            Key batch, std::int64_t begin, std::int64_t count, Key* keys) {
  std::array<std::array<double, kBlock>, 3> position;
  for (std::size_t a = 0; a < 3; ++a)
    detail::read_column(*columns[a], begin, count, position[a].data());
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
      keys[i] |= detail::axis_key(static_cast<std::int64_t>(cell[i_axis] - grid.shift[i_axis]), a);
    }
  }
  return statistics;
}

CellStatistics assign_keys(const io::Cloud& cloud, const Grid& grid, std::int32_t batch,
                           std::span<Key> keys) {
  const auto columns = detail::position_columns(cloud);
  const Key batch_key = static_cast<Key>(batch) << (3 * kAxisBits);
  CellStatistics all;
  std::mutex mutex;
  base::parallel_blocks(cloud.size(), kBlock, [&](std::int64_t begin, std::int64_t end) {
    const auto statistics =
        assign_block(columns, grid, batch_key, begin, end - begin, keys.data() + begin);
    const std::lock_guard lock(mutex);
    all.merge(statistics);
  });
  return all;
}

// Moves the grid so that the cells fit the key; Error when no shift does.
void shift_to_fit(Grid& grid, const CellStatistics& statistics) {
  for (std::size_t a = 0; a < 3; ++a) {
    const double extent = statistics.max[a] - statistics.min[a] + 1;
    ENSURE(extent <= kAxisCells, "voxelize: the extent on axis ", kAxisNames[a], " is ",
           number(extent), " cells of ", number(grid.size[a]), ", the key range holds ",
           number(kAxisCells));
    grid.shift[a] = statistics.min[a] - (extent > kAxisMax + 1.0 ? kAxisMin : 0);
  }
}

// One run of voxelize().
class Voxelizer {
 public:
  Voxelizer(std::span<const io::Cloud* const> clouds, const VoxelizeOptions& options)
      : clouds_(clouds), options_(options) {
    ENSURE(static_cast<std::int64_t>(clouds.size()) <= kBatchMax, "voxelize: a batch of ",
           clouds.size(), " clouds, at most ", kBatchMax);
    ENSURE(options.max_points >= 0 && options.max_voxels >= 0, "voxelize: max_points ",
           options.max_points, " and max_voxels ", options.max_voxels, " must not be negative");
    for (const io::Cloud* cloud : clouds) voxels_.points += cloud->size();
    ENSURE(voxels_.points <= std::numeric_limits<std::int32_t>::max(), "voxelize: ", voxels_.points,
           " points, at most ", std::numeric_limits<std::int32_t>::max());
  }

  Voxels run() {
    choose_features();
    collect_keys();
    assign_rows();
    reduce();
    voxels_.voxel_size = options_.voxel_size;
    voxels_.dropped = voxels_.non_finite + voxels_.out_of_range + voxels_.over_max_points +
                      voxels_.over_max_voxels;
    return std::move(voxels_);
  }

 private:
  void warn(std::size_t cloud, const std::string& text) {
    voxels_.warnings.push_back(clouds_.size() > 1 ? base::concat("cloud ", cloud, ": ", text)
                                                  : text);
  }

  void choose_features() {
    voxels_.feature_names = options_.features;
    for (const io::Cloud* cloud : clouds_) {
      if (voxels_.feature_names.empty() && !cloud->columns().empty()) {
        voxels_.feature_names = detail::default_features(*cloud);
      }
    }
    if (voxels_.feature_names.empty()) voxels_.feature_names = {"x", "y", "z"};
  }

  // Keys of all points, grids of all clouds, and the set of voxels that are kept.
  void collect_keys() {
    keys_.resize(static_cast<std::size_t>(voxels_.points));
    BlockSet set(voxels_.points / 8);
    std::size_t begin = 0;
    for (std::size_t c = 0; c < clouds_.size(); ++c) {
      const std::span keys(keys_.data() + begin, static_cast<std::size_t>(clouds_[c]->size()));
      begin += keys.size();
      grids_.push_back(locate(c, keys));
      insert_cells(keys, set);
    }
    voxels_.tensor.coordinates = Coordinates::from_sorted_keys(
        set.sorted_keys(), {.batch_size = static_cast<std::int32_t>(clouds_.size()),
                            .spatial_shape = options_.spatial_shape});
    for (const Grid& grid : grids_) voxels_.origins.push_back(grid.shifted_origin());
    voxels_.origin = voxels_.origins.empty() ? options_.origin : voxels_.origins.front();
  }

  Grid locate(std::size_t c, std::span<Key> keys) {
    const io::Cloud& cloud = *clouds_[c];
    Grid grid = make_grid(options_);
    const auto batch = static_cast<std::int32_t>(c);
    const CellStatistics statistics = assign_keys(cloud, grid, batch, keys);
    if (!statistics.is_empty() && !statistics.fit(grid.shift)) {
      shift_to_fit(grid, statistics);
      assign_keys(cloud, grid, batch, keys);
      warn(c, "cells do not fit the key range with origin " + triple(grid.origin) +
                  ": origin moved by " + triple(grid.shift) + " whole cells to " +
                  triple(grid.shifted_origin()));
    }
    voxels_.non_finite += statistics.non_finite;
    voxels_.out_of_range += statistics.outside;
    report(c, cloud, statistics);
    return grid;
  }

  void report(std::size_t c, const io::Cloud& cloud, const CellStatistics& statistics) {
    const auto is_said = [&](const char* text) {
      return std::find(cloud.warnings.begin(), cloud.warnings.end(), text) != cloud.warnings.end();
    };
    if (cloud.size() == 0 && !is_said("0 points")) warn(c, "0 points");
    if (statistics.non_finite > 0) {
      warn(c, base::concat(statistics.non_finite, " of ", cloud.size(),
                           " points have a non-finite coordinate and were dropped"));
    }
    if (cloud.size() > 0 && statistics.is_empty()) {
      warn(c, base::concat("0 voxels: ", statistics.outside, " of ", cloud.size(),
                           " points are out of range"));
    }
  }

  // Voxels count by their first point, so inserting in file order meets max_voxels.
  void insert_cells(std::span<Key> keys, BlockSet& set) {
    const std::int64_t limit = options_.max_voxels > 0 ? set.size() + options_.max_voxels
                                                       : std::numeric_limits<std::int64_t>::max();
    for (Key& key : keys) {
      if (key == kNoKey) continue;
      if (set.size() < limit) {
        set.insert(key);
      } else if (!set.contains(key)) {
        key = kNoKey;
        ++voxels_.over_max_voxels;
      }
    }
  }

  void assign_rows() {
    const HashMap& rows = voxels_.tensor.coordinates->hash_map();
    voxels_.point_to_voxel.resize(keys_.size());
    base::parallel_blocks(voxels_.points, kBlock, [&](std::int64_t begin, std::int64_t end) {
      HashMap::Cursor cursor(rows);
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        voxels_.point_to_voxel[i] = cursor.find(keys_[i]);
      }
    });
    counts_.assign(static_cast<std::size_t>(voxels_.tensor.rows()), 0);
    const std::int64_t limit =
        options_.max_points > 0 ? options_.max_points : std::numeric_limits<std::int64_t>::max();
    for (std::int64_t& row : voxels_.point_to_voxel) {
      if (row < 0) continue;
      std::int32_t& count = counts_[static_cast<std::size_t>(row)];
      if (count < limit) {
        ++count;
      } else {
        row = -1;
        ++voxels_.over_max_points;
      }
    }
  }

  void reduce() {
    const auto channels = voxels_.feature_names.size();
    const double start = options_.reduce == Reduce::max ? -HUGE_VAL : 0.0;
    sums_.assign(counts_.size() * channels, start);
    if (options_.reduce == Reduce::first) is_set_.assign(counts_.size(), 0);
    std::int64_t begin = 0;
    for (std::size_t c = 0; c < clouds_.size(); ++c) {
      add_cloud(c, begin);
      begin += clouds_[c]->size();
    }
    write_features(channels);
  }

  // Points are added in file order whatever the number of threads; sums are in double.
  void add_cloud(std::size_t c, std::int64_t begin) {
    const io::Cloud& cloud = *clouds_[c];
    const auto sources = detail::find_features(cloud, voxels_.feature_names, options_.defaults);
    std::vector<std::vector<double>> values(sources.size(), std::vector<double>(kBlock));
    std::vector<std::int64_t> bad(sources.size());
    for (std::int64_t first = 0; first < cloud.size(); first += kBlock) {
      const std::int64_t count = std::min(kBlock, cloud.size() - first);
      for (std::size_t f = 0; f < sources.size(); ++f) {
        bad[f] +=
            read_feature(sources[f], grids_[c], first, begin + first, count, values[f].data());
      }
      add_block(begin + first, count, values);
    }
    for (std::size_t f = 0; f < sources.size(); ++f) {
      if (bad[f] > 0) {
        warn(c, base::concat(bad[f], " values of ", voxels_.feature_names[f],
                             " are not finite in float and count as 0"));
      }
    }
  }

  // `point` counts from the first point of the cloud, `global` from that of the batch. Returns the
  // values set to 0.
  std::int64_t read_feature(const detail::FeatureSource& source, const Grid& grid,
                            std::int64_t point, std::int64_t global, std::int64_t count,
                            double* values) const {
    using Kind = detail::FeatureSource::Kind;
    if (source.kind == Kind::constant) {
      std::fill(values, values + count, source.value);
      return 0;
    }
    detail::read_column(*source.column, point, count, values);
    const auto axis = static_cast<std::size_t>(source.axis);
    const double size = grid.size[axis], origin = grid.shifted_origin()[axis];
    const double moved = grid.shift[axis] * size;
    std::int64_t bad = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      if (source.kind == Kind::position) values[i] -= moved;
      if (source.kind == Kind::field) values[i] *= source.scale;
      if (source.kind == Kind::offset) {
        const Key key = keys_[static_cast<std::size_t>(global + i)];
        const double cell = unpack(key)[source.axis];
        values[i] -= origin + (cell + 0.5) * size;
      }
      if (std::abs(values[i]) <= std::numeric_limits<float>::max()) continue;
      bad += voxels_.point_to_voxel[static_cast<std::size_t>(global + i)] >= 0;
      values[i] = 0;
    }
    return bad;
  }

  void add_block(std::int64_t global, std::int64_t count,
                 const std::vector<std::vector<double>>& values) {
    const std::size_t channels = values.size();
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = voxels_.point_to_voxel[static_cast<std::size_t>(global + i)];
      if (row < 0) continue;
      double* sums = sums_.data() + static_cast<std::size_t>(row) * channels;
      const auto p = static_cast<std::size_t>(i);
      switch (options_.reduce) {
        case Reduce::mean:
        case Reduce::sum:
          for (std::size_t f = 0; f < channels; ++f) sums[f] += values[f][p];
          break;
        case Reduce::max:
          for (std::size_t f = 0; f < channels; ++f) sums[f] = std::max(sums[f], values[f][p]);
          break;
        case Reduce::first:
          if (std::exchange(is_set_[static_cast<std::size_t>(row)], std::uint8_t{1}) != 0) break;
          for (std::size_t f = 0; f < channels; ++f) sums[f] = values[f][p];
          break;
      }
    }
  }

  void write_features(std::size_t channels) {
    const auto rows = static_cast<std::int64_t>(counts_.size());
    voxels_.tensor.features =
        base::Tensor::empty({rows, static_cast<std::int64_t>(channels)}, base::DType::f32);
    if (rows == 0) return;
    float* out = voxels_.tensor.features.data<float>();
    for (std::size_t row = 0; row < counts_.size(); ++row) {
      const double divisor = options_.reduce == Reduce::mean ? counts_[row] : 1.0;
      for (std::size_t f = 0; f < channels; ++f) {
        const auto value = static_cast<float>(sums_[row * channels + f] / divisor);
        ENSURE(std::isfinite(value), "voxelize: the sum of ", voxels_.feature_names[f],
               " in voxel ", row, " exceeds the range of float");
        out[row * channels + f] = value;
      }
    }
  }

  std::span<const io::Cloud* const> clouds_;
  const VoxelizeOptions& options_;
  Voxels voxels_;
  std::vector<Grid> grids_;
  std::vector<Key> keys_;
  std::vector<std::int32_t> counts_;
  std::vector<std::uint8_t> is_set_;
  std::vector<double> sums_;
};

}  // namespace

Reduce parse_reduce(std::string_view text) {
  if (text == "mean") return Reduce::mean;
  if (text == "sum") return Reduce::sum;
  if (text == "max") return Reduce::max;
  if (text == "first") return Reduce::first;
  base::fail("reduce: '", text, "' is none of mean, sum, max, first");
}

Voxels voxelize(const io::Cloud& cloud, const VoxelizeOptions& options) {
  const io::Cloud* const clouds[] = {&cloud};
  return voxelize(clouds, options);
}

Voxels voxelize(std::span<const io::Cloud* const> clouds, const VoxelizeOptions& options) {
  return Voxelizer(clouds, options).run();
}

}  // namespace sparseconv
