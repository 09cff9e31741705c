// Runs frames of one plan on one stream: memory, maps and launches are prepared for a shape (row
// bounds, batch size, spatial shape), and a frame of that shape or smaller then only copies and
// launches, with one synchronisation at its end. Not for several threads at a time.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "gemm_core/device/cuda/tile_schedule.hpp"
#include "sparseconv/cuda/device_plan.hpp"
#include "sparseconv/cuda/frame_maps.hpp"
#include "sparseconv/cuda/step_kernels.hpp"

namespace sparseconv::cuda {

// What preparations depend on.
struct FrameShape {
  std::vector<std::int64_t> rows;  // bound of each level
  std::int32_t batch_size = 1;
  std::optional<SpatialShape> spatial_shape;
  bool is_sorted = true;
};

class FrameRunner {
 public:
  explicit FrameRunner(const DevicePlan& device_plan);
  void run(const FrameInput& input, FrameOutput& output);

 private:
  // Where an output goes before it leaves the device.
  struct OutputMemory {
    base::cuda::Buffer<float> device;
    base::cuda::PinnedBuffer<float> host;
    base::cuda::PinnedBuffer<Key> keys;  // of sparse outputs on derived levels
  };
  using Launch = std::function<void(cudaStream_t)>;

  // frame_runner.cpp
  // The frame from host to host; `output` is filled unless a bound was exceeded.
  FrameMaps::Sizes enqueue(const FrameInput& input, FrameOutput& output);
  void copy_in(const FrameInput& input);
  void copy_out(std::int64_t input_rows, std::int64_t points);
  void collect(const FrameInput& input, const FrameMaps::Sizes& sizes, FrameOutput& output) const;
  FrameShape shape_for(const FrameInput& input) const;
  bool is_prepared_for(const FrameShape& shape) const;
  std::optional<SpatialShape> spatial_shape_of(int level) const;

  // frame_prepare.cpp
  void prepare(const FrameShape& shape);
  std::vector<gemm_core::cuda::LayerChoice> choose_layers() const;
  bool suits_matrix_cores(const PlanStep& step) const;
  std::int64_t nominal_rows(int level) const;
  FrameSpec make_spec(const std::vector<gemm_core::cuda::LayerChoice>& choices);
  void prepare_schedules(const std::vector<gemm_core::cuda::LayerChoice>& choices);
  gemm_core::TileSchedule schedule(const gemm_core::GatherTable& table,
                                   gemm_core::cuda::TilePart part,
                                   const gemm_core::cuda::Sm90Instance& instance,
                                   std::int64_t cout);
  void prepare_identity(int level);
  void prepare_outputs();
  Launch prepare_step(std::size_t index, const gemm_core::cuda::LayerChoice& choice);
  Launch prepare_convolution(std::size_t index, const gemm_core::cuda::LayerChoice& choice);

  base::TensorView view(const PlanSlice& slice, std::int64_t channels = 0) const;
  Destination destination(const PlanSlice& slice) const;
  gemm_core::Epilogue epilogue(std::size_t step) const;
  RowCount rows_of(int level) const;
  LevelRowsView level_view(int level) const;

  const DevicePlan& device_plan_;
  const Plan& plan_;
  base::cuda::Stream stream_;
  base::cuda::Event begin_, after_maps_, after_network_;

  FrameShape shape_;
  bool is_prepared_ = false;
  std::optional<FrameMaps> maps_;
  Placement placement_;
  base::cuda::Buffer<std::uint8_t> arena_, padded_input_;
  base::cuda::Buffer<float> partials_;
  std::vector<gemm_core::cuda::TileScheduleJob> schedule_jobs_;
  std::vector<base::cuda::Buffer<gemm_core::TileRecord>> records_;
  std::vector<base::cuda::Buffer<std::int32_t>> schedule_scratch_;
  std::map<int, IdentityTable> identities_;  // of levels
  std::vector<base::cuda::Buffer<std::int32_t>> identity_memory_;
  std::vector<Launch> steps_;
  base::cuda::Graph network_;  // all steps: one launch a frame instead of one a layer
  std::vector<OutputMemory> outputs_;

  base::cuda::Buffer<std::uint8_t> features_;
  base::cuda::PinnedBuffer<std::uint8_t> host_features_;
  base::cuda::PinnedBuffer<Key> host_keys_;
  base::cuda::Buffer<std::int64_t> point_rows_;
  base::cuda::Buffer<std::int32_t> mismatches_;         // of each level check
  base::cuda::PinnedBuffer<std::int32_t> host_status_;  // of the maps, then mismatches
};

}  // namespace sparseconv::cuda
