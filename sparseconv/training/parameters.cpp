#include "sparseconv/training/parameters.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace sparseconv::training {
namespace {

constexpr std::int64_t kAlignment = 16;  // floats: entries start on cache lines of their array

}  // namespace

Parameters::Parameters(const Model& model, const Plan& plan) {
  std::set<int> nodes;
  for (const PlanStep& step : plan.steps) {
    if (step.parameters >= 0) nodes.insert(step.parameters);
  }
  for (const int node : nodes) {
    const Node& n = model.nodes[static_cast<std::size_t>(node)];
    for (const auto& [name, tensor] : n.weights) {
      const bool is_statistic = name == "running_mean" || name == "running_var";
      auto& entries = is_statistic ? running_ : trained_;
      auto& numbers = is_statistic ? statistics : values;
      Entry entry{node,
                  n.name,
                  name,
                  tensor.shape(),
                  static_cast<std::int64_t>(numbers.size()),
                  tensor.numel(),
                  name == "weight" && n.op != Op::batch_norm};
      const float* from = tensor.data<float>();
      numbers.insert(numbers.end(), from, from + entry.size);
      const auto size = static_cast<std::int64_t>(numbers.size());
      numbers.resize(static_cast<std::size_t>((size + kAlignment - 1) / kAlignment * kAlignment));
      entries.push_back(std::move(entry));
    }
  }
  gradients.assign(values.size(), 0.0f);
}

const Parameters::Entry& Parameters::entry(int node, const std::string& name) const {
  for (const auto* entries : {&trained_, &running_}) {
    const auto found = std::find_if(entries->begin(), entries->end(), [&](const Entry& e) {
      return e.node == node && e.name == name;
    });
    if (found != entries->end()) return *found;
  }
  base::fail("parameters: node ", node, " has no ", name);
}

const Parameters::Entry& Parameters::running_at(std::int64_t offset) const {
  const auto found = std::ranges::find(running_, offset, &Entry::offset);
  ENSURE(found != running_.end(), "parameters: no statistic begins at ", offset);
  return *found;
}

void Parameters::require_finite() const {
  const auto require = [](const std::vector<Entry>& entries, std::span<const float> numbers) {
    for (const Entry& entry : entries) {
      const auto own = numbers.subspan(static_cast<std::size_t>(entry.offset),
                                       static_cast<std::size_t>(entry.size));
      ENSURE(std::ranges::all_of(own, [](float value) { return std::isfinite(value); }), "node '",
             entry.node_name, "': ", entry.name, " holds a value that is not finite");
    }
  };
  require(trained_, values);
  require(running_, statistics);
}

Model Parameters::filled(const Model& model, std::span<const float> weights) const {
  Model result = model;
  const auto fill = [&](const std::vector<Entry>& entries, std::span<const float> numbers) {
    for (const Entry& entry : entries) {
      auto tensor = base::Tensor::empty(entry.shape, base::DType::f32);
      const auto from = numbers.subspan(static_cast<std::size_t>(entry.offset),
                                        static_cast<std::size_t>(entry.size));
      std::copy(from.begin(), from.end(), tensor.data<float>());
      result.nodes[static_cast<std::size_t>(entry.node)].weights[entry.name] = std::move(tensor);
    }
  };
  fill(trained_, weights);
  fill(running_, statistics);
  return result;
}

}  // namespace sparseconv::training
