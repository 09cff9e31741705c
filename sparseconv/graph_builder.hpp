// Writes graphs node by node. Every call adds nodes and returns the name of the value they end
// with.
//   GraphBuilder net;
//   auto x = net.conv_bn_relu("stem", "input", {.kernel = {3, 3, 3}, .out_channels = 32});
//   x = net.residual_block("enc0.0", x, {.out_channels = 64});
#pragma once
#include <map>
#include <string>
#include <vector>

#include "sparseconv/model.hpp"

namespace sparseconv {

struct ConvSpec {
  std::array<int, 3> kernel{3, 3, 3};
  std::int64_t out_channels = 0;
  // Where stride is 0 the convolution is submanifold.
  std::array<int, 3> stride{0, 0, 0}, padding{0, 0, 0};
  bool bias = false;
};

struct BlockSpec {
  std::int64_t out_channels = 0;
  std::array<int, 3> kernel{3, 3, 3};
  bool bias = false;
};

class GraphBuilder {
 public:
  explicit GraphBuilder(std::int64_t in_channels, double eps = 1e-5);

  std::string conv(const std::string& name, const std::string& input, const ConvSpec& spec);
  std::string inverse_conv(const std::string& name, const std::string& input,
                           const std::string& pair, std::int64_t out_channels);
  std::string linear(const std::string& name, const std::string& input, std::int64_t out_channels);
  std::string batch_norm(const std::string& name, const std::string& input, double eps = -1);
  std::string simple(const std::string& name, Op op, const std::vector<std::string>& inputs);
  std::string merge(const std::string& name, const std::vector<std::string>& inputs,
                    const std::vector<std::array<int, 3>>& scales);

  // <name>.conv, <name>.bn, <name>.relu
  std::string conv_bn_relu(const std::string& name, const std::string& input, const ConvSpec& spec,
                           double eps = -1);
  std::string inverse_bn_relu(const std::string& name, const std::string& input,
                              const std::string& pair, std::int64_t out_channels);
  // relu(bn(conv(relu(bn(conv x)))) + x), with a 1x1x1 convolution and batch norm on x where widths
  // differ.
  std::string residual_block(const std::string& name, const std::string& input,
                             const BlockSpec& spec);

  std::int64_t channels(const std::string& value) const { return channels_.at(value); }
  std::vector<Node> take_nodes() { return std::move(nodes_); }

 private:
  std::string add(Node node, std::int64_t channels);
  std::string bn_relu(const std::string& name, double eps);
  double eps_;
  std::vector<Node> nodes_;
  std::map<std::string, std::int64_t> channels_;
  std::map<std::string, ConvGeometry> geometries_;
};

}  // namespace sparseconv
