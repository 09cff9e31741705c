// Runs frames of one plan on one stream: memory, maps and launches are prepared for a shape (row
// bounds, batch size, spatial shape) and captured as one graph, so that a frame of that shape or
// smaller is copies in, one launch, copies out and one synchronisation. Not for several threads at
// a time.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "sparseconv/cuda/device_plan.hpp"
#include "sparseconv/cuda/maps/frame_maps.hpp"
#include "sparseconv/cuda/plan_sets.hpp"
#include "sparseconv/cuda/point_kernels.hpp"
#include "sparseconv/cuda/product_tables.hpp"
#include "sparseconv/cuda/step_kernels.hpp"
#include "sparseconv/cuda/voxels/voxelizer.hpp"

namespace sparseconv::cuda {

// What preparations depend on.
struct FrameShape {
  std::vector<std::int64_t> rows;  // bound of each level
  std::int64_t points = 0;         // bound, where frames have points
  std::int32_t batch_size = 1;
  std::optional<SpatialShape> spatial_shape;
  bool is_sorted = true;
  bool has_points = false;
  bool is_cloud = false;    // voxelised on the device
  bool is_captured = true;  // as a graph
  base::DType features = base::DType::f32;
};

// A frame as the host knows it.
struct FrameFacts {
  std::int64_t rows = 0, points = 0;  // rows: a bound where the device voxelises
  std::int32_t batch_size = 1;
  std::optional<SpatialShape> spatial_shape;
  CoordinatesPtr coordinates;  // null where the device voxelises
  bool has_points = false;
  base::DType features = base::DType::f32;
};

class FrameRunner {
 public:
  explicit FrameRunner(const DevicePlan& device_plan);
  void run(const FrameInput& input, FrameOutput& output);
  // Executor::run_clouds.
  bool run_clouds(std::span<const io::Cloud* const> clouds, FrameOutput& output,
                  CloudVoxels& voxels);
  // Of each step's output in the frames that ran, where the plan measures them.
  std::vector<float> largest_magnitudes() const;

 private:
  // Where an output goes before it leaves the device.
  struct OutputMemory {
    base::cuda::Buffer<float> device;
    base::cuda::PinnedBuffer<float> host;
    base::cuda::PinnedBuffer<Key> keys;  // of sparse outputs on derived levels
  };
  using Launch = std::function<void(cudaStream_t)>;

  // frame_runner.cpp
  // Runs `upload` and the frame, again with more room where a bound was exceeded; sizes of the
  // sets.
  FrameMaps::Sizes run_frame(const FrameFacts& facts, const std::function<void()>& upload,
                             FrameOutput& output);
  FrameMaps::Sizes enqueue(const FrameFacts& facts, FrameOutput& output);
  void launch_maps(cudaStream_t stream);
  void launch_input(cudaStream_t stream);
  void launch_outputs(cudaStream_t stream);
  void launch_frame(const FrameFacts& facts, FrameOutput& output);
  FrameShape shape_for(const FrameFacts& facts) const;
  void learn(const FrameMaps::Sizes& sizes);
  void tighten();
  bool is_prepared_for(const FrameShape& shape) const;
  std::optional<SpatialShape> shape_of_level(int level) const {
    return spatial_shape_of(plan_, level, shape_.spatial_shape);
  }

  // frame_copies.cpp
  void copy_in(const FrameInput& input);
  void copy_out(const FrameFacts& facts);
  void collect(const FrameFacts& facts, const FrameMaps::Sizes& sizes, FrameOutput& output) const;
  Output collect_output(std::size_t index, const FrameFacts& facts,
                        const FrameMaps::Sizes& sizes) const;
  std::int64_t label_rows(const FrameFacts& facts) const;
  void collect_voxels(std::span<const io::Cloud* const> clouds,
                      const DeviceVoxelizer::Outcome& outcome, CloudVoxels& voxels) const;

