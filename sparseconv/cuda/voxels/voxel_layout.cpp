#include "sparseconv/cuda/voxels/voxel_layout.hpp"

#include <cstring>
#include <limits>

#include "gemm_core/base/parallel.hpp"
#include "sparseconv/point_features.hpp"
#include "sparseconv/voxel_grid.hpp"

namespace sparseconv::cuda {
namespace {

using Capacity = DeviceVoxelizer::Capacity;

// Columns are float where the cloud's are, else double.
constexpr std::int64_t kMaxElement = sizeof(double);
constexpr std::int64_t kStagedAtOnce = 32768;                // values that a thread copies
constexpr std::int64_t kSentAtOnce = std::int64_t{8} << 20;  // bytes, or all where there are fewer

// Threads copy all columns together: to wake them for each takes longer than to copy it. Large
// clouds are sent in pieces while the rest is copied.
class Stager {
 public:
  Stager(const VoxelLayout& layout, std::uint8_t* staging, const SendPiece& send)
      : layout_(layout), staging_(staging), send_(send), used_(columns_begin()), sent_(used_) {}

  // The staging copy of something in the region.
  template <class T>
  T* host(T* device) const {
    const auto offset =
        reinterpret_cast<std::uint8_t*>(device) - layout_.arena.begin(Arena::constant);
    return reinterpret_cast<T*>(staging_ + offset);
  }
  PointColumn column(const io::Column& column, std::int64_t points) {
    const bool is_float = column.values.dtype() == base::DType::f32;
    const std::int64_t size = is_float ? sizeof(float) : sizeof(double), first = used_;
    ENSURE(first + points * size <= columns_begin() + layout_.column_bytes,
           "device voxelizer: more columns than room");
    for (std::int64_t at = 0; at < points; at += kStagedAtOnce) {
      const std::int64_t count = std::min(kStagedAtOnce, points - at);
      pieces_.push_back({&column, at, count, staging_ + used_});
      used_ += count * size;
      if (used_ - sent_ >= kSentAtOnce) flush();
    }
    used_ = (used_ + 15) / 16 * 16;
    return {layout_.arena.begin(Arena::constant) + first, is_float ? 0 : 1};
  }
  // What stands before the columns is sent with them, or after them.
  void finish() {
    const bool is_whole = sent_ == columns_begin();
    if (is_whole) sent_ = 0;
    flush();
    if (!is_whole) send_(0, static_cast<std::size_t>(columns_begin()));
  }

 private:
  struct Piece {
    const io::Column* column;
    std::int64_t first, count;
    std::uint8_t* to;
  };
  std::int64_t columns_begin() const {
    return layout_.column_data - layout_.arena.begin(Arena::constant);
  }
  static void copy(const Piece& piece) {
    const io::Column& column = *piece.column;
    if (column.values.dtype() == base::DType::f32) {
      std::memcpy(piece.to, column.values.data<float>() + piece.first,
                  static_cast<std::size_t>(piece.count) * sizeof(float));
    } else {
      sparseconv::detail::read_column(column, piece.first, piece.count,
                                      reinterpret_cast<double*>(piece.to));
    }
  }
  void flush() {
    base::parallel_blocks(std::ssize(pieces_), 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto p = begin; p < end; ++p) copy(pieces_[static_cast<std::size_t>(p)]);
    });
    pieces_.clear();
    send_(static_cast<std::size_t>(sent_), static_cast<std::size_t>(used_ - sent_));
    sent_ = used_;
  }

  const VoxelLayout& layout_;
  std::uint8_t* staging_;
  const SendPiece& send_;
  std::vector<Piece> pieces_;
  std::int64_t used_, sent_;  // bytes of the region
};

