// Steps that turn points on the device into voxels: the same cells, rows, order and sums as
// voxelize.hpp. Products and sums are rounded one by one, as there.
#pragma once
#include <cmath>
#include <limits>

#include "sparseconv/coord.hpp"
#include "sparseconv/cuda/maps/step.cuh"
#include "sparseconv/voxelize.hpp"

namespace sparseconv::cuda {

SPARSECONV_DEVICE inline double rounded_product(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dmul_rn(a, b);  // never contracted to a fused multiply-add
#else
  return a * b;
#endif
}

SPARSECONV_DEVICE inline bool is_finite(double value) { return value - value == 0; }

struct PointColumn {
  const void* values = nullptr;
  std::int32_t is_double = 0;
  SPARSECONV_DEVICE double operator[](std::int64_t i) const {
    return is_double != 0 ? static_cast<const double*>(values)[i]
                          : static_cast<const float*>(values)[i];
  }
};

struct PointCloudJob {
  PointColumn position[3];
  std::int32_t first = 0, count = 0, batch = 0;  // `first` of all points of the batch
  double origin[3], size[3];
  double from[3], to[3], low[3], high[3];  // as VoxelGrid; infinite where there is no bound
};

// The last cloud that begins at or before a point.
SPARSECONV_DEVICE inline std::int32_t cloud_of(const PointCloudJob* clouds, std::int32_t count,
                                               std::int32_t point) {
  std::int32_t low = 0, high = count;
  while (high - low > 1) {
    const std::int32_t middle = (low + high) / 2;
    (clouds[middle].first <= point ? low : high) = middle;
  }
  return low;
}

// Where points lie among the cells, in centre coordinates: FrameInput::point_positions.
struct PlacePoints {
  const PointCloudJob* clouds;
  std::int32_t cloud_count;
  ItemCount points;
  double* positions;  // [points][3]
  SPARSECONV_DEVICE static constexpr std::int32_t jobs() { return 1; }
  std::int32_t capacity(int) const { return static_cast<std::int32_t>(points.capacity); }
  SPARSECONV_DEVICE std::int32_t size(int) const { return points.items(); }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    const PointCloudJob& cloud = clouds[cloud_of(clouds, cloud_count, i)];
    for (int a = 0; a < 3; ++a) {
      const double from_origin = cloud.position[a][i - cloud.first] - cloud.origin[a];
      positions[3 * static_cast<std::int64_t>(i) + a] = from_origin / cloud.size[a] - 0.5;
    }
  }
};

enum PointFate : std::uint32_t { kNonFinitePoint = 1, kOutsidePoint = 2, kMisfitPoint = 4 };

// Keys of points, kNoKey for those that become no voxel, and how many of each fate.
struct AssignCells {
  const PointCloudJob* clouds;
  std::int32_t cloud_count;
  ItemCount points;
  Key* keys;
  std::int32_t* order;
  std::int32_t* fates;  // [kCounters], cleared
  SPARSECONV_DEVICE static constexpr std::int32_t jobs() { return 1; }
  std::int32_t capacity(int) const { return static_cast<std::int32_t>(points.capacity); }
  SPARSECONV_DEVICE std::int32_t* counters(int) const { return fates; }
  SPARSECONV_DEVICE std::int32_t size(int) const { return points.items(); }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool is_active,
                                    const StepContext& context) const {
    std::uint32_t fate = 0;
    if (is_active) {
      const PointCloudJob& cloud = clouds[cloud_of(clouds, cloud_count, i)];
      Key key = static_cast<Key>(cloud.batch) << (3 * kAxisBits);
      for (int a = 0; a < 3; ++a) key |= axis(cloud, a, i - cloud.first, fate);
      fate = (fate & kNonFinitePoint) != 0 ? kNonFinitePoint
             : (fate & kOutsidePoint) != 0 ? kOutsidePoint
                                           : fate;
      keys[i] = fate == 0 ? key : kNoKey;
      order[i] = i;
    }
    tally_bits<3>(context.tally, fate);
  }

 private:
  SPARSECONV_DEVICE static Key axis(const PointCloudJob& cloud, int a, std::int32_t i,
                                    std::uint32_t& fate) {
    const double p = cloud.position[a][i], cell = (p - cloud.origin[a]) / cloud.size[a];
    if (!is_finite(p)) {
      fate |= kNonFinitePoint;
      return 0;
    }
    const bool is_inside =
        p >= cloud.from[a] && p < cloud.to[a] && cell >= cloud.low[a] && cell < cloud.high[a];
    if (!is_inside) fate |= kOutsidePoint;
    if (!(cell >= kAxisMin && cell < kAxisMax + 1.0)) {
      fate |= kMisfitPoint;
      return 0;
    }
    return spread_bits(
               static_cast<std::uint32_t>(static_cast<std::int32_t>(floor(cell)) + kAxisBias))
           << a;
  }
};

