// What 8-bit inference is meant to compute, plainly on the host: oracle of the executor's tests.
// Values in every buffer are rounded as the device's are; sums are fp32, so that device and
// oracle differ where a sum lies close to the middle of two codes.
#pragma once
#include <vector>

#include "sparseconv/cuda/narrow_plan.hpp"
#include "sparseconv/sparse_tensor.hpp"

namespace cuda_tests {

struct NarrowOracle {
  // Of each step, in plan order.
  struct Step {
    std::vector<float> values;  // [rows, channels], as real numbers: what is stored times its scale
    float largest = 0;          // magnitude
    std::int64_t rows = 0, channels = 0;
  };
  sparseconv::cuda::DeviceSteps plan;
  sparseconv::cuda::NarrowScales scales;
  std::vector<Step> steps;  // an absorbed step is empty
};

struct OracleOptions {
  // f32: nothing is rounded; f16: buffers and weights are halves; e4m3, i8: as the device.
  base::DType dtype = base::DType::f32;
  bool merges_shortcuts = false;  // as the device does
  std::vector<float> largest;     // magnitudes of each step, of e4m3 and i8
};
// Runs `plan`, made of convolutions alone.
NarrowOracle run_oracle(const sparseconv::Plan& plan, const sparseconv::SparseTensor& input,
                        const OracleOptions& options);

}  // namespace cuda_tests
