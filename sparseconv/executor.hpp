// Runs a plan on one device. One executor serves one model; `run` may be called from several
// threads.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/cloud.hpp"
#include "sparseconv/plan.hpp"
#include "sparseconv/result.hpp"
#include "sparseconv/voxelize.hpp"

namespace sparseconv {

// Largest magnitude of each step's output in the first frame that has rows. 8-bit executors take
// their scales from it; those that share it have equal ones.
struct Calibration {
  std::mutex mutex;
  std::vector<float> largest;  // empty: no frame came yet
};

struct ExecutorOptions {
  base::Device device;
  // f32, tf32, f16, bf16: storage and products; sums are f32. e4m3 and i8, CUDA only: convolutions
  // multiply 8 bits where their neighbours allow it, everything else is f16.
  base::DType dtype = base::DType::f32;
  std::shared_ptr<Calibration> calibration;  // of 8 bits; null: the executor's own
  bool cache_maps = false;
  // What a device may do instead of the host: voxelise clouds, and give the largest channel of the
  // output that labels come from (an index into Plan::outputs; -1: outputs are wanted instead).
  std::optional<VoxelizeOptions> voxelize;
  int label_output = -1;
  // Rows of the input that a captured frame has room for; larger frames run uncaptured, with a
  // warning. 0: as the frames that come need.
  std::int64_t row_bound = 0;
  std::int64_t memory_limit = 0;  // bytes of the device that the process may hold; 0: no limit
  // Where coordinates, maps and outputs on the CPU get their memory; null: each executor has its
  // own.
  base::BlockCachePtr memory = nullptr;
};

inline constexpr std::uint16_t kNoClass = 0xffff;

struct FrameInput {
  SparseTensor voxels;  // CPU; f32 or f16
  // Points of devoxelize: the row of the voxel that each lies in (-1: none), and where it lies, in
  // centre coordinates of the input's cells: (position - origin) / voxel_size - 0.5. Without points
  // every voxel counts as one, at its centre.
  bool has_points = false;
  std::span<const std::int64_t> point_rows;
  std::span<const std::array<double, 3>> point_positions;  // may be empty where the plan needs none
  std::int64_t points() const {
    return has_points ? static_cast<std::int64_t>(point_rows.size()) : voxels.rows();
  }
};

struct FrameOutput {
  std::vector<Output> outputs;
  RunTiming timing;  // maps and network
  RunMemory memory;
  std::vector<std::string> warnings;
  // Instead of `outputs`, where the executor was asked for labels and gives them: the largest
  // channel of each point (of each voxel where the frame has no points), kNoClass where a point
  // became no voxel.
  std::optional<std::vector<std::uint16_t>> classes;
  // Called after each step where it is set, with the step's index: for profiles.
  std::function<void(std::size_t)> after_step;
};

// What run_clouds() says of the voxels it made; as Voxels.
struct CloudVoxels {
  CoordinatesPtr coordinates;                 // null where labels were asked for
  base::Buffer<std::int64_t> point_to_voxel;  // empty where labels were asked for
  std::vector<std::int64_t> rows_of_cloud, dropped_of_cloud;
  std::vector<std::array<double, 3>> origins;  // of each cloud; empty: as asked for
  std::vector<std::string> warnings;
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual void run(const FrameInput& input, FrameOutput& output) const = 0;
  // Clouds as they are, voxelised where the network runs. False where the caller must voxelise this
  // batch itself: the executor does not, or voxelize() has something to say that only it can.
  virtual bool run_clouds(std::span<const io::Cloud* const> /*clouds*/, FrameOutput& /*output*/,
                          CloudVoxels& /*voxels*/) const {
    return false;
  }
};

// `plan` and the weights it shares stay alive as long as the executor.
std::unique_ptr<Executor> make_executor(const Plan& plan, const ExecutorOptions& options);
std::unique_ptr<Executor> make_cpu_executor(const Plan& plan, const ExecutorOptions& options);
// Error in a build without CUDA (no_cuda.cpp).
std::unique_ptr<Executor> make_cuda_executor(const Plan& plan, const ExecutorOptions& options);

}  // namespace sparseconv
