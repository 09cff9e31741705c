// Forward and backward pass of a model on one device: what a training loop with a loss of its own
// is written with. The Trainer uses it for labels.
//
//   Tape tape(model);
//   tape.forward({.voxels = input});
//   ... write d loss / d output 0 to tape.output_gradient(0) ...
//   tape.backward();                           // tape.parameters().gradients
#pragma once
#include <memory>

#include "sparseconv/executor.hpp"
#include "sparseconv/training/parameters.hpp"
#include "sparseconv/training/training_plan.hpp"

namespace sparseconv::training {

struct TapeOptions {
  bool input_gradient = false;
  double batch_norm_momentum = 0.1;  // share of the batch in the running statistics
  // Batch norms use and keep the running statistics, as in inference.
  bool freezes_statistics = false;
  // Less memory for a little more time, with the same bits (training_plan.hpp).
  bool recomputes = false;
  // f32, tf32, f16 or bf16: how values are stored and products rounded on the way forward.
  // Gradients are f32, so that none is lost for being small; weights stay f32 (masters).
  base::DType dtype = base::DType::f32;
  std::int64_t usual_rows = 100000;  // of the input, as in TrainOptions
};

// Runs in the caller's task arena; one call at a time. Same numbers in, same bits out, for any
// thread count.
class Tape {
 public:
  explicit Tape(const Model& model, const TapeOptions& options = {});
  ~Tape();
  Tape(Tape&&) noexcept;

  const Plan& plan() const;
  Parameters& parameters();
  const Parameters& parameters() const;

  // Maps, then every step. Batch norms normalise with the statistics of the batch: of no row they
  // make nothing, of one row their bias. Running statistics wait for update_statistics().
  void forward(const FrameInput& input);
  // Of the plan's outputs, in order, as stored; alive until backward() or the next forward().
  base::ConstTensorView output(std::size_t index) const;      // sparse
  const base::Tensor& dense_output(std::size_t index) const;  // to_dense
  CoordinatesPtr output_coordinates(std::size_t index) const;

  // Zero after forward(); a loss adds to it or overwrites it.
  base::TensorView output_gradient(std::size_t index);
  base::Tensor& dense_output_gradient(std::size_t index);

  // Overwrites parameters().gradients. Once after each forward().
  void backward();
  base::ConstTensorView input_gradient() const;  // where asked for; alive until the next forward()

  // running = (1 - momentum) running + momentum batch, with the unbiased variance; a batch norm
  // that saw no row keeps both, one that saw a single row keeps its variance.
  void update_statistics();
  // Runs the forward pass again and names the first step whose output holds a value that is not
  // finite; empty where none does. For messages.
  std::string first_node_not_finite(const FrameInput& input);
  // The same for the parameters' gradients of the last backward(), in its order.
  std::string first_gradient_not_finite() const;

  double maps_ms() const;  // of the last forward()
  std::int64_t arena_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparseconv::training
