// Runs a plan on one device. One executor serves one model; `run` may be called from several
// threads.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "sparseconv/plan.hpp"
#include "sparseconv/result.hpp"

namespace sparseconv {

struct ExecutorOptions {
  base::Device device;
  base::DType dtype = base::DType::f32;  // f32, tf32, f16, bf16: storage and products; sums are f32
  bool cache_maps = false;
};

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
  // Called after each step where it is set, with the step's index: for profiles.
  std::function<void(std::size_t)> after_step;
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual void run(const FrameInput& input, FrameOutput& output) const = 0;
};

// `plan` and the weights it shares stay alive as long as the executor.
std::unique_ptr<Executor> make_executor(const Plan& plan, const ExecutorOptions& options);
std::unique_ptr<Executor> make_cpu_executor(const Plan& plan, const ExecutorOptions& options);
// Error in a build without CUDA (no_cuda.cpp).
std::unique_ptr<Executor> make_cuda_executor(const Plan& plan, const ExecutorOptions& options);

}  // namespace sparseconv
