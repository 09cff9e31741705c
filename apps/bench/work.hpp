// Floating point operations and compulsory bytes of a model on given coordinates: what its floor is
// made of.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "sparseconv/coordinates.hpp"
#include "sparseconv/model.hpp"

namespace apps {

struct StepWork {
  std::string node;
  std::int64_t rows = 0, pairs = 0;
  double flop = 0, bytes = 0;  // present pairs; inputs and outputs moved once, weights once
};

// One a fused step, in the order of Engine::profile(). Steps that multiply nothing have flop 0.
std::vector<StepWork> work_of(const sparseconv::Model& model,
                              const sparseconv::CoordinatesPtr& input, int bytes_per_element);

}  // namespace apps
