#include "apps/model_mix.hpp"

#include "gemm_core/base/error.hpp"

namespace apps {

void mix_weights(sparseconv::Model& model, const sparseconv::Model& other, double share) {
  ENSURE(sparseconv::model_graph_json(model) == sparseconv::model_graph_json(other),
         "two networks can be mixed only where their graphs, features, voxel sizes and classes are "
         "the same");
  for (sparseconv::Node& node : model.nodes) {
    for (auto& [name, weight] : node.weights) {
      const base::Tensor own = weight.to(base::DType::f32);
      const base::Tensor others = other.node(node.name).weights.at(name).to(base::DType::f32);
      ENSURE(own.shape() == others.shape(), "node '", node.name, "': ", name, " has shape ",
             base::to_string(own.shape()), " here and ", base::to_string(others.shape()), " there");
      auto mixed = base::Tensor::zeros(own.shape(), base::DType::f32);
      for (std::int64_t i = 0; i < own.numel(); ++i) {
        mixed.data<float>()[i] = static_cast<float>((1 - share) * own.data<float>()[i] +
                                                    share * others.data<float>()[i]);
      }
      weight = mixed;
    }
  }
}

}  // namespace apps
