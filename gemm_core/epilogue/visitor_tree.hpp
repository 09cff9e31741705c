// Epilogue trees and graphs composed at compile time.
//
//   using namespace gemm_core::visitor;
//   auto root = tree(Compute{ElementwiseOp::relu},
//                    tree(AddScaledSource{beta, {.matrix = c}},
//                         tree(Compute{ElementwiseOp::multiply_add}, Scalar(alpha), Accumulator{},
//                         RowLoad{bias})));
//   VisitorEpilogue epilogue(root);
//   GemmArguments args{..., .visitor = &epilogue};
#pragma once
#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "gemm_core/base/error.hpp"
#include "gemm_core/collective/aligned_buffer.hpp"
#include "gemm_core/epilogue/visitor_nodes.hpp"

namespace gemm_core::visitor {

// Children are visited first, left to right, each with the same accumulator.
template <class Node, class... Children>
struct Tree {
  Node node;
  std::tuple<Children...> children;

  Fragment visit(Piece& piece) {
    return std::apply(
        [&](auto&... child) {
          const std::array<Fragment, sizeof...(Children)> inputs{child.visit(piece)...};
          return node.visit(piece, inputs);
        },
        children);
  }
  template <class Action>
  void for_each(const Action& action) {
    std::apply([&](auto&... child) { (child.for_each(action), ...); }, children);
    action(node);
  }
};

// The input once; its value is the accumulator of the others. The output's value is the result.
template <class Input, class Output, class... Others>
struct Split {
  Input input;
  Output output;
  std::tuple<Others...> others;

  Fragment visit(Piece& piece) {
    const Fragment outer = piece.accumulator;
    piece.accumulator = input.visit(piece);
    std::apply([&](auto&... other) { (other.visit(piece), ...); }, others);
    const Fragment result = output.visit(piece);
    piece.accumulator = outer;
    return result;
  }
  template <class Action>
  void for_each(const Action& action) {
    input.for_each(action);
    std::apply([&](auto&... other) { (other.for_each(action), ...); }, others);
    output.for_each(action);
  }
};

// Vertex i of a graph: a node and the indices, all below i, of the vertices that it reads.
template <class Node, int... kInputs>
struct Vertex {
  Node node;
};
template <int... kInputs, class Node>
Vertex<Node, kInputs...> vertex(Node node) {
  return {std::move(node)};
}

namespace detail {

template <std::size_t kIndex, class Node, int... kInputs>
constexpr bool reads_only_earlier(const Vertex<Node, kInputs...>*) {
  return ((kInputs >= 0 && static_cast<std::size_t>(kInputs) < kIndex) && ...);
}

}  // namespace detail

// Vertices in topological order; the last one's value is the result.
template <class... Vertices>
struct Graph {
  std::tuple<Vertices...> vertices;

  Fragment visit(Piece& piece) {
    std::array<Fragment, sizeof...(Vertices)> values{};
    visit_all(piece, values, std::index_sequence_for<Vertices...>());
    return values.back();
  }
  template <class Action>
  void for_each(const Action& action) {
    std::apply([&](auto&... vertex) { (action(vertex.node), ...); }, vertices);
  }

 private:
  using Values = std::array<Fragment, sizeof...(Vertices)>;

