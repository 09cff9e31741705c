// Where everything of a voxelisation stands in one arena. Plain pointers, host or device.
#pragma once
#include <functional>

#include "sparseconv/cuda/arena.hpp"
#include "sparseconv/cuda/voxels/voxel_steps.cuh"
#include "sparseconv/cuda/voxels/voxelizer.hpp"

namespace sparseconv::cuda {

// Counts of fates, of dropped points, then of replaced values, each kWarp; voxels; whether a sum
// exceeded float.
inline constexpr std::size_t kVoxelStatus = 3 * kWarp + 2;

struct VoxelLayout {
  Arena arena;
  std::int64_t point_capacity = 0;
  std::int32_t* status = nullptr;
  // Uploaded: region `constant`.
  PointCloudJob* clouds = nullptr;
  PointColumn* columns = nullptr;       // [clouds][channels]
  FeatureJob* feature_jobs = nullptr;   // [clouds][channels]
  std::int32_t* point_count = nullptr;  // [1]
  std::uint8_t* column_data = nullptr;
  std::int64_t column_bytes = 0;
  Key *keys = nullptr, *sorted_keys = nullptr;  // of points
  std::int32_t *order = nullptr, *sorted_order = nullptr;
  std::int32_t *sums = nullptr, *is_first = nullptr, *ranks = nullptr, *kept_sums = nullptr,
               *kept_rows = nullptr;
  VoxelRuns all_runs{};  // before a limit of voxels
  VoxelRuns runs{};
  float* features = nullptr;
  std::int32_t* point_to_voxel = nullptr;
  double* positions = nullptr;  // [points][3], null where they are not asked for
};

void check_voxel_options(const VoxelizeOptions& options);
VoxelLayout lay_out_voxels(const VoxelizeOptions& options,
                           const DeviceVoxelizer::Capacity& capacity, Arena arena);
// Fills the staging copy of the region `constant`: columns and what steps need to know. `send` is
// called for each piece of the region that is filled, first byte and number of bytes: while one of
// a large cloud is on its way to the device, the next is copied.
using SendPiece = std::function<void(std::size_t first, std::size_t bytes)>;
void stage_clouds(const VoxelizeOptions& options, const DeviceVoxelizer::Capacity& capacity,
                  const VoxelLayout& layout, std::span<const io::Cloud* const> clouds,
                  std::uint8_t* staging, const SendPiece& send);
DeviceVoxelizer::Outcome read_voxel_status(const VoxelizeOptions& options,
                                           std::span<const std::int32_t> status);

}  // namespace sparseconv::cuda
