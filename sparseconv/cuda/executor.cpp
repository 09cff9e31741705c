#include "sparseconv/executor.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "sparseconv/cuda/frame_runner.hpp"
#include "sparseconv/cuda/narrow_check.hpp"
#include "sparseconv/devices.hpp"

namespace sparseconv {
namespace {

// Frames that run at the same time, from several threads, each have a runner with its own stream
// and memory. Frames beyond the bound of captured ones have runners of their own.
class CudaExecutor : public Executor {
 public:
  CudaExecutor(const Plan& plan, const ExecutorOptions& options,
               std::span<const float> largest = {})
      : plan_(plan, options, largest) {}

  void run(const FrameInput& input, FrameOutput& output) const override {
    with_runner(input.voxels.rows(), [&](cuda::FrameRunner& runner) { runner.run(input, output); });
  }

  // Of the runners that are idle.
  std::vector<float> largest_magnitudes() const {
    const std::lock_guard lock(mutex_);
    std::vector<float> largest(plan_.plan.steps.size(), 0.f);
    for (const Runners* idle : {&idle_, &idle_large_}) {
      for (const auto& runner : *idle) {
        const auto of_runner = runner->largest_magnitudes();
        std::transform(of_runner.begin(), of_runner.end(), largest.begin(), largest.begin(),
                       [](float a, float b) { return std::max(a, b); });
      }
    }
    return largest;
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

  // Gives back the memory of runners that are idle.
  void forget_idle() const {
    Runners freed;
    const std::lock_guard lock(mutex_);
    for (Runners* idle : {&idle_, &idle_large_}) {
      for (auto& runner : *idle) freed.push_back(std::move(runner));
      idle->clear();
    }
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

  const cuda::DevicePlan plan_;
  mutable std::mutex mutex_;
  mutable Runners idle_, idle_large_;
};

// 8-bit inference: the first frame that has rows runs in f16 to learn the magnitudes of all values,
// then in 8 bits beside those results, which must be close (check_narrow), then as all later ones.
class NarrowExecutor final : public Executor {
 public:
  NarrowExecutor(const Plan& plan, const ExecutorOptions& options)
      : plan_(plan),
        options_(options),
        calibration_(options.calibration ? options.calibration : std::make_shared<Calibration>()),
        wide_(std::make_unique<CudaExecutor>(plan_, options)) {}

  void run(const FrameInput& input, FrameOutput& output) const override {
    executor_for([&](const Executor& executor, FrameOutput& first) {
      executor.run(input, first);
      return true;
    }).run(input, output);
  }

  bool run_clouds(std::span<const io::Cloud* const> clouds, FrameOutput& output,
                  CloudVoxels& voxels) const override {
    return executor_for([&](const Executor& executor, FrameOutput& first) {
             CloudVoxels ignored;
             return executor.run_clouds(clouds, first, ignored);
           })
        .run_clouds(clouds, output, voxels);
  }

 private:
  // The one in 8 bits; that in f16 where `run_first` ran nothing or a frame of zeros.
  template <class RunFirst>
  const Executor& executor_for(const RunFirst& run_first) const {
    if (const Executor* ready = ready_.load()) return *ready;
    const std::lock_guard lock(calibration_->mutex);
    if (const Executor* ready = ready_.load()) return *ready;
    const base::cuda::DeviceGuard device(options_.device.index);
    FrameOutput wanted;
    std::vector<float> largest = calibration_->largest;
    const bool is_first = largest.empty();
    if (is_first) {
      if (!run_first(*wide_, wanted)) return *wide_;
      largest = wide_->largest_magnitudes();
      if (*std::max_element(largest.begin(), largest.end()) == 0) return *wide_;
    }
    wide_->forget_idle();
    auto narrow = std::make_unique<CudaExecutor>(plan_, options_, largest);
    if (is_first) {
      FrameOutput got;
      if (!run_first(*narrow, got)) return *wide_;
      cuda::check_narrow(wanted, got, base::name(options_.dtype));
      calibration_->largest = std::move(largest);
    }
    narrow_ = std::move(narrow);
    ready_.store(narrow_.get());
    return *narrow_;
  }

  const Plan plan_;  // holds on to the weights
  const ExecutorOptions options_;
  const std::shared_ptr<Calibration> calibration_;
  const std::unique_ptr<CudaExecutor> wide_;
  mutable std::unique_ptr<CudaExecutor> narrow_;
  mutable std::atomic<const Executor*> ready_{nullptr};
};

}  // namespace

void wake_device(base::Device device) {
  if (device.is_cpu()) return;
  ENSURE(base::cuda::device_count() > 0, "device ", base::to_string(device),
         ": no CUDA device was found");
  const base::cuda::DeviceGuard guard(device.index);
  CUDA_CHECK(cudaFree(nullptr));
}

std::unique_ptr<Executor> make_cuda_executor(const Plan& plan, const ExecutorOptions& options) {
  ENSURE(base::cuda::device_count() > 0, "device ", base::to_string(options.device),
         ": no CUDA device was found");
  base::cuda::register_memory();
  (void)base::cuda::device_info(options.device.index);  // names the device where there is no such
  const base::cuda::DeviceGuard device(options.device.index);
  cuda::check_kernels_run_on(options.device.index);
  if (options.memory_limit > 0)
    base::cuda::limit_memory(options.device.index, options.memory_limit);
  if (gemm_core::cuda::is_eight_bit(options.dtype)) {
    const auto& info = base::cuda::device_info(options.device.index);
    ENSURE(info.has_wgmma(), "device ", base::to_string(options.device), " is sm_", info.major,
           info.minor, ": ", base::name(options.dtype), " needs sm_90");
    ENSURE(!plan.steps.empty(), base::name(options.dtype), ": the plan has no steps");
    return std::make_unique<NarrowExecutor>(plan, options);
  }
  return std::make_unique<CudaExecutor>(plan, options);
}

}  // namespace sparseconv
