// RAII for what CUDA hands out: stream, event, captured graph, device and pinned memory. Move-only,
// empty by default.
//   base::cuda::Stream stream = base::cuda::Stream::create();
//   base::cuda::Buffer<float> x(count);      // device memory, contents undefined
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "gemm_core/base/cuda/cuda_check.hpp"

namespace base::cuda {

// A handle and the function that destroys it.
template <class T, cudaError_t (*kDestroy)(T)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T value) : value_(value) {}
  ~Handle() { reset(); }
  Handle(Handle&& other) noexcept : value_(std::exchange(other.value_, T{})) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      value_ = std::exchange(other.value_, T{});
    }
    return *this;
  }
  T get() const { return value_; }
  explicit operator bool() const { return value_ != T{}; }
  void reset() {
    if (value_ != T{}) kDestroy(value_);
    value_ = T{};
  }

 protected:
  T value_{};
};

class Stream : public Handle<cudaStream_t, cudaStreamDestroy> {
 public:
  using Handle::Handle;
  static Stream create() {
    cudaStream_t stream{};
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return Stream(stream);
  }
  void synchronize() const { CUDA_CHECK(cudaStreamSynchronize(value_)); }
};

class Event : public Handle<cudaEvent_t, cudaEventDestroy> {
 public:
  using Handle::Handle;
  static Event create() {
    cudaEvent_t event{};
    CUDA_CHECK(cudaEventCreate(&event));
    return Event(event);
  }
  void record(cudaStream_t stream) const { CUDA_CHECK(cudaEventRecord(value_, stream)); }
  // While a stream is captured: each launch of the graph records the event, for timing.
  void record_in_graph(cudaStream_t stream) const {
    CUDA_CHECK(cudaEventRecordWithFlags(value_, stream, cudaEventRecordExternal));
  }
  void synchronize() const { CUDA_CHECK(cudaEventSynchronize(value_)); }
};
float elapsed_ms(const Event& begin, const Event& end);

// What `work` launches on `stream`, as an executable graph.
class Graph : public Handle<cudaGraphExec_t, cudaGraphExecDestroy> {
 public:
  using Handle::Handle;
  static Graph capture(cudaStream_t stream, const std::function<void()>& work);
  void launch(cudaStream_t stream) const { CUDA_CHECK(cudaGraphLaunch(value_, stream)); }
};

// When device memory cannot be had: names the bytes wanted, and free or left of the limit.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};
// Device memory of `device`; OutOfMemory when it cannot be had.
void* allocate_device(int device, std::size_t bytes);
// Bytes of a device that this process holds through allocate_device(), now and at most so far.
struct DeviceMemoryUse {
  std::int64_t held = 0, peak = 0, limit = 0;  // limit 0: none
};
DeviceMemoryUse memory_use(int device);
// What allocate_device() may hold of a device in all; 0: no limit.
void limit_memory(int device, std::int64_t bytes);
void release_device(void* pointer) noexcept;
void* allocate_pinned(std::size_t bytes);
void release_pinned(void* pointer) noexcept;

template <class T, bool kPinned>
class BasicBuffer {
 public:
  BasicBuffer() = default;
  explicit BasicBuffer(std::size_t count) : count_(count) {
    if (count == 0) return;
    if constexpr (kPinned) {
      data_ = static_cast<T*>(allocate_pinned(count * sizeof(T)));
    } else {
      int device = 0;
      CUDA_CHECK(cudaGetDevice(&device));
      data_ = static_cast<T*>(allocate_device(device, count * sizeof(T)));
    }
  }
  ~BasicBuffer() { reset(); }
  BasicBuffer(BasicBuffer&& o) noexcept
      : data_(std::exchange(o.data_, nullptr)), count_(std::exchange(o.count_, 0)) {}
  BasicBuffer& operator=(BasicBuffer&& o) noexcept {
    if (this != &o) {
      reset();
      data_ = std::exchange(o.data_, nullptr);
      count_ = std::exchange(o.count_, 0);
    }
    return *this;
  }
  void reset() noexcept {
    if constexpr (kPinned)
      release_pinned(data_);
    else
      release_device(data_);
    data_ = nullptr;
    count_ = 0;
  }
  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return count_; }
  std::size_t nbytes() const { return count_ * sizeof(T); }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};
template <class T>
using Buffer = BasicBuffer<T, false>;
template <class T>
using PinnedBuffer = BasicBuffer<T, true>;

template <class T>
void upload(Buffer<T>& to, const T* from, std::size_t count, cudaStream_t stream) {
  ENSURE(count <= to.size(), "upload: ", count, " elements into a buffer of ", to.size());
  if (count > 0)
    CUDA_CHECK(cudaMemcpyAsync(to.data(), from, count * sizeof(T), cudaMemcpyHostToDevice, stream));
}
template <class T>
void download(T* to, const Buffer<T>& from, std::size_t count, cudaStream_t stream) {
  ENSURE(count <= from.size(), "download: ", count, " elements from a buffer of ", from.size());
  if (count > 0)
    CUDA_CHECK(cudaMemcpyAsync(to, from.data(), count * sizeof(T), cudaMemcpyDeviceToHost, stream));
}

// Makes `device` current for a scope.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) {
    CUDA_CHECK(cudaGetDevice(&before_));
    if (device != before_) CUDA_CHECK(cudaSetDevice(device));
  }
  ~DeviceGuard() { (void)cudaSetDevice(before_); }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = 0;
};

// Facts of a device that configurations need; read once a process and device. Error when there is
// no such device.
struct DeviceInfo {
  int index = 0, major = 0, minor = 0, multiprocessors = 0;
  std::size_t shared_memory_per_block = 0, l2_bytes = 0;
  bool has_wgmma() const { return major == 9; }
};
const DeviceInfo& device_info(int device);
int device_count() noexcept;  // 0 where there is no driver

// Lets base::Tensor live on CUDA devices. Called by whatever library first needs it; repeated calls
// do nothing.
void register_memory();

}  // namespace base::cuda
