// Encoder-decoder networks with a label a voxel: MinkUNet and SpUNet.
#include "sparseconv/architectures.hpp"

namespace sparseconv::detail {
namespace {

constexpr int kStages = 4;

struct UNet {
  std::vector<ConvSpec> stem;  // stem0, stem1, ...
  std::array<std::int64_t, 2 * kStages> channels{};
  std::array<int, 2 * kStages> blocks{};
  // Channels after the strided convolution of an encoder stage: as before it, or already those of
  // the stage.
  bool widens_when_striding = false;
  double eps = 1e-5;
};

std::string stage(GraphBuilder& net, std::string name, std::string x, std::int64_t channels,
                  int blocks) {
  for (int block = 0; block < blocks; ++block) {
    x = net.residual_block(base::concat(name, ".", block), x, {.out_channels = channels});
  }
  return x;
}

Drawing draw_unet(const UNet& unet, const Blueprint& print) {
  GraphBuilder net(print.in_channels, unet.eps);
  std::string x = "input";
  for (std::size_t i = 0; i < unet.stem.size(); ++i) {
    ConvSpec spec = unet.stem[i];
    spec.out_channels = print.scaled(spec.out_channels);
    x = net.conv_bn_relu(base::concat("stem", i), x, spec);
  }
  std::vector<std::string> skips{x};
  for (int s = 0; s < kStages; ++s) {
    const auto i = static_cast<std::size_t>(s);
    const std::string id = base::concat(s);
    const std::int64_t channels = print.scaled(unet.channels[i]);
    const ConvSpec halve{.kernel = {2, 2, 2},
                         .out_channels = unet.widens_when_striding ? channels : net.channels(x),
                         .stride = {2, 2, 2}};
    x = net.conv_bn_relu("down" + id, x, halve);
    x = stage(net, "enc" + id, x, channels, unet.blocks[i]);
    skips.push_back(x);
  }
  for (int s = 0; s < kStages; ++s) {
    const auto i = static_cast<std::size_t>(kStages + s);
    const std::string id = base::concat(s);
    const std::int64_t channels = print.scaled(unet.channels[i]);
    const std::string pair = base::concat("down", kStages - 1 - s, ".conv");
    x = net.inverse_bn_relu("up" + id, x, pair, channels);
    x = net.simple("cat" + id, Op::concat, {x, skips[static_cast<std::size_t>(kStages - 1 - s)]});
    x = stage(net, "dec" + id, x, channels, unet.blocks[i]);
  }
  const std::string head = net.linear("head", x, print.classes);
  return {net.take_nodes(), head};
}

const ConvSpec kWideStem{.kernel = {5, 5, 5}, .out_channels = 32};
const ConvSpec kStem{.kernel = {3, 3, 3}, .out_channels = 32};
constexpr std::array<std::int64_t, 8> kChannels{32, 64, 128, 256, 256, 128, 96, 96};

}  // namespace

Drawing minkunet14(const Blueprint& print) {
  return draw_unet({.stem = {kWideStem}, .channels = kChannels, .blocks = {1, 1, 1, 1, 1, 1, 1, 1}},
                   print);
}
Drawing minkunet18(const Blueprint& print) {
  return draw_unet({.stem = {kWideStem}, .channels = kChannels, .blocks = {2, 2, 2, 2, 2, 2, 2, 2}},
                   print);
}
Drawing minkunet34(const Blueprint& print) {
  return draw_unet({.stem = {kWideStem}, .channels = kChannels, .blocks = {2, 3, 4, 6, 2, 2, 2, 2}},
                   print);
}
Drawing minkunet42(const Blueprint& print) {
  return draw_unet(
      {.stem = {kStem, kStem}, .channels = kChannels, .blocks = {2, 2, 2, 2, 2, 2, 2, 2}}, print);
}
Drawing spunet(const Blueprint& print) {
  return draw_unet({.stem = {kWideStem},
                    .channels = kChannels,
                    .blocks = {2, 3, 4, 6, 2, 2, 2, 2},
                    .widens_when_striding = true,
                    .eps = 1e-3},
                   print);
}
// The bundled model's: 3.8 million parameters, most of them where rows are few, and channels that
// are whole chunks of 16 bytes in half precision.
Drawing streetunet(const Blueprint& print) {
  return draw_unet({.stem = {kStem, kStem},
                    .channels = {32, 64, 80, 96, 96, 64, 48, 48},
                    .blocks = {2, 2, 2, 2, 1, 1, 1, 1}},
                   print);
}

}  // namespace sparseconv::detail
