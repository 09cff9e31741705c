// Which features a model reads, changed after it was made.
#pragma once
#include <string>
#include <vector>

#include "sparseconv/model.hpp"

namespace apps {

// The model with the features `wanted`, in that order: those that it has keep their weights, new
// ones get weights of 0 (and 0 where a file lacks them), so that the network gives what it gave;
// those left out count as 0 from now on. Error: none, one named twice, a node that reads the input
// and is neither a plain convolution nor linear.
void set_features(sparseconv::Model& model, const std::vector<std::string>& wanted);

}  // namespace apps
