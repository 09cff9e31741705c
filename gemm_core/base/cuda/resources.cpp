#include "gemm_core/base/cuda/resources.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "gemm_core/base/tensor.hpp"

namespace base::cuda {
namespace {
constexpr std::size_t kMaxDevices = 64;
}

float elapsed_ms(const Event& begin, const Event& end) {
  float ms = 0;
  CUDA_CHECK(cudaEventElapsedTime(&ms, begin.get(), end.get()));
  return ms;
}

Graph Graph::capture(cudaStream_t stream, const std::function<void()>& work) {
  CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t graph{};
  try {
    work();
  } catch (...) {
    (void)cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    throw;
  }
  CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t executable{};
  const cudaError_t error = cudaGraphInstantiate(&executable, graph, 0);
  (void)cudaGraphDestroy(graph);
  CUDA_CHECK(error);
  return Graph(executable);
}

namespace {

// What is held of every device, and where.
struct Ledger {
  std::mutex mutex;
  std::unordered_map<void*, std::pair<int, std::int64_t>> blocks;
  std::array<DeviceMemoryUse, kMaxDevices> use;
};
Ledger& ledger() {
  static auto* const ledger = new Ledger;  // outlives what static objects hold
  return *ledger;
}

void reserve(int device, std::int64_t bytes) {
  const std::scoped_lock lock(ledger().mutex);
  DeviceMemoryUse& use = ledger().use.at(static_cast<std::size_t>(device));
  if (use.limit > 0 && use.held + bytes > use.limit) {
    throw OutOfMemory(concat("out of memory: cuda:", device, " shall give ", bytes, " bytes; ",
                             std::max<std::int64_t>(0, use.limit - use.held), " of the limit of ",
                             use.limit, " are left"));
  }
  use.held += bytes;
  use.peak = std::max(use.peak, use.held);
}

void give_back(int device, std::int64_t bytes) {
  const std::scoped_lock lock(ledger().mutex);
  ledger().use.at(static_cast<std::size_t>(device)).held -= bytes;
}

}  // namespace

void* allocate_device(int device, std::size_t size) {
  const DeviceGuard guard(device);
  const auto bytes = static_cast<std::int64_t>(size);
  reserve(device, bytes);
  void* pointer = nullptr;
  const cudaError_t error = cudaMalloc(&pointer, size);
  if (error != cudaSuccess) give_back(device, bytes);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    std::size_t free = 0, total = 0;
    (void)cudaMemGetInfo(&free, &total);
    throw OutOfMemory(concat("out of memory: cuda:", device, " cannot give ", bytes, " bytes; ",
                             free, " of ", total, " are free"));
  }
  CUDA_CHECK(error);
  const std::scoped_lock lock(ledger().mutex);
  ledger().blocks[pointer] = {device, bytes};
  return pointer;
}
void release_device(void* pointer) noexcept {
  if (pointer == nullptr) return;
  (void)cudaFree(pointer);
  const std::scoped_lock lock(ledger().mutex);
  const auto block = ledger().blocks.find(pointer);
  if (block == ledger().blocks.end()) return;
  ledger().use[static_cast<std::size_t>(block->second.first)].held -= block->second.second;
  ledger().blocks.erase(block);
}

DeviceMemoryUse memory_use(int device) {
  const std::scoped_lock lock(ledger().mutex);
  return ledger().use.at(static_cast<std::size_t>(device));
}
void limit_memory(int device, std::int64_t bytes) {
  ENSURE(bytes >= 0, "memory limit of cuda:", device, ": ", bytes, " bytes");
  const std::scoped_lock lock(ledger().mutex);
  ledger().use.at(static_cast<std::size_t>(device)).limit = bytes;
}

void* allocate_pinned(std::size_t bytes) {
  void* pointer = nullptr;
  CUDA_CHECK(cudaMallocHost(&pointer, bytes));
  return pointer;
}
void release_pinned(void* pointer) noexcept {
  if (pointer != nullptr) (void)cudaFreeHost(pointer);
}

int device_count() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  return count;
}

const DeviceInfo& device_info(int device) {
  static std::mutex mutex;
  static std::array<std::unique_ptr<DeviceInfo>, kMaxDevices> known;
  const int count = device_count();
  ENSURE(device >= 0 && device < count, "device cuda:", device, ": this machine has ", count,
         " CUDA devices");
  ENSURE(device < static_cast<int>(known.size()), "device cuda:", device, ": at most ",
         known.size(), " devices are supported");
  const std::scoped_lock lock(mutex);
  auto& entry = known[static_cast<std::size_t>(device)];
  if (!entry) {
    cudaDeviceProp p{};
    CUDA_CHECK(cudaGetDeviceProperties(&p, device));
    entry = std::make_unique<DeviceInfo>(DeviceInfo{device, p.major, p.minor, p.multiProcessorCount,
                                                    p.sharedMemPerBlockOptin,
                                                    static_cast<std::size_t>(p.l2CacheSize)});
  }
  return *entry;
}

void register_memory() {
  static std::once_flag once;
  std::call_once(once, [] {
    DeviceMemory memory{};
    memory.allocate = [](int device, std::size_t bytes) { return allocate_device(device, bytes); };
    memory.release = [](int, void* pointer) { release_device(pointer); };
    memory.copy = [](void* to, Device, const void* from, Device, std::size_t bytes) {
      CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
    };
    memory.fill_zero = [](int device, void* pointer, std::size_t bytes) {
      const DeviceGuard guard(device);
      CUDA_CHECK(cudaMemset(pointer, 0, bytes));
      CUDA_CHECK(cudaDeviceSynchronize());  // Tensor::zeros may be read on any stream next
    };
    register_device_memory(Device::Kind::cuda, memory);
  });
}

}  // namespace base::cuda
