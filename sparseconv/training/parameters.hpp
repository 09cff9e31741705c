// The numbers of a model that training changes, in three flat arrays, so that optimisers, norms and
// checkpoints need not know the graph: weights and biases, their gradients, running statistics.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sparseconv/model.hpp"
#include "sparseconv/plan.hpp"

namespace sparseconv::training {

class Parameters {
 public:
  // One parameter: values[offset, offset + size) (or statistics), row-major in `shape`.
  struct Entry {
    int node = 0;  // of Model::nodes
    std::string node_name, name;
    base::Dims shape;
    std::int64_t offset = 0, size = 0;
    bool decays = false;  // the weight of a convolution or linear layer
  };

  // Those of the nodes that the plan's steps use, in the order of nodes; copies their values.
  Parameters(const Model& model, const Plan& plan);

  const std::vector<Entry>& trained() const { return trained_; }
  const std::vector<Entry>& running() const { return running_; }
  // Error when the node has no such parameter.
  const Entry& entry(int node, const std::string& name) const;
  // The one of running() that begins there. Error when none does.
  const Entry& running_at(std::int64_t offset) const;

  std::vector<float> values, gradients;  // of trained()
  std::vector<float> statistics;         // of running(): running_mean, running_var

  // `model`, which has the same nodes, with tensors of its own that hold `weights` (as `values`)
  // and the statistics.
  Model filled(const Model& model, std::span<const float> weights) const;

  // Error names node and parameter of the first value or statistic that is not finite.
  void require_finite() const;

 private:
  std::vector<Entry> trained_, running_;
};

}  // namespace sparseconv::training
