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

constexpr std::size_t kAhead = 16;  // points whose place in the hash map is asked for beforehand

// One run of voxelize().
class Voxelizer {
 public:
  Voxelizer(std::span<const io::Cloud* const> clouds, const VoxelizeOptions& options)
      : clouds_(clouds),
        options_(options),
        keys_(options.cache),
        slots_(options.cache),
        counts_(options.cache),
        shared_(options.cache),
        is_set_(options.cache),
        sums_(options.cache) {
    voxels_.point_to_voxel = base::Buffer<std::int64_t>(options.cache);
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
    slots_.resize(keys_.size());
    BlockSet set(voxels_.points / 3, options_.cache);
    std::size_t begin = 0;
    for (std::size_t c = 0; c < clouds_.size(); ++c) {
      const std::span keys(keys_.data() + begin, static_cast<std::size_t>(clouds_[c]->size()));
      grids_.push_back(locate(c, keys));
      insert_cells(keys, slots_.data() + begin, set);
      begin += keys.size();
    }
    if (set.growths() > 0) slots_.clear();
    voxels_.tensor.coordinates = Coordinates::from_block_set(
        std::move(set), {.batch_size = static_cast<std::int32_t>(clouds_.size()),
                         .spatial_shape = options_.spatial_shape,
                         .cache = options_.cache});
    for (const detail::VoxelGrid& grid : grids_) voxels_.origins.push_back(grid.shifted_origin());
    voxels_.origin = voxels_.origins.empty() ? options_.origin : voxels_.origins.front();
  }

  detail::VoxelGrid locate(std::size_t c, std::span<Key> keys) {
    const io::Cloud& cloud = *clouds_[c];
    detail::VoxelGrid grid = detail::make_grid(options_);
    const auto batch = static_cast<std::int32_t>(c);
    const detail::CellStatistics statistics = detail::assign_keys(cloud, grid, batch, keys);
    if (!statistics.fit) {
      detail::shift_to_fit(cloud, grid);
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
    for (const std::string& text : detail::cell_warnings(cloud, statistics)) warn(c, text);
  }

  // Voxels count by their first point, so inserting in file order meets max_voxels.
  void insert_cells(std::span<Key> keys, std::uint32_t* slots, BlockSet& set) {
    if (options_.max_voxels == 0) return set.insert_all(keys, slots);
    const std::int64_t limit = set.size() + options_.max_voxels;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      Key& key = keys[i];
      slots[i] = 0;
      if (key == kNoKey) continue;
      if (set.size() < limit || set.contains(key)) {
        set.insert(key);
        slots[i] = set.last_slot();
      } else {
        key = kNoKey;
        ++voxels_.over_max_voxels;
      }
    }
  }

  std::int64_t row_of(const HashMap& rows, HashMap::Cursor& cursor, std::size_t point) const {
    const Key key = keys_[point];
    if (key == kNoKey) return -1;
    return slots_.empty() ? cursor.find(key) : rows.find_in_slot(slots_[point], key);
  }

