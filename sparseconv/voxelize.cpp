#include "sparseconv/voxelize.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "gemm_core/base/parallel.hpp"
#include "sparseconv/hash_map.hpp"
#include "sparseconv/point_features.hpp"
#include "sparseconv/voxel_grid.hpp"

namespace sparseconv {
namespace {

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
    for (const detail::VoxelGrid& grid : grids_) voxels_.origins.push_back(grid.shifted_origin());
    voxels_.origin = voxels_.origins.empty() ? options_.origin : voxels_.origins.front();
  }

  detail::VoxelGrid locate(std::size_t c, std::span<Key> keys) {
    const io::Cloud& cloud = *clouds_[c];
    detail::VoxelGrid grid = detail::make_grid(options_);
    const auto batch = static_cast<std::int32_t>(c);
    const detail::CellStatistics statistics = detail::assign_keys(cloud, grid, batch, keys);
    if (!statistics.is_empty() && !statistics.fit(grid.shift)) {
      detail::shift_to_fit(grid, statistics);
      detail::assign_keys(cloud, grid, batch, keys);
      warn(c, "cells do not fit the key range with origin " + detail::to_string(grid.origin) +
                  ": origin moved by " + detail::to_string(grid.shift) + " whole cells to " +
                  detail::to_string(grid.shifted_origin()));
    }
    voxels_.non_finite += statistics.non_finite;
    voxels_.out_of_range += statistics.outside;
    report(c, cloud, statistics);
    return grid;
  }

  void report(std::size_t c, const io::Cloud& cloud, const detail::CellStatistics& statistics) {
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
    base::parallel_blocks(
        voxels_.points, detail::kPointBlock, [&](std::int64_t begin, std::int64_t end) {
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
    std::vector<std::vector<double>> values(sources.size(),
                                            std::vector<double>(detail::kPointBlock));
    std::vector<std::int64_t> bad(sources.size());
    for (std::int64_t first = 0; first < cloud.size(); first += detail::kPointBlock) {
      const std::int64_t count = std::min(detail::kPointBlock, cloud.size() - first);
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
  std::int64_t read_feature(const detail::FeatureSource& source, const detail::VoxelGrid& grid,
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
  std::vector<detail::VoxelGrid> grids_;
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
