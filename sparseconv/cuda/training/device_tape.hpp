// Forward and backward pass of a model on a CUDA device: the same training plan as the tape on the
// CPU (training/tape.hpp), launches instead of calls. Gradients are stored as values are (f16 ones
// want a scaled loss); those of parameters are fp32, and all parameters stand in flat arrays.
//
//   for (bool is_done = false; !is_done; is_done = tape.finish()) {
//     tape.begin(input);              // memory, copies to the device, maps, forward pass
//     ... enqueue what writes d loss / d output to tape.output_gradient(0) ...
//     tape.backward();
//   }                                 // finish() waits; false: a bound was too small, start again
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "gemm_core/device/cuda/gather/pack_weights.hpp"
#include "gemm_core/device/cuda/gather/pair_lists.hpp"
#include "gemm_core/device/cuda/gather/weight_gradient.hpp"
#include "sparseconv/cuda/maps/frame_maps.hpp"
#include "sparseconv/cuda/plan_sets.hpp"
#include "sparseconv/cuda/point_kernels.hpp"
#include "sparseconv/cuda/product_tables.hpp"
#include "sparseconv/cuda/training/norm_kernels.hpp"
#include "sparseconv/cuda/training/update_kernels.hpp"
#include "sparseconv/training/tape.hpp"

namespace sparseconv::cuda {

class DeviceTape {
 public:
  // Error naming the node for what the backend lacks.
  DeviceTape(const Model& model, const training::TapeOptions& options, int device);

  // Everything is enqueued on this stream.
  cudaStream_t stream() const { return stream_.get(); }
  void begin(const FrameInput& input);
  void backward();
  bool finish();

  const Plan& plan() const { return plan_; }
  base::DType storage() const { return storage_; }
  // Of the plan's outputs, sparse ones: alive until begin().
  base::ConstTensorView output(std::size_t index) const;
  base::TensorView output_gradient(std::size_t index) const;  // zero after begin()
  RowCount output_rows(std::size_t index) const;
  base::ConstTensorView input_gradient() const;  // where asked for
  RowCount input_rows() const { return rows_of(0); }
  float* dense_output(std::size_t index);           // [N, C*D, H, W] of to_dense
  float* dense_output_gradient(std::size_t index);  // zero after begin()
  std::size_t dense_size(std::size_t index) const { return dense_[index].values.size(); }

  // As training::Parameters on the host, which says where each parameter is.
  base::cuda::Buffer<float>& values() { return values_; }
  base::cuda::Buffer<float>& gradients() { return gradients_; }
  base::cuda::Buffer<float>& statistics() { return statistics_; }
  // running = (1 - momentum) running + momentum batch, as training::Tape.
  void update_statistics();

  // Of the frame that finish() waited for, on the device; forward without maps, backward with
  // whatever was enqueued after it.
  double maps_ms() const { return maps_ms_; }
  double forward_ms() const { return forward_ms_; }
  double backward_ms() const { return backward_ms_; }
  // Called after each launch where it is set, with what it does and for which node: for profiles.
  std::function<void(const char* what, const std::string& node)> after_launch;
  std::int64_t nbytes() const;  // of activations and gradients

 private:
  // Steps of the backward pass for which the gradient of a convolution's weights may still run.
  static constexpr int kBeside = 2;
  using Launch = std::function<void(cudaStream_t)>;
  struct NamedLaunch {
    const char* what;
    std::size_t step;
    Launch run;
    bool is_beside = false;  // on the second stream, while later steps run
  };
  // Of a convolution step.
  struct Product {
    gemm_core::cuda::ConvWeights forward, backward;
    gemm_core::cuda::LayerChoice forward_choice, backward_choice;
    std::int64_t cin = 0, cout = 0;  // computed: rounded up where the buffers have room
    int back_map = -1;               // of the gradient of the input
    bool has_input_gradient = false, is_mirrored = false;
  };
  // Offsets into the flat arrays, -1 where a step has no such parameter.
  struct Offsets {
    std::int64_t weight = -1, bias = -1, running_mean = -1, running_variance = -1;
    std::int64_t vectors = -1;  // batch norm: in norm_vectors_
    double eps = 0;
  };
  struct Shape {
    std::vector<std::int64_t> rows;  // bound of each level
    std::int32_t batch_size = 1;
    std::optional<SpatialShape> spatial_shape;
    bool is_sorted = true;
    base::DType features = base::DType::f32;
  };
  struct Dense {
    base::cuda::Buffer<float> values, gradients;
  };

  // device_tape.cpp
  void place_parameters(const Model& model);
  void pad_buffers();
  void choose_products();
  void choose_back_maps();
  FrameSpec make_spec();
  void pack_products();
  bool is_aligned(const PlanSlice& slice) const;
  bool has_simple_epilogue(const PlanStep& step) const;

