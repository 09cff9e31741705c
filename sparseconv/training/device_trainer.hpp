// A trainer's steps on a device that is not the host: the Trainer keeps schedules, checks and
// checkpoints, this keeps the numbers.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "sparseconv/executor.hpp"
#include "sparseconv/training/optimiser.hpp"
#include "sparseconv/training/trainer.hpp"

namespace sparseconv::training {

struct DeviceUpdate {
  double rate = 0, gradient_scale = 1;
  std::int64_t updates = 1;  // with this one
  double average_keep = 0;
};

class DeviceTrainer {
 public:
  virtual ~DeviceTrainer() = default;
  // Forward pass, loss, backward pass and the norm of the gradient, into `report`; moves no number.
  virtual void run(const FrameInput& input, std::span<const std::int32_t> labels,
                   StepReport& report) = 0;
  // Of what run() left behind.
  virtual void update_statistics() = 0;
  virtual void update(const DeviceUpdate& update) = 0;

  virtual void send(const Parameters& parameters, const Optimiser& optimiser,
                    std::span<const float> average) = 0;
  virtual void fetch(Parameters& parameters, Optimiser& optimiser, std::vector<float>& average) = 0;
  virtual void fetch_gradients(Parameters& parameters) = 0;
};

// `output`: of the plan, whose values are the logits. Error in a build without CUDA (no_cuda.cpp).
std::unique_ptr<DeviceTrainer> make_device_trainer(const Model& model, const TrainOptions& options,
                                                   std::size_t output, base::Device device);

}  // namespace sparseconv::training