  template <std::size_t... kIndex>
  void visit_all(Piece& piece, Values& values, std::index_sequence<kIndex...>) {
    static_assert(
        (detail::reads_only_earlier<kIndex>(static_cast<const Vertices*>(nullptr)) && ...),
        "a vertex of an epilogue graph reads itself or a later vertex");
    ((values[kIndex] = visit_one(piece, values, std::get<kIndex>(vertices))), ...);
  }
  template <class Node, int... kInputs>
  static Fragment visit_one(Piece& piece, const Values& values, Vertex<Node, kInputs...>& vertex) {
    const std::array<Fragment, sizeof...(kInputs)> inputs{values[kInputs]...};
    return vertex.node.visit(piece, inputs);
  }
};
template <class... Vertices>
Graph<Vertices...> graph(Vertices... vertices) {
  return {{std::move(vertices)...}};
}

namespace detail {

template <class T>
struct is_composed : std::false_type {};
template <class... T>
struct is_composed<Tree<T...>> : std::true_type {};
template <class... T>
struct is_composed<Split<T...>> : std::true_type {};
template <class... T>
struct is_composed<Graph<T...>> : std::true_type {};

template <class T>
auto composed(T part) {
  if constexpr (is_composed<T>::value)
    return part;
  else
    return Tree<T>{std::move(part), {}};
}
template <class T>
using Composed = decltype(composed(std::declval<T>()));

}  // namespace detail

template <class Node, class... Children>
auto tree(Node node, Children... children) {
  return Tree<Node, detail::Composed<Children>...>{std::move(node),
                                                   {detail::composed(std::move(children))...}};
}

template <class Input, class Output, class... Others>
auto split(Input input, Output output, Others... others) {
  return Split<detail::Composed<Input>, detail::Composed<Output>, detail::Composed<Others>...>{
      detail::composed(std::move(input)),
      detail::composed(std::move(output)),
      {detail::composed(std::move(others))...}};
}

// A composed epilogue as the mainloops run it.
template <class Root>
class VisitorEpilogue final : public TileEpilogue {
 public:
  explicit VisitorEpilogue(Root root) : root_(std::move(root)) {}
  Root& root() { return root_; }

  void check(std::int64_t m, std::int64_t n, std::int64_t batch) const override {
    const Extents extents{m, n, batch};
    const_cast<Root&>(root_).for_each([&](auto& node) {
      if constexpr (requires { node.check(extents); }) node.check(extents);
    });
  }

  std::vector<NodeMemory> memory(std::int64_t m, std::int64_t n,
                                 std::int64_t batch) const override {
    const Extents extents{m, n, batch};
    std::vector<NodeMemory> all;
    int index = 0;
    const_cast<Root&>(root_).for_each([&](auto& node) {
      const std::size_t first = all.size();
      if constexpr (requires { node.memory(extents, all); }) node.memory(extents, all);
      for (std::size_t i = first; i < all.size(); ++i)
        all[i].name = base::concat("epilogue node ", index, " (", all[i].name, ")");
      ++index;
    });
    return all;
  }

  void begin(const TileGrid& grid) override {
    grid_ = grid;
    nodes_ = 0;
    root_.for_each([&](auto& node) {
      ++nodes_;
      if constexpr (requires { node.begin(grid); }) node.begin(grid);
    });
  }

  void tile(const CpuAtoms& atoms, const Block& block, const TilePlace& place) override {
    // All fragments of a piece stay in L1 or close by.
    constexpr std::int64_t kPieceFloats = 1024;
    const std::int64_t step =
        std::max<std::int64_t>(1, kPieceFloats / std::max<std::int64_t>(1, block.columns));
    thread_local AlignedBuffer kept;
    float* scratch = kept.reserve((2 * nodes_ + 1) * step * block.columns);
    for (std::int64_t i = 0; i < block.rows; i += step) {
      Piece piece{.rows = std::min(step, block.rows - i), .columns = block.columns};
      piece.place = {place.m0 + i, place.n0, place.batch};
      piece.atoms = &atoms;
      piece.grid = &grid_;
      piece.free = scratch;
      float* accumulator = piece.take();
      for (std::int64_t r = 0; r < piece.rows; ++r) {
        const float* row = block.values + (i + r) * block.ld;
        std::copy(row, row + block.columns, accumulator + r * block.columns);
      }
      piece.accumulator = accumulator;
      const Fragment result = root_.visit(piece);
      for (std::int64_t r = 0; r < piece.rows; ++r) {
        const float* row = result + r * block.columns;
        std::copy(row, row + block.columns, block.values + (i + r) * block.ld);
      }
    }
  }

  void finish() override {
    root_.for_each([](auto& node) {
      if constexpr (requires { node.finish(); }) node.finish();
    });
  }

 private:
  Root root_;
  TileGrid grid_;
  std::int64_t nodes_ = 0;
};

}  // namespace gemm_core::visitor
