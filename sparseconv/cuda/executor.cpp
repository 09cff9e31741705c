#include "sparseconv/executor.hpp"

#include <mutex>

#include "sparseconv/cuda/frame_runner.hpp"

namespace sparseconv {
namespace {

// Frames that run at the same time, from several threads, each have a runner with its own stream
// and memory.
class CudaExecutor final : public Executor {
 public:
  CudaExecutor(const Plan& plan, const ExecutorOptions& options) : plan_(plan, options) {}

  void run(const FrameInput& input, FrameOutput& output) const override {
    const base::cuda::DeviceGuard device(plan_.device);
    auto runner = take();
    runner->run(input, output);  // a runner that throws is not used again
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(runner));
  }

 private:
  std::unique_ptr<cuda::FrameRunner> take() const {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<cuda::FrameRunner>(plan_);
    auto runner = std::move(idle_.back());
    idle_.pop_back();
    return runner;
  }

  const cuda::DevicePlan plan_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<cuda::FrameRunner>> idle_;
};

}  // namespace

std::unique_ptr<Executor> make_cuda_executor(const Plan& plan, const ExecutorOptions& options) {
  ENSURE(base::cuda::device_count() > 0, "device ", base::to_string(options.device),
         ": no CUDA device was found");
  base::cuda::register_memory();
  (void)base::cuda::device_info(options.device.index);  // names the device where there is no such
  const base::cuda::DeviceGuard device(options.device.index);
  return std::make_unique<CudaExecutor>(plan, options);
}

}  // namespace sparseconv
