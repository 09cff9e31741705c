// Backbones of detectors: SECOND, VoxelResBackBone8x (also CenterPoint's) to a dense bird's-eye
// view, VoxelNeXt to a sparse one.
#include "sparseconv/architectures.hpp"

namespace sparseconv::detail {
namespace {

constexpr double kEps = 1e-3;

ConvSpec halving(std::int64_t out_channels, std::array<int, 3> padding = {1, 1, 1}) {
  return {
      .kernel = {3, 3, 3}, .out_channels = out_channels, .stride = {2, 2, 2}, .padding = padding};
}

std::string blocks(GraphBuilder& net, const std::string& stage, int first, std::string x) {
  for (int block = first; block < first + 2; ++block) {
    x = net.residual_block(base::concat(stage, ".", block), x,
                           {.out_channels = net.channels(x), .bias = true});
  }
  return x;
}

// Squeezes z with a line kernel and lays the rest out as [N, C*D, H, W].
Drawing finish_dense(GraphBuilder& net, const std::string& x, std::int64_t channels) {
  const ConvSpec squeeze{.kernel = {1, 1, 3}, .out_channels = channels, .stride = {1, 1, 2}};
  const std::string out = net.conv_bn_relu("conv_out", x, squeeze);
  const std::string bev = net.simple("bev", Op::to_dense, {out});
  return {net.take_nodes(), bev};
}

}  // namespace

Drawing second(const Blueprint& print) {
  GraphBuilder net(print.in_channels, kEps);
  const auto same = [&](std::int64_t channels) {
    return ConvSpec{.kernel = {3, 3, 3}, .out_channels = print.scaled(channels)};
  };
  std::string x = net.conv_bn_relu("conv_input", "input", same(16));
  x = net.conv_bn_relu("conv1.0", x, same(16));
  constexpr std::array<std::int64_t, 3> kChannels{32, 64, 64};
  for (std::size_t i = 0; i < kChannels.size(); ++i) {
    const std::string stage = base::concat("conv", i + 2);
    const auto padding = i == 2 ? std::array{1, 1, 0} : std::array{1, 1, 1};
    x = net.conv_bn_relu(stage + ".0", x, halving(print.scaled(kChannels[i]), padding));
    x = net.conv_bn_relu(stage + ".1", x, same(kChannels[i]));
    x = net.conv_bn_relu(stage + ".2", x, same(kChannels[i]));
  }
  return finish_dense(net, x, print.scaled(128));
}

Drawing voxelresnet8x(const Blueprint& print) {
  GraphBuilder net(print.in_channels, kEps);
  std::string x = net.conv_bn_relu("conv_input", "input",
                                   {.kernel = {3, 3, 3}, .out_channels = print.scaled(16)});
  x = blocks(net, "conv1", 0, x);
  constexpr std::array<std::int64_t, 3> kChannels{32, 64, 128};
  for (std::size_t i = 0; i < kChannels.size(); ++i) {
    const std::string stage = base::concat("conv", i + 2);
    const auto padding = i == 2 ? std::array{1, 1, 0} : std::array{1, 1, 1};
    x = net.conv_bn_relu(stage + ".0", x, halving(print.scaled(kChannels[i]), padding));
    x = blocks(net, stage, 1, x);
  }
  return finish_dense(net, x, print.scaled(128));
}

Drawing voxelnext(const Blueprint& print) {
  GraphBuilder net(print.in_channels, kEps);
  std::string x = net.conv_bn_relu("conv_input", "input",
                                   {.kernel = {3, 3, 3}, .out_channels = print.scaled(16)});
  x = blocks(net, "conv1", 0, x);
  constexpr std::array<std::int64_t, 5> kChannels{32, 64, 128, 128, 128};
  std::vector<std::string> last;
  for (std::size_t i = 0; i < kChannels.size(); ++i) {
    const std::string stage = base::concat("conv", i + 2);
    x = net.conv_bn_relu(stage + ".0", x, halving(print.scaled(kChannels[i])));
    x = blocks(net, stage, 1, x);
    last.push_back(x);
  }
  // Strides 16 and 32 join stride 8, and z collapses: what falls on one cell is summed.
  const auto merged =
      net.merge("merge", {last[2], last[3], last[4]}, {{1, 1, 0}, {2, 2, 0}, {4, 4, 0}});
  const std::int64_t out = print.scaled(128);
  const ConvSpec flat{
      .kernel = {3, 3, 1}, .out_channels = out, .stride = {1, 1, 1}, .padding = {1, 1, 0}};
  x = net.conv_bn_relu("conv_out", merged, flat);
  const ConvSpec shared{.kernel = {3, 3, 1}, .out_channels = out, .bias = true};
  x = net.conv_bn_relu("shared_conv", x, shared, 1e-5);
  return {net.take_nodes(), x};
}

}  // namespace sparseconv::detail