// 1 where a sorted point is the first of its voxel.
struct FirstOfVoxel {
  const Key* keys;
  ItemCount points;
  SPARSECONV_DEVICE std::int32_t operator()(std::int32_t i) const {
    return i < points.items() && keys[i] != kNoKey && (i == 0 || keys[i] != keys[i - 1]) ? 1 : 0;
  }
};

// Voxels as runs of sorted points.
struct VoxelRuns {
  Key* keys;                  // [capacity]
  std::int32_t *begin, *end;  // [capacity] sorted points
  std::int32_t* count;        // cleared
};

struct ListRuns {
  SPARSECONV_DEVICE static constexpr std::int32_t jobs() { return 1; }
  std::int32_t capacity(int) const { return static_cast<std::int32_t>(points.capacity); }
  const Key* point_keys;     // sorted
  const std::int32_t* sums;  // inclusive, of FirstOfVoxel
  ItemCount points;
  VoxelRuns runs;
  SPARSECONV_DEVICE std::int32_t size(int) const { return points.items(); }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool is_active) const {
    if (!is_active || point_keys[i] == kNoKey) return;
    const std::int32_t row = sums[i] - 1;
    if (i == 0 || point_keys[i - 1] != point_keys[i]) {
      runs.keys[row] = point_keys[i];
      runs.begin[row] = i;
    }
    const bool is_last = i + 1 == points.items();
    if (is_last || point_keys[i + 1] != point_keys[i]) runs.end[row] = i + 1;
    if (is_last || point_keys[i + 1] == kNoKey) *runs.count = row + 1;
  }
};

// With a limit of voxels a cloud: its voxels count by their first point. Marks those points.
struct MarkFirstPoints {
  SPARSECONV_DEVICE static constexpr std::int32_t jobs() { return 1; }
  std::int32_t capacity(int) const { return points; }
  VoxelRuns runs;
  const std::int32_t* order;  // sorted points
  std::int32_t* is_first;     // [points], cleared
  std::int32_t points;
  SPARSECONV_DEVICE std::int32_t size(int) const { return *runs.count; }
  SPARSECONV_DEVICE void operator()(int, std::int32_t row, bool is_active) const {
    if (is_active) is_first[order[runs.begin[row]]] = 1;
  }
};

struct FirstPoints {
  const std::int32_t* is_first;
  SPARSECONV_DEVICE std::int32_t operator()(std::int32_t i) const { return is_first[i]; }
};

struct KeptVoxels {
  VoxelRuns runs;
  const PointCloudJob* clouds;
  const std::int32_t *order, *ranks;  // ranks: inclusive sums of FirstPoints
  std::int32_t max_voxels;
  SPARSECONV_DEVICE std::int32_t operator()(std::int32_t row) const {
    if (row >= *runs.count) return 0;
    const std::int32_t first = clouds[runs.keys[row] >> (3 * kAxisBits)].first;
    const std::int32_t before = first == 0 ? 0 : ranks[first - 1];
    return ranks[order[runs.begin[row]]] - before <= max_voxels ? 1 : 0;
  }
};

struct CompactRuns {
  SPARSECONV_DEVICE static constexpr std::int32_t jobs() { return 1; }
  std::int32_t capacity(int) const { return points; }
  KeptVoxels kept;
  const std::int32_t* sums;  // inclusive, of KeptVoxels
  VoxelRuns to;
  std::int32_t* rows;  // [capacity] row of an old row, or -1
  std::int32_t points;
  SPARSECONV_DEVICE std::int32_t size(int) const { return *kept.runs.count; }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    const bool is_kept = kept(i) != 0;
    const std::int32_t row = sums[i] - 1;
    rows[i] = is_kept ? row : -1;
    if (is_kept) {
      to.keys[row] = kept.runs.keys[i];
      to.begin[row] = kept.runs.begin[i];
      to.end[row] = kept.runs.end[i];
    }
    if (i + 1 == *kept.runs.count) *to.count = sums[i];
  }
};

enum DroppedPoint : std::uint32_t { kOverMaxPoints = 1, kOverMaxVoxels = 2 };

