#include "sparseconv/executor.hpp"

#include <mutex>

#include "sparseconv/cuda/frame_runner.hpp"

namespace sparseconv {
namespace {

// Frames that run at the same time, from several threads, each have a runner with its own stream
// and memory. Frames beyond the bound of captured ones have runners of their own.
class CudaExecutor final : public Executor {
 public:
  CudaExecutor(const Plan& plan, const ExecutorOptions& options) : plan_(plan, options) {}

  void run(const FrameInput& input, FrameOutput& output) const override {
    with_runner(input.voxels.rows(), [&](cuda::FrameRunner& runner) { runner.run(input, output); });
  }

  bool run_clouds(std::span<const io::Cloud* const> clouds, FrameOutput& output,
                  CloudVoxels& voxels) const override {
    std::int64_t points = 0;
    for (const io::Cloud* cloud : clouds) points += cloud->size();
    constexpr std::int64_t kMaxPoints = std::int64_t{1} << 26;  // where slots are numbered safely
    if (!plan_.voxelize || points == 0 || points > kMaxPoints) return false;
    bool is_done = false;
    with_runner(points, [&](cuda::FrameRunner& runner) {
      is_done = runner.run_clouds(clouds, output, voxels);
    });
    return is_done;
  }

 private:
  using Runners = std::vector<std::unique_ptr<cuda::FrameRunner>>;

  // Where memory is short, that of idle runners is given back, and the frame tried once more.
  template <class Run>
  void with_runner(std::int64_t rows, const Run& run) const {
    const base::cuda::DeviceGuard device(plan_.device);
    Runners& idle = plan_.row_bound > 0 && rows > plan_.row_bound ? idle_large_ : idle_;
    try {
      run_once(idle, run);
    } catch (const base::cuda::OutOfMemory&) {
      forget_idle();
      run_once(idle, run);
    }
  }

  template <class Run>
  void run_once(Runners& idle, const Run& run) const {
    auto runner = take(idle);
    run(*runner);  // a runner that throws is not used again
    const std::lock_guard lock(mutex_);
    idle.push_back(std::move(runner));
  }

  std::unique_ptr<cuda::FrameRunner> take(Runners& idle) const {
    {
      const std::lock_guard lock(mutex_);
      if (!idle.empty()) {
        auto runner = std::move(idle.back());
        idle.pop_back();
        return runner;
      }
    }
    return std::make_unique<cuda::FrameRunner>(plan_);
  }

  void forget_idle() const {
    Runners freed;
    const std::lock_guard lock(mutex_);
    for (Runners* idle : {&idle_, &idle_large_}) {
      for (auto& runner : *idle) freed.push_back(std::move(runner));
      idle->clear();
    }
  }

  const cuda::DevicePlan plan_;
  mutable std::mutex mutex_;
  mutable Runners idle_, idle_large_;
};

}  // namespace

std::unique_ptr<Executor> make_cuda_executor(const Plan& plan, const ExecutorOptions& options) {
  ENSURE(base::cuda::device_count() > 0, "device ", base::to_string(options.device),
         ": no CUDA device was found");
  base::cuda::register_memory();
  (void)base::cuda::device_info(options.device.index);  // names the device where there is no such
  const base::cuda::DeviceGuard device(options.device.index);
  cuda::check_kernels_run_on(options.device.index);
  if (options.memory_limit > 0)
    base::cuda::limit_memory(options.device.index, options.memory_limit);
  return std::make_unique<CudaExecutor>(plan, options);
}

}  // namespace sparseconv
