#include "tests/support/naive_network.hpp"

#include <algorithm>
#include <cmath>

#include "tests/support/naive_coordinates.hpp"

namespace test_support {
namespace {

using namespace sparseconv;
using Row = std::vector<double>;

void multiply(const Node& node, const NaiveTensor& in, const std::vector<NaivePair>& pairs,
              NaiveTensor& out) {
  const float* weight = node.weights.at("weight").data<float>();
  const auto cout = static_cast<std::size_t>(node.out_channels);
  const std::size_t cin = static_cast<std::size_t>(node.weights.at("weight").numel()) /
                          (cout * static_cast<std::size_t>(node.geometry.taps()));
  const auto taps = static_cast<std::size_t>(node.geometry.taps());
  const std::size_t group_out = cout / static_cast<std::size_t>(node.groups);
  out.rows.assign(out.coords.size(), Row(cout, 0.0));
  if (node.bias) {
    const float* bias = node.weights.at("bias").data<float>();
    for (auto& row : out.rows) std::copy(bias, bias + cout, row.begin());
  }
  for (const NaivePair& pair : pairs) {
    for (std::size_t o = 0; o < cout; ++o) {
      const std::size_t first = o / group_out * cin;
      const float* w = weight + (o * taps + static_cast<std::size_t>(pair.tap)) * cin;
      for (std::size_t i = 0; i < cin; ++i) {
        out.rows[pair.out][o] += double{w[i]} * in.rows[pair.in][first + i];
      }
    }
  }
}

NaiveTensor pooled(const Node& node, const NaiveTensor& in) {
  NaiveTensor out = strided_outputs(in, node.geometry);
  const auto channels = in.rows.empty() ? 0 : in.rows[0].size();
  out.rows.assign(out.coords.size(), Row(channels, 0.0));
  std::vector<int> count(out.coords.size(), 0);
  for (const NaivePair& pair : pairs_of(in, out, node.geometry)) {
    const bool is_first = count[pair.out]++ == 0;
    for (std::size_t c = 0; c < channels; ++c) {
      double& value = out.rows[pair.out][c];
      const double next = in.rows[pair.in][c];
      if (node.op == Op::max_pool) {
        value = is_first && !node.implicit_zero ? next : std::max(value, next);
      } else {
        value += next;
      }
    }
  }
  for (std::size_t o = 0; node.op == Op::avg_pool && o < out.rows.size(); ++o) {
    for (double& value : out.rows[o]) value /= count[o];
  }
  return out;
}

NaiveTensor globally_pooled(const Node& node, const NaiveTensor& in, std::size_t channels) {
  NaiveTensor out;
  out.batch_size = in.batch_size;
  if (in.shape) out.shape = SpatialShape{1, 1, 1};
  for (std::int32_t b = 0; b < in.batch_size; ++b) {
    Row row(channels, 0.0);
    int count = 0;
    for (std::size_t i = 0; i < in.coords.size(); ++i) {
      if (in.coords[i].batch != b) continue;
      const bool is_first = count++ == 0;
      for (std::size_t c = 0; c < channels; ++c) {
        const double next = in.rows[i][c];
        row[c] = node.op == Op::global_avg_pool ? row[c] + next
                 : is_first                     ? next
                                                : std::max(row[c], next);
      }
    }
    if (node.op == Op::global_avg_pool && count > 0) {
      for (double& value : row) value /= count;
    }
    out.coords.push_back({b, 0, 0, 0});
    out.rows.push_back(row);
  }
  return out;
}

NaiveTensor merged(const Node& node, const std::vector<const NaiveTensor*>& inputs) {
  std::map<Coord, Row> sums;
  NaiveTensor out;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    out.batch_size = std::max(out.batch_size, inputs[i]->batch_size);
    for (std::size_t r = 0; r < inputs[i]->coords.size(); ++r) {
      const Coord& c = inputs[i]->coords[r];
      const auto& s = node.scales[i];
      Row& sum = sums[{c.batch, c.x * s[0], c.y * s[1], c.z * s[2]}];
      sum.resize(inputs[i]->rows[r].size(), 0.0);
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += inputs[i]->rows[r][k];
    }
  }
  for (const auto& [c, row] : sums) {
    out.coords.push_back(c);
    out.rows.push_back(row);
  }
  return out;
}

double activation(const Node& node, double v) {
  switch (node.op) {
    case Op::relu:
      return std::max(v, 0.0);
    case Op::leaky_relu:
      return v < 0 ? v * node.negative_slope : v;
    default:
      return 1 / (1 + std::exp(-v));
  }
}

NaiveTensor normalised(const Node& node, NaiveTensor t) {
  const auto value = [&](const char* name, std::size_t c) {
    return double{node.weights.at(name).data<float>()[c]};
  };
  for (auto& row : t.rows) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      row[c] = (row[c] - value("running_mean", c)) / std::sqrt(value("running_var", c) + node.eps) *
                   value("weight", c) +
               value("bias", c);
    }
  }
  return t;
}

NaiveTensor normalised_by_batch(const Node& node, NaiveTensor t) {
  const std::size_t channels = t.rows.empty() ? 0 : t.rows[0].size();
  const auto count = static_cast<double>(t.rows.size());
  for (std::size_t c = 0; c < channels; ++c) {
    double mean = 0, variance = 0;
    for (const auto& row : t.rows) mean += row[c] / count;
    for (const auto& row : t.rows) variance += (row[c] - mean) * (row[c] - mean) / count;
    const double weight = node.weights.at("weight").data<float>()[c];
    for (auto& row : t.rows) {
      row[c] = (row[c] - mean) / std::sqrt(variance + node.eps) * weight +
               node.weights.at("bias").data<float>()[c];
    }
  }
  return t;
}

