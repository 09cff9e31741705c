#include "sparseconv/cuda/voxels/voxelizer.hpp"

#include "sparseconv/cuda/device_runner.cuh"
#include "sparseconv/cuda/voxels/voxel_build.cuh"

namespace sparseconv::cuda {

struct DeviceVoxelizer::Impl {
  VoxelizeOptions options;
  Capacity capacity;
  VoxelLayout layout;
  base::cuda::Buffer<std::uint8_t> memory;
  Scratch scratch;
  // Of a frame, pinned, so that copies to the device wait for nothing.
  base::cuda::PinnedBuffer<std::uint8_t> staging;
  base::cuda::Event uploaded;  // the last upload has left the staging memory
};

DeviceVoxelizer::DeviceVoxelizer(const VoxelizeOptions& options) : impl_(std::make_unique<Impl>()) {
  check_voxel_options(options);
  impl_->options = options;
  impl_->uploaded = base::cuda::Event::create();
}
DeviceVoxelizer::~DeviceVoxelizer() = default;
DeviceVoxelizer::DeviceVoxelizer(DeviceVoxelizer&&) noexcept = default;
DeviceVoxelizer& DeviceVoxelizer::operator=(DeviceVoxelizer&&) noexcept = default;

void DeviceVoxelizer::reserve(const Capacity& capacity) {
  Impl& impl = *impl_;
  const auto sizes = lay_out_voxels(impl.options, capacity, Arena()).arena.used();
  std::size_t bytes = 0;
  for (const std::size_t size : sizes) bytes += size;
  if (bytes > impl.memory.size()) {
    impl.memory.reset();
    impl.memory = base::cuda::Buffer<std::uint8_t>(bytes);
  }
  impl.capacity = capacity;
  impl.layout = lay_out_voxels(impl.options, capacity, Arena(impl.memory.data(), sizes));
  if (sizes[Arena::constant] > impl.staging.size()) {
    impl.uploaded.synchronize();
    impl.staging = base::cuda::PinnedBuffer<std::uint8_t>(sizes[Arena::constant]);
  }
  allow_sample_sort();
  impl.scratch.is_dry = true;
  DeviceRunner runner(impl.scratch, nullptr);
  build_voxels(runner, impl.options, impl.layout, capacity.clouds);
  impl.scratch.is_dry = false;
  impl.scratch.allocate();
}

void DeviceVoxelizer::upload(std::span<const io::Cloud* const> clouds, cudaStream_t stream) {
  Impl& impl = *impl_;
  const VoxelLayout& layout = impl.layout;
  ENSURE(layout.keys != nullptr, "device voxelizer: upload() before reserve()");
  impl.uploaded.synchronize();
  std::uint8_t* const device = layout.arena.begin(Arena::constant);
  const std::uint8_t* const staging = impl.staging.data();
  stage_clouds(impl.options, impl.capacity, layout, clouds, impl.staging.data(),
               [&](std::size_t first, std::size_t bytes) {
                 CUDA_CHECK(cudaMemcpyAsync(device + first, staging + first, bytes,
                                            cudaMemcpyHostToDevice, stream));
               });
  impl.uploaded.record(stream);
}

void DeviceVoxelizer::build(std::int32_t clouds, cudaStream_t stream) {
  Impl& impl = *impl_;
  const VoxelLayout& layout = impl.layout;
  ENSURE(layout.keys != nullptr && clouds >= 0 && clouds <= impl.capacity.clouds,
         "device voxelizer: ", clouds, " clouds, the capacity is ", impl.capacity.clouds);
  CUDA_CHECK(cudaMemsetAsync(layout.arena.begin(Arena::zeros), 0, layout.arena.used()[Arena::zeros],
                             stream));
  DeviceRunner runner(impl.scratch, stream);
  build_voxels(runner, impl.options, layout, clouds);
}

std::int64_t DeviceVoxelizer::point_capacity() const { return impl_->capacity.points; }
std::int64_t DeviceVoxelizer::channels() const {
  return static_cast<std::int64_t>(impl_->options.features.size());
}
const Key* DeviceVoxelizer::keys() const { return impl_->layout.runs.keys; }
const std::int32_t* DeviceVoxelizer::row_count() const { return impl_->layout.runs.count; }
const float* DeviceVoxelizer::features() const { return impl_->layout.features; }
const std::int32_t* DeviceVoxelizer::point_to_voxel() const { return impl_->layout.point_to_voxel; }
const std::int32_t* DeviceVoxelizer::point_count() const { return impl_->layout.point_count; }
const double* DeviceVoxelizer::positions() const { return impl_->layout.positions; }
const std::int32_t* DeviceVoxelizer::status() const { return impl_->layout.status; }
std::size_t DeviceVoxelizer::status_size() const { return kVoxelStatus; }
std::int64_t DeviceVoxelizer::nbytes() const {
  return static_cast<std::int64_t>(impl_->memory.nbytes() + impl_->scratch.nbytes());
}
DeviceVoxelizer::Outcome DeviceVoxelizer::check(std::span<const std::int32_t> status) const {
  return read_voxel_status(impl_->options, status);
}

}  // namespace sparseconv::cuda
