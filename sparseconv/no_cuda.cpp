// Stands in for cuda/ in a build without CUDA.
#include "sparseconv/device_timing.hpp"
#include "sparseconv/device_voxelize.hpp"
#include "sparseconv/devices.hpp"
#include "sparseconv/executor.hpp"
#include "sparseconv/training/device_trainer.hpp"

namespace sparseconv {
namespace {

[[noreturn]] void refuse(base::Device device) {
  base::fail("device ", base::to_string(device), ": sparseconv was built without CUDA");
}

}  // namespace

void wake_device(base::Device device) {
  if (!device.is_cpu()) refuse(device);
}
std::unique_ptr<Executor> make_cuda_executor(const Plan&, const ExecutorOptions& options) {
  refuse(options.device);
}
std::unique_ptr<Voxelizer> make_cuda_voxelizer(const VoxelizeOptions&, base::Device device) {
  refuse(device);
}
DeviceLimits device_limits(base::Device device, base::DType) { refuse(device); }
LayerTimes time_layer(const LayerTiming&, base::Device device, int) { refuse(device); }
std::vector<double> time_maps(const MapTiming&, base::Device device, int) { refuse(device); }
std::vector<double> time_voxelize(std::span<const io::Cloud* const>, const VoxelizeOptions&,
                                  base::Device device, int) {
  refuse(device);
}

namespace training {
std::unique_ptr<DeviceTrainer> make_device_trainer(const Model&, const TrainOptions&, std::size_t,
                                                   base::Device device) {
  refuse(device);
}
}  // namespace training

}  // namespace sparseconv
