// The built-in architectures, one function each, in files by what they are for.
// docs/architectures.md describes them.
#pragma once
#include <cmath>

#include "sparseconv/graph_builder.hpp"

namespace sparseconv::detail {

// What a graph is drawn for.
struct Blueprint {
  std::int64_t in_channels = 4, classes = 20;
  double width = 1.0;
  std::int64_t scaled(std::int64_t channels) const {
    const auto rounded = static_cast<std::int64_t>(static_cast<double>(channels) * width + 0.5);
    return rounded < 1 ? 1 : rounded;
  }
};

struct Drawing {
  std::vector<Node> nodes;
  std::string output;
};

// A detector's field of view. x and y are cut into cells of the size asked for, z into the 40 cells
// of the paper.
struct FieldOfView {
  std::array<double, 6> range{};
  double cell_height = 0;
};

struct Architecture {
  const char* name;
  Drawing (*draw)(const Blueprint&);
  const FieldOfView* field = nullptr;  // null: segmentation, unbounded
};

Drawing minkunet14(const Blueprint&);
Drawing minkunet18(const Blueprint&);
Drawing minkunet34(const Blueprint&);
Drawing minkunet42(const Blueprint&);
Drawing spunet(const Blueprint&);
Drawing streetunet(const Blueprint&);
Drawing second(const Blueprint&);
Drawing voxelresnet8x(const Blueprint&);
Drawing voxelnext(const Blueprint&);

}  // namespace sparseconv::detail
