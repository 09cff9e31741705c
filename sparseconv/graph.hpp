// What a graph says before any input is seen: an order of execution, the channels of every value,
// and which values stand on which set of coordinates. Coordinate sets ("levels") are symbolic and
// shared by geometry: two layers that derive coordinates from the same level in the same way stand
// on the same level.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sparseconv/model.hpp"

namespace sparseconv {

inline constexpr int kModelInput = -1;  // the model's input among indices of nodes
inline constexpr int kDense = -1;       // level of a to_dense node

// Level 0 is the input.
struct Level {
  enum class Kind : std::uint8_t {
    input,
    strided,     // outputs of a convolution or pooling over `source`
    generative,  // outputs of a transposed convolution over `source`
    global,      // one row a batch entry at [b, 0, 0, 0]
    merged,      // union of `parts`, coordinates multiplied by their scales
    points,      // one row an input point; no coordinates
  } kind = Kind::input;
  int source = -1;
  ConvGeometry geometry;
  struct Part {
    int level = 0;
    std::array<int, 3> scale{1, 1, 1};
    friend bool operator==(const Part&, const Part&) = default;
  };
  std::vector<Part> parts;
  std::string node;  // the first that derives it, for messages
};

// Two levels whose coordinates must turn out equal row by row, because `node` adds or concatenates
// across them.
struct LevelCheck {
  std::string node;
  int first = 0, second = 0;
};

struct GraphInfo {
  std::vector<Level> levels;
  std::vector<LevelCheck> checks;
  std::vector<std::vector<int>>
      inputs;              // of a node: indices into Model::nodes, -1 for the model's input
  std::vector<int> level;  // of a node's rows
  std::vector<std::int64_t> channels;  // of a node's rows
  std::vector<int> pair;               // of an inverse_conv: index of the paired node; else -1
};

// Moves nodes so that each comes after its inputs, otherwise keeping their order. Error: an unknown
// input, a cycle.
void sort_nodes(Model& model);

// Precondition: sort_nodes. Checks everything but weights; errors name the node.
GraphInfo analyse_graph(const Model& model);

namespace detail {
std::map<std::string, int> index_by_name(const Model& model);  // Error for a name that occurs twice
int index_of_input(const std::map<std::string, int>& index, const Node& node,
                   const std::string& input);
int index_of_pair(const std::map<std::string, int>& index, const Node& node);
}  // namespace detail

}  // namespace sparseconv