  // frame_prepare.cpp
  void prepare(const FrameShape& shape);
  void prepare_memory(const std::vector<gemm_core::cuda::LayerChoice>& choices);
  void prepare_outputs();

  // layer_choice.cpp
  std::vector<gemm_core::cuda::LayerChoice> choose_layers() const;
  bool suits_tiles(const PlanStep& step) const;
  FrameSpec make_spec(const std::vector<gemm_core::cuda::LayerChoice>& choices);

  // frame_steps.cpp
  Launch prepare_step(std::size_t index, const gemm_core::cuda::LayerChoice& choice);
  Launch prepare_convolution(std::size_t index, const gemm_core::cuda::LayerChoice& choice);
  Launch measured(std::size_t index, Launch launch);
  Launch prepare_merge(std::size_t index);
  Launch prepare_devoxelize(std::size_t index);
  base::TensorView view(const PlanSlice& slice, std::int64_t channels = 0) const;
  Destination destination(const PlanSlice& slice) const;
  gemm_core::Epilogue epilogue(std::size_t step) const;
  RowCount rows_of(int level) const;
  RowCount points() const;
  PointRows point_rows() const;
  LevelRowsView level_view(int level) const;

  bool gives_labels() const { return device_plan_.label_output >= 0; }

  const DevicePlan& device_plan_;
  const Plan& plan_;
  const Plan bytes_plan_;  // for the placement of buffers
  base::cuda::Stream stream_;
  base::cuda::Event begin_, after_maps_, after_network_;

  FrameShape shape_;
  bool is_prepared_ = false;
  RowBounds bounds_{plan_};
  bool is_roomy_ = false;  // bounds are far above what earlier frames had
  std::optional<FrameMaps> maps_;
  std::int32_t maps_batch_size_ = 0;
  std::optional<DeviceVoxelizer> voxelizer_;
  Placement placement_;
  base::cuda::Buffer<std::uint8_t> arena_, padded_input_;
  base::cuda::Buffer<float> partials_, largest_;
  ProductTables tables_;
  base::cuda::Buffer<Blend> blends_;  // of one step at a time
  std::vector<Launch> steps_;
  base::cuda::Graph frame_;    // all of a frame between its copies
  base::cuda::Graph network_;  // the same without maps, where they are kept
  CoordinatesPtr cached_;      // whose maps stand on the device, where they are kept
  std::vector<OutputMemory> outputs_;
  // Of results, which come back here when their owner lets go of them: fresh pages cost more than
  // the copy.
  base::BlockCachePtr results_ = std::make_shared<base::BlockCache>();
  base::cuda::Buffer<std::uint16_t> classes_;
  base::cuda::PinnedBuffer<std::uint16_t> host_classes_;

  // A frame's own numbers and values, on the device and staged for it.
  base::cuda::Buffer<std::int32_t> sizes_;  // rows of the input, points
  base::cuda::PinnedBuffer<std::int32_t> host_sizes_;
  base::cuda::Buffer<std::uint8_t> features_;
  base::cuda::PinnedBuffer<std::uint8_t> host_features_;
  base::cuda::PinnedBuffer<Key> host_keys_;
  base::cuda::Buffer<Key> row_keys_;  // of the input by row, where it is not sorted and that counts
  base::cuda::Buffer<std::int32_t> point_rows_;
  base::cuda::PinnedBuffer<std::int32_t> host_point_rows_;
  base::cuda::Buffer<double> positions_;
  base::cuda::PinnedBuffer<double> host_positions_;
  base::cuda::Buffer<std::int32_t> batch_rows_;  // voxels of each cloud
  base::cuda::PinnedBuffer<std::int32_t> host_batch_rows_;
  base::cuda::Buffer<std::int32_t> mismatches_;  // of each level check
  // Of the maps, then mismatches, then of the voxelizer.
  base::cuda::PinnedBuffer<std::int32_t> host_status_;
};

}  // namespace sparseconv::cuda
