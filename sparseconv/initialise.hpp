// Seeded weights: the same numbers on every machine, from integers, multiplication, division and
// square roots alone.
#pragma once
#include <cstdint>

#include "sparseconv/model.hpp"

namespace sparseconv {

// Gives every node the weights it lacks the shape of. Convolutions and linear layers: uniform with
// He's variance, 2 / fan-in; biases uniform within 1 / sqrt(fan-in). Batch norms: weight 1, bias 0,
// mean 0, and as variance what their input is expected to have on a lidar scan, so that activations
// keep their scale from layer to layer and fit fp16. A node's numbers depend on the seed and its
// name only. Precondition: a graph that analyse_graph accepts.
void initialise_weights(Model& model, std::uint64_t seed);

}  // namespace sparseconv