  void assign_rows() {
    const HashMap& rows = voxels_.tensor.coordinates->hash_map();
    voxels_.point_to_voxel.resize(keys_.size());
    base::parallel_blocks(
        voxels_.points, detail::kPointBlock, [&](std::int64_t begin, std::int64_t end) {
          HashMap::Cursor cursor(rows);
          for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
            if (i + kAhead < slots_.size()) rows.prefetch_slot(slots_[i + kAhead]);
            voxels_.point_to_voxel[i] = row_of(rows, cursor, i);
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
    voxels_.tensor.features =
        base::Tensor::empty({voxels_.tensor.rows(), static_cast<std::int64_t>(channels)},
                            base::DType::f32, options_.cache);
    // Most voxels hold one point: only the others need sums.
    shared_.resize(counts_.size());
    std::int32_t shared = 0;
    for (std::size_t row = 0; row < counts_.size(); ++row)
      shared_[row] = counts_[row] > 1 ? shared++ : -1;
    sums_.assign(static_cast<std::size_t>(shared) * channels,
                 options_.reduce == Reduce::max ? -HUGE_VAL : 0.0);
    if (options_.reduce == Reduce::first) is_set_.assign(static_cast<std::size_t>(shared), 0);
    std::int64_t begin = 0;
    for (std::size_t c = 0; c < clouds_.size(); ++c) {
      add_cloud(c, begin);
      begin += clouds_[c]->size();
    }
    write_shared(channels);
  }

  float* feature_data() {
    return voxels_.tensor.rows() > 0 ? voxels_.tensor.features.data<float>() : nullptr;
  }

  struct Block {
    std::int64_t point, global, count, channels;  // first point in its cloud and in the batch
  };

  // Points are added in file order whatever the number of threads; sums are in double.
  void add_cloud(std::size_t c, std::int64_t begin) {
    const io::Cloud& cloud = *clouds_[c];
    const auto sources = detail::find_features(cloud, voxels_.feature_names, options_.defaults);
    base::Buffer<double> values(sources.size() * detail::kPointBlock,
                                options_.cache);  // point-major
    std::vector<std::int64_t> bad(sources.size());
    for (std::int64_t first = 0; first < cloud.size(); first += detail::kPointBlock) {
      const Block block{first, begin + first, std::min(detail::kPointBlock, cloud.size() - first),
                        static_cast<std::int64_t>(sources.size())};
      for (std::size_t f = 0; f < sources.size(); ++f) {
        bad[f] += read_feature(sources[f], grids_[c], block, values.data() + f);
      }
      add_block(block, values.data());
    }
    for (std::size_t f = 0; f < sources.size(); ++f) {
      if (bad[f] > 0) warn(c, detail::replaced_warning(bad[f], voxels_.feature_names[f]));
    }
  }

  // Returns the values set to 0.
  std::int64_t read_feature(const detail::FeatureSource& source, const detail::VoxelGrid& grid,
                            const Block& block, double* values) const {
    using Kind = detail::FeatureSource::Kind;
    if (source.kind == Kind::constant) {
      for (std::int64_t i = 0; i < block.count; ++i) values[i * block.channels] = source.value;
      return 0;
    }
    std::int64_t bad = 0;
    const auto put = [&](std::int64_t i, double value) {
      const bool is_good = std::abs(value) <= std::numeric_limits<float>::max();
      values[i * block.channels] = is_good ? value : 0.0;
      if (!is_good) [[unlikely]]
        bad += is_kept(block.global + i);  // dropped points do not count
    };
    const auto read = [&](const auto& use) {
      detail::for_each_value(*source.column, block.point, block.count, use);
    };
    const auto axis = static_cast<std::size_t>(source.axis);
    const double size = grid.size[axis], moved = grid.shift[axis] * size;
    if (source.kind == Kind::position) {
      read([&](std::int64_t i, double value) { put(i, value - moved); });
    } else if (source.kind == Kind::offset) {
      const double origin = grid.shifted_origin()[axis];
      read([&](std::int64_t i, double value) {
        const Key key = keys_[static_cast<std::size_t>(block.global + i)];
        const double cell = unpack(key)[source.axis];
        put(i, value - (origin + (cell + 0.5) * size));
      });
    } else {
      read([&](std::int64_t i, double value) { put(i, value * source.scale); });
    }
    return bad;
  }

  bool is_kept(std::int64_t point) const {
    return voxels_.point_to_voxel[static_cast<std::size_t>(point)] >= 0;
  }

  void add_block(const Block& block, const double* values) {
    float* features = feature_data();
    for (std::int64_t p = 0; p < block.count; ++p, values += block.channels) {
      const std::int64_t row = voxels_.point_to_voxel[static_cast<std::size_t>(block.global + p)];
      if (row < 0) continue;
      const std::int32_t shared = shared_[static_cast<std::size_t>(row)];
      if (shared >= 0) {
        add_shared(shared, values, static_cast<std::size_t>(block.channels));
        continue;
      }
      float* out = features + row * block.channels;
      for (std::int64_t f = 0; f < block.channels; ++f) out[f] = static_cast<float>(values[f]);
    }
  }

  void add_shared(std::int32_t shared, const double* values, std::size_t channels) {
    double* sums = sums_.data() + static_cast<std::size_t>(shared) * channels;
    switch (options_.reduce) {
      case Reduce::mean:
      case Reduce::sum:
        for (std::size_t f = 0; f < channels; ++f) sums[f] += values[f];
        break;
      case Reduce::max:
        for (std::size_t f = 0; f < channels; ++f) sums[f] = std::max(sums[f], values[f]);
        break;
      case Reduce::first:
        if (std::exchange(is_set_[static_cast<std::size_t>(shared)], std::uint8_t{1}) != 0) break;
        for (std::size_t f = 0; f < channels; ++f) sums[f] = values[f];
        break;
    }
  }

  void write_shared(std::size_t channels) {
    float* features = feature_data();
    for (std::size_t row = 0; row < counts_.size(); ++row) {
      if (shared_[row] < 0) continue;
      const double* sums = sums_.data() + static_cast<std::size_t>(shared_[row]) * channels;
      const double divisor = options_.reduce == Reduce::mean ? counts_[row] : 1.0;
      for (std::size_t f = 0; f < channels; ++f) {
        const auto value = static_cast<float>(sums[f] / divisor);
        ENSURE(std::isfinite(value), "voxelize: the sum of ", voxels_.feature_names[f],
               " in voxel ", row, " exceeds the range of float");
        features[row * channels + f] = value;
      }
    }
  }

  std::span<const io::Cloud* const> clouds_;
  const VoxelizeOptions& options_;
  Voxels voxels_;
  std::vector<detail::VoxelGrid> grids_;
  base::Buffer<Key> keys_;
  base::Buffer<std::uint32_t> slots_;  // of points in the hash map; empty where it grew
  // By row: points, place among voxels of several points or -1.
  base::Buffer<std::int32_t> counts_, shared_;
  base::Buffer<std::uint8_t> is_set_;
  base::Buffer<double> sums_;
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