struct AssignPoints {
  SPARSECONV_DEVICE static constexpr std::int32_t jobs() { return 1; }
  std::int32_t capacity(int) const { return static_cast<std::int32_t>(points.capacity); }
  const Key* point_keys;                    // sorted
  const std::int32_t *order, *sums, *rows;  // rows: null without a limit of voxels
  VoxelRuns runs;                           // before it
  ItemCount points;
  std::int32_t max_points;
  std::int32_t* point_to_voxel;
  std::int32_t* drops;  // [kCounters], cleared
  SPARSECONV_DEVICE std::int32_t* counters(int) const { return drops; }
  SPARSECONV_DEVICE std::int32_t size(int) const { return points.items(); }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool is_active,
                                    const StepContext& context) const {
    std::uint32_t dropped = 0;
    if (is_active) {
      std::int32_t row = -1;
      if (point_keys[i] != kNoKey) {
        const std::int32_t old = sums[i] - 1;
        row = rows == nullptr ? old : rows[old];
        if (row < 0) {
          dropped = kOverMaxVoxels;
        } else if (max_points > 0 && i - runs.begin[old] >= max_points) {
          dropped = kOverMaxPoints;
          row = -1;
        }
      }
      point_to_voxel[order[i]] = row;
    }
    tally_bits<2>(context.tally, dropped);
  }
};

struct FeatureJob {
  enum class Kind : std::int32_t { position, offset, field, constant } kind = Kind::field;
  std::int32_t axis = 0;
  double value = 0, scale = 1;
};
inline constexpr int kMaxFeatures = 32;

// Features of voxels: points in file order, sums in double.
struct ReduceVoxels {
  SPARSECONV_DEVICE static constexpr std::int32_t jobs() { return 1; }
  std::int32_t capacity(int) const { return points; }
  VoxelRuns runs;
  const PointCloudJob* clouds;
  const PointColumn* columns;  // [clouds][channels]
  const FeatureJob* features;  // [clouds][channels]
  const std::int32_t* order;   // sorted points
  std::int32_t points, channels, max_points;
  Reduce reduce;
  float* out;              // [rows][channels]
  std::int32_t* replaced;  // [kMaxFeatures], cleared: values that were not finite in float
  std::int32_t* overflow;  // cleared; 1 where a sum exceeds float
  SPARSECONV_DEVICE std::int32_t size(int) const { return *runs.count; }
  SPARSECONV_DEVICE void operator()(int, std::int32_t row, bool is_active) const {
    if (!is_active) return;
    const Key key = runs.keys[row];
    const auto batch = static_cast<std::int32_t>(key >> (3 * kAxisBits));
    const Coord cell = unpack(key);
    std::int32_t end = runs.end[row];
    if (max_points > 0 && end - runs.begin[row] > max_points) end = runs.begin[row] + max_points;
    for (int f = 0; f < channels; ++f) {
      double sum = reduce == Reduce::max ? -HUGE_VAL : 0.0;
      for (std::int32_t i = runs.begin[row]; i < end; ++i) {
        const double value = value_of(f, batch, cell, order[i]);
        if (reduce == Reduce::max)
          sum = value > sum ? value : sum;
        else if (reduce != Reduce::first)
          sum += value;
        else if (i == runs.begin[row])
          sum = value;
      }
      if (reduce == Reduce::mean) sum /= end - runs.begin[row];
      const auto result = static_cast<float>(sum);
      if (!is_finite(result)) *overflow = 1;
      out[static_cast<std::int64_t>(row) * channels + f] = result;
    }
  }

 private:
  SPARSECONV_DEVICE double value_of(int f, std::int32_t batch, const Coord& cell,
                                    std::int32_t point) const {
    const FeatureJob& feature = features[batch * channels + f];
    if (feature.kind == FeatureJob::Kind::constant) return feature.value;
    const PointCloudJob& cloud = clouds[batch];
    double value = columns[batch * channels + f][point - cloud.first];
    if (feature.kind == FeatureJob::Kind::offset) {
      const double centre = rounded_product(cell[feature.axis] + 0.5, cloud.size[feature.axis]);
      value -= cloud.origin[feature.axis] + centre;
    } else if (feature.kind == FeatureJob::Kind::field) {
      value = rounded_product(value, feature.scale);
    }
    constexpr double kMaxFloat = std::numeric_limits<float>::max();
    if (value >= -kMaxFloat && value <= kMaxFloat) return value;
    atomic_add(replaced + f, 1);
    return 0;
  }
};

}  // namespace sparseconv::cuda
