// How a model is trained: optimiser, learning rate over time, loss.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace sparseconv::training {

struct OptimiserOptions {
  enum class Kind : std::uint8_t { sgd, adamw } kind = Kind::adamw;
  double momentum = 0.9;                          // sgd
  bool nesterov = false;                          // sgd
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // adamw
  // Pulls weights of convolutions and linear layers towards 0; biases and batch norms are left
  // alone. adamw: decoupled (Loshchilov, Hutter 2019); sgd: added to the gradient.
  double weight_decay = 0.01;
};

// Learning rate of step i = 0, 1, ...: rises linearly from rate / warmup_steps over the warm-up,
// then follows the shape down to rate * final_fraction at step `steps` - 1, and stays there.
//   one_cycle: a half cosine up over the first `rise` of the steps, from rate / 25, and a half
//   cosine down over the rest (Smith, Topin 2018); its rise is its warm-up.
struct ScheduleOptions {
  enum class Kind : std::uint8_t { constant, cosine, one_cycle } kind = Kind::cosine;
  double rate = 1e-3;  // the highest
  std::int64_t steps = 1000, warmup_steps = 0;
  double final_fraction = 0.001;
  double rise = 0.3;
};
// Error naming the field for a schedule that has no meaning.
void check(const ScheduleOptions& options);
double learning_rate(const ScheduleOptions& options, std::int64_t step);

// Loss of a batch: the mean over the rows whose label is not kIgnore, weighted by class;
// 0 where there is no such row.
struct LossOptions {
  std::vector<float> class_weights;  // empty: 1 each
  double label_smoothing = 0;        // share of the target spread over all classes, [0, 1)
  double focal_gamma = 0;            // > 0: cross-entropy times (1 - p)^gamma (Lin et al. 2017)
  double lovasz_weight = 0;          // > 0: plus so much of the Lovasz-softmax (Berman et al. 2018)
};

struct TrainOptions {
  OptimiserOptions optimiser;
  ScheduleOptions schedule;
  LossOptions loss;
  double clip_norm = 0;              // > 0: gradients are scaled down to this L2 norm
  double ema_decay = 0;              // > 0: the model given out is a moving average of the weights
  double batch_norm_momentum = 0.1;  // share of the batch in the running statistics
  bool recomputes = false;           // activations are made again in the backward pass: less memory
  std::string device = "cpu";
  std::string dtype = "fp32";  // fp32, tf32, fp16, bf16: of values; gradients and weights are fp32
  int threads = 0;             // 0: all cores
  // Rows of a usual batch: on CUDA, kernels are chosen for so many. Another number gives sums of
  // another order, and so other last bits.
  std::int64_t usual_rows = 100000;
};

}  // namespace sparseconv::training