  // device_tape_frame.cpp
  Shape shape_for(const FrameInput& input) const;
  bool is_prepared_for(const Shape& shape) const;
  void prepare(const Shape& shape);
  void tighten();
  void prepare_pairs();
  void prepare_scratch();
  void run_all(const std::vector<NamedLaunch>& launches);
  void run_beside(const std::vector<NamedLaunch>& launches);
  void fork(const base::cuda::Event& event) const;
  void join(const base::cuda::Event& event) const;
  void prepare_dense();
  void copy_keys(const FrameInput& input);
  void copy_features(const FrameInput& input);
  void load_features();
  void launch_maps();
  void launch_forward();
  void check_levels(const FrameMaps::Sizes& sizes) const;
  base::TensorView view(const PlanSlice& slice, std::int64_t channels = 0) const;
  // A value in the backward pass.
  base::TensorView kept(const PlanSlice& slice, std::int64_t channels = 0) const {
    return view(planned_.kept(slice), channels);
  }
  RowCount rows_of(int level) const;
  LevelRowsView level_view(int level) const;
  bool rounds() const { return options_.dtype == base::DType::tf32; }

  void add_forward(const char* what, Launch launch) {
    forward_.push_back({what, step_, std::move(launch)});
  }
  void add_backward(const char* what, Launch launch) {
    backward_.push_back({what, step_, std::move(launch)});
  }
  // What writes parameters' gradients alone.
  void add_beside(const char* what, Launch launch) {
    backward_.push_back({what, step_, std::move(launch), true});
  }

  // device_tape_forward.cpp
  void prepare_forward(std::size_t index);
  void prepare_convolution(std::size_t index);
  void prepare_pool(std::size_t index);
  BlendArguments blend_arguments(std::size_t index) const;
  Launch convolution(const gemm_core::cuda::GatherConvArguments& arguments,
                     const gemm_core::cuda::LayerChoice& choice, int map, int level);
  RowEpilogue row_epilogue(std::size_t index) const;
  NormVectors norm_vectors(std::size_t index);

  // device_tape_backward.cpp
  void prepare_backward(std::size_t index);
  void prepare_convolution_back(std::size_t index);
  gemm_core::cuda::WeightGradientArguments weight_gradient(std::size_t index);
  void prepare_norm_back(std::size_t index, const EpilogueGradient& epilogue);
  void prepare_move_back(std::size_t index);
  EpilogueGradient epilogue_gradient(std::size_t index);
  bool prepare_target(const training::GradientWrite& write, GradientTarget& target);
  void prepare_recomputed(int buffer);

  training::TapeOptions options_;
  int device_;
  base::DType storage_;  // of values and gradients
  training::TrainingPlan planned_;
  Plan& plan_;  // of planned_, its buffers padded to whole chunks of 16 bytes
  std::vector<std::int64_t> channels_;  // of each buffer before that
  std::vector<PlanMap> all_maps_;       // the plan's, then inverses of the backward pass
  std::vector<int> set_of_level_, levels_of_sets_;
  std::vector<Product> products_;  // of a step
  std::vector<Offsets> offsets_;   // of a step
  base::cuda::Buffer<float> values_, gradients_, statistics_, norm_vectors_;
  base::cuda::Buffer<double> batch_;  // mean and variance of the batch, where running ones stand
  std::vector<RunningJob> running_;
  base::cuda::Buffer<RunningJob> running_jobs_;
  gemm_core::cuda::WeightPacker packer_;

  base::cuda::Stream stream_, beside_;            // beside_: of lower priority
  std::vector<base::cuda::Event> forks_, joins_;  // of launches beside others, in their order
  base::cuda::Event begin_, after_maps_, after_forward_, after_backward_;
  Shape shape_;
  bool is_prepared_ = false, is_roomy_ = false;  // roomy: bounds are far above what frames need
  RowBounds bounds_{plan_};
  std::optional<FrameMaps> maps_;
  ProductTables tables_;
  std::vector<gemm_core::cuda::PairListJob> pair_jobs_;
  std::vector<int> pairs_of_map_;      // index of a job; -1: none
  std::map<int, int> pairs_of_level_;  // of one tap that reads its own row
  std::vector<base::cuda::Buffer<std::int32_t>> pair_memory_;
  Placement placement_;
  base::cuda::Buffer<std::uint8_t> arena_, features_;
  base::cuda::Buffer<float> partials_, pieces_;
  base::cuda::Buffer<double> sums_;
  base::cuda::Buffer<std::int32_t> winners_;
  base::cuda::Buffer<Blend> blends_;         // of one step at a time
  base::cuda::Buffer<std::int64_t> shares_;  // blend_gradient()
  base::cuda::Buffer<Key> row_keys_;         // of unsorted input, where blends ask for them
  std::vector<NamedLaunch> forward_, backward_;
  std::size_t step_ = 0;  // that is being prepared
  // Of a size of frames.
  base::cuda::Graph maps_graph_, forward_graph_, backward_graph_;
  std::vector<Dense> dense_;  // of an output
  base::cuda::PinnedBuffer<std::uint8_t> host_features_;
  base::cuda::PinnedBuffer<Key> host_keys_;
  base::cuda::Buffer<std::int32_t> row_count_, mismatches_;
  base::cuda::PinnedBuffer<std::int32_t> host_row_count_, host_status_;
  double maps_ms_ = 0, forward_ms_ = 0, backward_ms_ = 0;
};

}  // namespace sparseconv::cuda