PointCloudJob cloud_job(const VoxelizeOptions& options, std::int64_t first, std::int64_t count,
                        std::size_t batch) {
  const sparseconv::detail::VoxelGrid grid = sparseconv::detail::make_grid(options);
  PointCloudJob job;
  job.first = static_cast<std::int32_t>(first);
  job.count = static_cast<std::int32_t>(count);
  job.batch = static_cast<std::int32_t>(batch);
  for (std::size_t a = 0; a < 3; ++a) {
    job.origin[a] = grid.origin[a];
    job.size[a] = grid.size[a];
    job.low[a] = grid.low[a];
    job.high[a] = grid.high[a];
    job.from[a] = grid.range ? (*grid.range)[a] : -HUGE_VAL;
    job.to[a] = grid.range ? (*grid.range)[a + 3] : HUGE_VAL;
  }
  return job;
}

FeatureJob feature_job(const sparseconv::detail::FeatureSource& source) {
  using From = sparseconv::detail::FeatureSource::Kind;
  using To = FeatureJob::Kind;
  const To kind = source.kind == From::position ? To::position
                  : source.kind == From::offset ? To::offset
                  : source.kind == From::field  ? To::field
                                                : To::constant;
  return {kind, source.axis, source.value, source.scale};
}

}  // namespace

void check_voxel_options(const VoxelizeOptions& options) {
  ENSURE(!options.features.empty() &&
             options.features.size() <= static_cast<std::size_t>(kMaxFeatures),
         "device voxelizer: ", options.features.size(), " features are not in 1..", kMaxFeatures);
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  ENSURE(options.max_points >= 0 && options.max_points <= kMax && options.max_voxels >= 0 &&
             options.max_voxels <= kMax,
         "device voxelizer: max_points ", options.max_points, " and max_voxels ",
         options.max_voxels, " are not in 0..", kMax);
  (void)sparseconv::detail::make_grid(options);  // its errors, now
}

VoxelLayout lay_out_voxels(const VoxelizeOptions& options, const Capacity& capacity, Arena arena) {
  constexpr std::int64_t kMaxPoints = std::int64_t{1} << 30;
  ENSURE(capacity.points >= 0 && capacity.points <= kMaxPoints, "device voxelizer: a capacity of ",
         capacity.points, " points is not in 0..", kMaxPoints);
  ENSURE(capacity.clouds >= 1 && capacity.clouds <= kBatchMax,
         "device voxelizer: ", capacity.clouds, " clouds are not in 1..", kBatchMax);
  const std::int64_t points = std::max<std::int64_t>(1, capacity.points);
  const auto channels = static_cast<std::int64_t>(options.features.size());
  VoxelLayout v;
  v.point_capacity = points;
  v.status = arena.take<std::int32_t>(Arena::zeros, kVoxelStatus);
  v.clouds = arena.take<PointCloudJob>(Arena::constant, capacity.clouds);
  v.columns = arena.take<PointColumn>(Arena::constant, capacity.clouds * channels);
  v.feature_jobs = arena.take<FeatureJob>(Arena::constant, capacity.clouds * channels);
  v.point_count = arena.take<std::int32_t>(Arena::constant, 1);
  // Positions and one column a feature of each cloud, each at a multiple of 16 bytes.
  v.column_bytes =
      (3 + channels) * (points * kMaxElement + 16 * static_cast<std::int64_t>(capacity.clouds));
  v.column_data = arena.take<std::uint8_t>(Arena::constant, v.column_bytes);
  v.keys = arena.take<Key>(Arena::plain, points);
  v.sorted_keys = arena.take<Key>(Arena::plain, points);
  v.order = arena.take<std::int32_t>(Arena::plain, points);
  v.sorted_order = arena.take<std::int32_t>(Arena::plain, points);
  v.sums = arena.take<std::int32_t>(Arena::plain, points);
  const auto take_runs = [&](std::int32_t* count, Key* keys) {
    return VoxelRuns{keys != nullptr ? keys : arena.take<Key>(Arena::plain, points),
                     arena.take<std::int32_t>(Arena::plain, points),
                     arena.take<std::int32_t>(Arena::plain, points), count};
  };
  v.runs = take_runs(v.status == nullptr ? nullptr : v.status + 3 * kWarp, capacity.keys);
  v.all_runs = v.runs;
  if (options.max_voxels > 0) {
    v.all_runs = take_runs(arena.take<std::int32_t>(Arena::zeros, 1), nullptr);
    v.is_first = arena.take<std::int32_t>(Arena::zeros, points);
    v.ranks = arena.take<std::int32_t>(Arena::plain, points);
    v.kept_sums = arena.take<std::int32_t>(Arena::plain, points);
    v.kept_rows = arena.take<std::int32_t>(Arena::plain, points);
  }
  v.features = arena.take<float>(Arena::plain, points * channels);
  v.point_to_voxel = arena.take<std::int32_t>(Arena::plain, points);
  if (capacity.has_positions) v.positions = arena.take<double>(Arena::plain, 3 * points);
  v.arena = arena;
  return v;
}

