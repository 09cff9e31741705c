#include "sparseconv/device_voxelize.hpp"

namespace sparseconv {
namespace {

class CpuVoxelizer final : public Voxelizer {
 public:
  explicit CpuVoxelizer(const VoxelizeOptions& options) : options_(options) {}
  Voxels run(const io::Cloud& cloud) const override { return voxelize(cloud, options_); }

 private:
  const VoxelizeOptions options_;
};

}  // namespace

std::unique_ptr<Voxelizer> make_voxelizer(const VoxelizeOptions& options, base::Device device) {
  if (!device.is_cpu()) return make_cuda_voxelizer(options, device);
  return std::make_unique<CpuVoxelizer>(options);
}

}  // namespace sparseconv