NaiveTensor joined(const Node& node, const std::vector<const NaiveTensor*>& inputs) {
  NaiveTensor out = *inputs[0];
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    for (std::size_t r = 0; r < out.rows.size(); ++r) {
      const Row& next = inputs[i]->rows[r];
      if (node.op == Op::concat) {
        out.rows[r].insert(out.rows[r].end(), next.begin(), next.end());
      } else {
        for (std::size_t c = 0; c < next.size(); ++c) out.rows[r][c] += next[c];
      }
    }
  }
  return out;
}

class NaiveRun {
 public:
  NaiveRun(const Model& model, const SparseTensor& input, const NaiveOptions& options)
      : model_(model), options_(options) {
    values_["input"] = naive_tensor(input);
    if (model.input.spatial_shape) values_["input"].shape = model.input.spatial_shape;
  }

  std::map<std::string, NaiveTensor> run() {
    for (const Node& node : model_.nodes) {
      std::vector<const NaiveTensor*> inputs;
      for (const auto& name : node.inputs) inputs.push_back(&values_.at(name));
      values_[node.name] = value_of(node, inputs);
    }
    return std::move(values_);
  }

 private:
  NaiveTensor value_of(const Node& node, const std::vector<const NaiveTensor*>& inputs) {
    const NaiveTensor& in = *inputs[0];
    NaiveTensor out = in;
    switch (node.op) {
      case Op::conv:
        if (!node.submanifold) out = strided_outputs(in, node.geometry);
        multiply(node, in, pairs_of(in, out, node.geometry), out);
        return out;
      case Op::linear:
        multiply(node, in, pairs_of(in, out, {}), out);
        return out;
      case Op::conv_transpose: {
        out = transposed_outputs(in, node.geometry);
        auto pairs = pairs_of(out, in, node.geometry);
        for (auto& pair : pairs) std::swap(pair.in, pair.out);
        multiply(node, in, pairs, out);
        return out;
      }
      case Op::inverse_conv: {
        out = values_.at(model_.node(node.pair).inputs[0]);
        auto pairs = pairs_of(out, in, node.geometry);
        for (auto& pair : pairs) std::swap(pair.in, pair.out);
        multiply(node, in, pairs, out);
        return out;
      }
      case Op::batch_norm:
        return options_.uses_batch_statistics ? normalised_by_batch(node, in)
                                              : normalised(node, in);
      case Op::relu:
      case Op::leaky_relu:
      case Op::sigmoid:
        for (auto& row : out.rows) {
          for (double& v : row) v = activation(node, v);
        }
        return out;
      case Op::add:
      case Op::concat:
        return joined(node, inputs);
      case Op::max_pool:
      case Op::avg_pool:
      case Op::sum_pool:
        return pooled(node, in);
      case Op::global_max_pool:
      case Op::global_avg_pool:
        return globally_pooled(node, in, in.rows.empty() ? 0 : in.rows[0].size());
      case Op::merge:
        return merged(node, inputs);
      case Op::to_dense:
      case Op::devoxelize:
        break;
    }
    return out;
  }

  const Model& model_;
  const NaiveOptions options_;
  std::map<std::string, NaiveTensor> values_;
};

}  // namespace

Rows NaiveTensor::as_rows() const {
  Rows result{coords, {}};
  for (const auto& row : rows) {
    for (const double v : row) result.features.push_back(static_cast<float>(v));
  }
  return result;
}

NaiveTensor naive_tensor(const SparseTensor& tensor) {
  NaiveTensor t;
  const auto coords = tensor.coordinates->coords();
  t.coords.assign(coords.begin(), coords.end());
  t.shape = tensor.coordinates->spatial_shape();
  t.batch_size = tensor.coordinates->batch_size();
  const base::Tensor features = tensor.features.to(base::DType::f32);
  for (std::int64_t i = 0; i < tensor.rows(); ++i) {
    const float* from = features.data<float>() + i * tensor.channels();
    t.rows.emplace_back(from, from + tensor.channels());
  }
  return t;
}

std::map<std::string, NaiveTensor> run_naively(const Model& model, const SparseTensor& input,
                                               const NaiveOptions& options) {
  return NaiveRun(model, input, options).run();
}

std::vector<float> naive_dense(const NaiveTensor& t) {
  const auto [w, h, d] = *t.shape;
  const std::size_t channels = t.rows.empty() ? 0 : t.rows[0].size();
  const auto plane = static_cast<std::size_t>(h * w);
  std::vector<float> dense(static_cast<std::size_t>(t.batch_size) * channels *
                           static_cast<std::size_t>(d) * plane);
  for (std::size_t r = 0; r < t.coords.size(); ++r) {
    const Coord& c = t.coords[r];
    for (std::size_t k = 0; k < channels; ++k) {
      const std::size_t channel = k * static_cast<std::size_t>(d) + static_cast<std::size_t>(c.z);
      const std::size_t image =
          static_cast<std::size_t>(c.batch) * channels * static_cast<std::size_t>(d) + channel;
      dense[image * plane + static_cast<std::size_t>(c.y * w + c.x)] =
          static_cast<float>(t.rows[r][k]);
    }
  }
  return dense;
}

}  // namespace test_support