void stage_clouds(const VoxelizeOptions& options, const Capacity& capacity,
                  const VoxelLayout& layout, std::span<const io::Cloud* const> clouds,
                  std::uint8_t* staging, const SendPiece& send) {
  ENSURE(clouds.size() <= static_cast<std::size_t>(capacity.clouds),
         "device voxelizer: ", clouds.size(), " clouds, the capacity is ", capacity.clouds);
  const std::size_t channels = options.features.size();
  Stager stager(layout, staging, send);
  std::int64_t points = 0;
  for (std::size_t c = 0; c < clouds.size(); ++c) {
    const io::Cloud& cloud = *clouds[c];
    ENSURE(points + cloud.size() <= capacity.points, "device voxelizer: ", points + cloud.size(),
           " points, the capacity is ", capacity.points);
    PointCloudJob job = cloud_job(options, points, cloud.size(), c);
    points += cloud.size();
    const auto positions = sparseconv::detail::position_columns(cloud);
    for (std::size_t a = 0; a < 3 && cloud.size() > 0; ++a)
      job.position[a] = stager.column(*positions[a], cloud.size());
    *stager.host(layout.clouds + c) = job;
    const auto sources =
        sparseconv::detail::find_features(cloud, options.features, options.defaults);
    for (std::size_t f = 0; f < channels; ++f) {
      const auto& source = sources[f];
      PointColumn column;
      if (source.column != nullptr && cloud.size() > 0) {
        const bool is_position = source.column == positions[static_cast<std::size_t>(source.axis)];
        column =
            is_position ? job.position[source.axis] : stager.column(*source.column, cloud.size());
      }
      *stager.host(layout.columns + c * channels + f) = column;
      // Clouds of a batch may hold a field in other types, or not at all: what differs is told
      // apart by its cloud.
      *stager.host(layout.feature_jobs + c * channels + f) = feature_job(source);
    }
  }
  *stager.host(layout.point_count) = static_cast<std::int32_t>(points);
  stager.finish();
}

DeviceVoxelizer::Outcome read_voxel_status(const VoxelizeOptions& options,
                                           std::span<const std::int32_t> status) {
  ENSURE(status.size() == kVoxelStatus, "device voxelizer: a status of ", status.size(),
         " values, expected ", kVoxelStatus);
  DeviceVoxelizer::Outcome outcome{.voxels = status[3 * kWarp],
                                   .non_finite = status[0],
                                   .out_of_range = status[1],
                                   .over_max_points = status[kWarp],
                                   .over_max_voxels = status[kWarp + 1],
                                   .misfits = status[2],
                                   .replaced = {},
                                   .has_overflow = status[3 * kWarp + 1] != 0};
  for (std::size_t f = 0; f < options.features.size(); ++f)
    outcome.replaced.push_back(status[2 * kWarp + f]);
  return outcome;
}

}  // namespace sparseconv::cuda
