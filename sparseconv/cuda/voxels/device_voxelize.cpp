#include "sparseconv/device_voxelize.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "gemm_core/base/cuda/resources.hpp"
#include "sparseconv/cuda/room.hpp"
#include "sparseconv/cuda/step_kernels.hpp"
#include "sparseconv/cuda/voxels/voxel_steps.cuh"
#include "sparseconv/cuda/voxels/voxelizer.hpp"
#include "sparseconv/point_features.hpp"
#include "sparseconv/voxel_grid.hpp"

namespace sparseconv {
namespace {

using cuda::at;
using cuda::DeviceVoxelizer;

// One stream's memory for clouds of one list of features.
class VoxelRunner {
 public:
  explicit VoxelRunner(const VoxelizeOptions& options)
      : options_(options), voxelizer_(options), stream_(base::cuda::Stream::create()) {}

  // Nothing where voxelize() must take the cloud.
  std::optional<Voxels> run(const io::Cloud& cloud) {
    const std::int64_t points = cloud.size(), channels = voxelizer_.channels();
    if (points > capacity_) {
      capacity_ = cuda::with_room(points);
      voxelizer_.reserve({.points = capacity_});
    }
    const cudaStream_t stream = stream_.get();
    const io::Cloud* const clouds[] = {&cloud};
    voxelizer_.run(clouds, stream);
    cuda::make_room(status_, voxelizer_.status_size());
    cuda::make_room(keys_, at(points));
    cuda::make_room(rows_, at(points));
    cuda::make_room(features_, at(points * channels));
    fetch(status_, voxelizer_.status(), voxelizer_.status_size());
    fetch(keys_, voxelizer_.keys(), at(points));
    fetch(rows_, voxelizer_.point_to_voxel(), at(points));
    fetch(features_, voxelizer_.features(), at(points * channels));
    stream_.synchronize();
    const auto outcome = voxelizer_.check({status_.data(), voxelizer_.status_size()});
    if (outcome.misfits > 0 || outcome.has_overflow) return std::nullopt;
    return collect(cloud, outcome);
  }

 private:
  template <class T>
  void fetch(base::cuda::PinnedBuffer<T>& to, const T* from, std::size_t count) {
    CUDA_CHECK(
        cudaMemcpyAsync(to.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost, stream_.get()));
  }

  Voxels collect(const io::Cloud& cloud, const DeviceVoxelizer::Outcome& outcome) const {
    Voxels voxels;
    const std::int64_t channels = voxelizer_.channels();
    voxels.tensor.coordinates =
        Coordinates::from_sorted_keys({keys_.data(), keys_.data() + outcome.voxels},
                                      {.batch_size = 1, .spatial_shape = options_.spatial_shape});
    voxels.tensor.features = base::Tensor::empty({outcome.voxels, channels}, base::DType::f32);
    if (outcome.voxels > 0) {
      std::copy(features_.data(), features_.data() + outcome.voxels * channels,
                voxels.tensor.features.data<float>());
    }
    voxels.point_to_voxel.assign(rows_.data(), rows_.data() + cloud.size());
    voxels.feature_names = options_.features;
    voxels.voxel_size = options_.voxel_size;
    voxels.origin = sparseconv::detail::make_grid(options_).shifted_origin();
    voxels.origins = {voxels.origin};
    voxels.points = cloud.size();
    voxels.non_finite = outcome.non_finite;
    voxels.out_of_range = outcome.out_of_range;
    voxels.over_max_points = outcome.over_max_points;
    voxels.over_max_voxels = outcome.over_max_voxels;
    voxels.dropped = outcome.non_finite + outcome.out_of_range + outcome.over_max_points +
                     outcome.over_max_voxels;
    voxels.warnings = sparseconv::detail::cell_warnings(
        cloud, {.non_finite = outcome.non_finite,
                .outside = outcome.out_of_range,
                .kept = cloud.size() - outcome.non_finite - outcome.out_of_range});
    for (std::size_t f = 0; f < outcome.replaced.size(); ++f) {
      if (outcome.replaced[f] > 0) {
        voxels.warnings.push_back(
            sparseconv::detail::replaced_warning(outcome.replaced[f], options_.features[f]));
      }
    }
    return voxels;
  }

  const VoxelizeOptions options_;
  DeviceVoxelizer voxelizer_;
  base::cuda::Stream stream_;
  std::int64_t capacity_ = 0;
  base::cuda::PinnedBuffer<std::int32_t> status_, rows_;
  base::cuda::PinnedBuffer<Key> keys_;
  base::cuda::PinnedBuffer<float> features_;
};

class CudaVoxelizer final : public Voxelizer {
 public:
  CudaVoxelizer(const VoxelizeOptions& options, int device) : options_(options), device_(device) {}

  Voxels run(const io::Cloud& cloud) const override {
    VoxelizeOptions options = options_;
    if (options.features.empty()) options.features = sparseconv::detail::default_features(cloud);
    const bool suits = cloud.size() > 0 && !options.features.empty() &&
                       options.features.size() <= at(cuda::kMaxFeatures);
    if (!suits) return voxelize(cloud, options_);
    const base::cuda::DeviceGuard guard(device_);
    auto runner = take(options);
    std::optional<Voxels> voxels = runner->run(cloud);
    give_back(options, std::move(runner));
    return voxels ? std::move(*voxels) : voxelize(cloud, options_);
  }

 private:
  using RunnerPtr = std::unique_ptr<VoxelRunner>;

  RunnerPtr take(const VoxelizeOptions& options) const {
    {
      const std::lock_guard lock(mutex_);
      auto& idle = idle_[options.features];
      if (!idle.empty()) {
        RunnerPtr runner = std::move(idle.back());
        idle.pop_back();
        return runner;
      }
    }
    return std::make_unique<VoxelRunner>(options);
  }
  void give_back(const VoxelizeOptions& options, RunnerPtr runner) const {
    const std::lock_guard lock(mutex_);
    idle_[options.features].push_back(std::move(runner));
  }

  const VoxelizeOptions options_;
  const int device_;
  mutable std::mutex mutex_;
  mutable std::map<std::vector<std::string>, std::vector<RunnerPtr>> idle_;
};

}  // namespace

std::unique_ptr<Voxelizer> make_cuda_voxelizer(const VoxelizeOptions& options,
                                               base::Device device) {
  ENSURE(base::cuda::device_count() > 0, "device ", base::to_string(device),
         ": no CUDA device was found");
  (void)base::cuda::device_info(device.index);
  const base::cuda::DeviceGuard guard(device.index);
  cuda::check_kernels_run_on(device.index);
  return std::make_unique<CudaVoxelizer>(options, device.index);
}

}  // namespace sparseconv
