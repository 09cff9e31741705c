#include "apps/model_features.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "gemm_core/base/error.hpp"

namespace apps {
namespace {

// Channel j of the result is channel from[j] of `weight`, or 0 where that is -1.
base::Tensor with_channels(const base::Tensor& weight, const std::vector<std::int64_t>& from) {
  base::Dims shape = weight.shape();
  const std::int64_t channels = shape[shape.rank() - 1], rows = weight.numel() / channels;
  const auto count = static_cast<std::int64_t>(from.size());
  shape[shape.rank() - 1] = count;
  auto result = base::Tensor::zeros(shape, base::DType::f32);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int64_t i = from[static_cast<std::size_t>(j)];
      if (i >= 0) result.data<float>()[row * count + j] = weight.data<float>()[row * channels + i];
    }
  }
  return result;
}

}  // namespace

void set_features(sparseconv::Model& model, const std::vector<std::string>& wanted) {
  ENSURE(!wanted.empty(), "features: none is named");
  const auto& own = model.input.features;
  std::vector<std::int64_t> from;
  std::set<std::string> seen;
  for (const std::string& name : wanted) {
    ENSURE(seen.insert(name).second, "features: ", name, " is named twice");
    const auto found = std::ranges::find(own, name);
    from.push_back(found == own.end() ? -1 : found - own.begin());
    if (found == own.end()) model.input.defaults[name] = 0;
  }
  for (sparseconv::Node& node : model.nodes) {
    if (std::ranges::find(node.inputs, "input") == node.inputs.end()) continue;
    const bool is_product = node.op == sparseconv::Op::linear || node.op == sparseconv::Op::conv;
    ENSURE(is_product && node.groups == 1, "features: node '", node.name, "' (",
           sparseconv::name(node.op), ") reads the input, and is no plain convolution");
    base::Tensor& weight = node.weights.at("weight");
    weight = with_channels(weight.to(base::DType::f32), from);
  }
  std::erase_if(model.input.defaults,
                [&](const auto& entry) { return !seen.contains(entry.first); });
  model.input.features = wanted;
  sparseconv::validate(model);
}

}  // namespace apps
