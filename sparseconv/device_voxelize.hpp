// voxelize() on a device of one's choice: the same voxels, bit by bit. May be called from several
// threads.
//   const auto voxelizer = make_voxelizer({.voxel_size = {0.1, 0.1, 0.1}}, {Device::Kind::cuda,
//   0}); const Voxels voxels = voxelizer->run(cloud);
#pragma once
#include <memory>

#include "sparseconv/voxelize.hpp"

namespace sparseconv {

class Voxelizer {
 public:
  virtual ~Voxelizer() = default;
  virtual Voxels run(const io::Cloud& cloud) const = 0;  // errors as voxelize()
};

// Error: a device that is not there, a build without CUDA.
std::unique_ptr<Voxelizer> make_voxelizer(const VoxelizeOptions& options, base::Device device);
std::unique_ptr<Voxelizer> make_cuda_voxelizer(const VoxelizeOptions& options, base::Device device);

}  // namespace sparseconv
