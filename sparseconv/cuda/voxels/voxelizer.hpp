// voxelize() on the device: the same voxels, rows and features, bit by bit, without a host
// synchronisation.
//
//   DeviceVoxelizer voxelizer(options, features);
//   voxelizer.reserve({.points = 130000, .clouds = 1});
//   voxelizer.run(clouds, stream);                         // uploads and enqueues
//   maps.build({.keys = voxelizer.keys(), .rows = voxelizer.point_capacity(), .device_rows =
//   voxelizer.row_count()}, stream); voxelizer.check(status)                                //
//   after the frame's one synchronisation
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <span>

#include "io/cloud.hpp"
#include "sparseconv/voxelize.hpp"

namespace sparseconv::cuda {

class DeviceVoxelizer {
 public:
  // `options.features` names the features (at most 32), as for voxelize().
  explicit DeviceVoxelizer(const VoxelizeOptions& options);
  ~DeviceVoxelizer();
  DeviceVoxelizer(DeviceVoxelizer&&) noexcept;
  DeviceVoxelizer& operator=(DeviceVoxelizer&&) noexcept;

  struct Capacity {
    std::int64_t points = 0;  // of all clouds of a batch
    std::int32_t clouds = 1;
    Key* keys = nullptr;         // device [points]: where keys go; null: into memory of its own
    bool has_positions = false;  // positions() are wanted
  };
  void reserve(const Capacity& capacity);
  // Error: more points or clouds than the capacity, a feature that a cloud lacks.
  void run(std::span<const io::Cloud* const> clouds, cudaStream_t stream) {
    upload(clouds, stream);
    build(static_cast<std::int32_t>(clouds.size()), stream);
  }
  // The two halves of run(). The second may be captured in a graph; it serves every upload of as
  // many clouds.
  void upload(std::span<const io::Cloud* const> clouds, cudaStream_t stream);
  void build(std::int32_t clouds, cudaStream_t stream);

  std::int64_t point_capacity() const;  // bound of the rows, too
  std::int64_t channels() const;
  const Key* keys() const;                     // device [rows] ascending
  const std::int32_t* row_count() const;       // device [1]
  const float* features() const;               // device [rows][channels]
  const std::int32_t* point_to_voxel() const;  // device [points] row or -1
  const std::int32_t* point_count() const;     // device [1]
  // device [points][3]: (position - origin) / voxel_size - 0.5; null where they were not asked for
  const double* positions() const;
  const std::int32_t* status() const;  // device [status_size()]
  std::size_t status_size() const;
  std::int64_t nbytes() const;

  // What a copy of status() says. `misfits`: points whose cells do not fit the key with this
  // origin; then nothing here is valid and voxelize() on the CPU, which moves the origin, must take
  // the frame; so it must where a sum exceeds the range of float.
  struct Outcome {
    std::int64_t voxels = 0, non_finite = 0, out_of_range = 0, over_max_points = 0,
                 over_max_voxels = 0, misfits = 0;
    std::vector<std::int64_t>
        replaced;  // of each feature: values that were not finite and count as 0
    bool has_overflow = false;
  };
  Outcome check(std::span<const std::int32_t> status) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparseconv::cuda
