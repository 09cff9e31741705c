// Epilogue trees composed at compile time for kernels whose accumulators stay in registers
// (kernel/sm90_tree_gemm.cuh): no branches but those of the nodes' own.
//
//   using Tree = DeviceTree<DeviceCompute<ElementwiseOp::plus>,
//                           DeviceTree<DeviceActivation, DeviceTree<DeviceScaleShift,
//                           DeviceAccumulator>>, DevicePrefetched>;
//
// A node is a struct with Params (in the kernel's parameters), State (a thread's, over a tile) and
// any of the phases below; the base gives empty ones.
//   begin   before the tile is multiplied: loads from memory to the state
//   share   after it: from the state to kSharedFloats floats a panel of the warpgroup's shared
//           memory; then the warpgroup waits for all of its threads
//   visit   32 values of the thread from those of the children
//   finish  when the thread block has no more tiles; the floats may be used
#pragma once
#include "gemm_core/epilogue/cuda/visitor_interpreter.cuh"

namespace gemm_core {

inline constexpr int kTreeValues = 32;  // of a thread, in 64 x 64 elements of a warpgroup
using TreeValues = float[kTreeValues];
inline constexpr int kTreeColumns = 128;  // of a panel of a tile: one a thread
inline constexpr int kTreePanels = 2;     // of a tile at most

// What a node knows of the tile and of the values at hand.
struct TreePlace {
  VisitorSpot spot;          // of the first value
  int thread = 0;            // of the warpgroup
  int barrier = 0;           // the warpgroup's own
  int panels = 1;            // of the tile: known when the kernel is compiled
  int tile_column = 0;       // of the tile in the result
  int column = 0;            // of the values in the tile
  std::uint32_t shared = 0;  // the node's floats
  std::uint32_t matrix = 0;  // the prefetched matrix: 64 swizzled rows of 128 bytes
};

struct DeviceNode {
  struct Params {};
  struct State {};
  static constexpr int kSharedFloats = 0;  // for each panel of the tile
  static constexpr bool kPrefetches =
      false;  // reads the tile of a matrix that was copied meanwhile
  template <class P, class S>
  static __device__ __forceinline__ void begin(const P&, S&, const TreePlace&) {}
  template <class P, class S>
  static __device__ __forceinline__ void share(const P&, const S&, const TreePlace&) {}
  template <class P, class S>
  static __device__ __forceinline__ void finish(const P&, S&, const TreePlace&) {}
};

namespace detail {

template <class... T>
struct TreePack {};
template <class First, class... Rest>
struct TreePack<First, Rest...> {
  First first;
  TreePack<Rest...> rest;
};

template <class... Nodes>
struct TreeChildren {
  static constexpr int kSharedFloats = 0;
  static constexpr bool kPrefetches = false;
  using Params = TreePack<>;
  using State = TreePack<>;
  static __device__ __forceinline__ void begin(const Params&, State&, const TreePlace&) {}
  static __device__ __forceinline__ void share(const Params&, const State&, const TreePlace&) {}
  static __device__ __forceinline__ void finish(const Params&, State&, const TreePlace&) {}
};
template <class First, class... Rest>
struct TreeChildren<First, Rest...> {
  using Others = TreeChildren<Rest...>;
  static constexpr int kSharedFloats = First::kSharedFloats + Others::kSharedFloats;
  static constexpr bool kPrefetches = First::kPrefetches || Others::kPrefetches;
  struct Params {
    typename First::Params first;
    typename Others::Params rest;
  };
  struct State {
    typename First::State first;
    typename Others::State rest;
  };
  static __device__ __forceinline__ TreePlace after(TreePlace place) {
    place.shared += First::kSharedFloats * place.panels * 4;
    return place;
  }
  static __device__ __forceinline__ void begin(const Params& p, State& s, const TreePlace& at) {
    First::begin(p.first, s.first, at);
    Others::begin(p.rest, s.rest, at);
  }
  static __device__ __forceinline__ void share(const Params& p, const State& s,
                                               const TreePlace& at) {
    First::share(p.first, s.first, at);
    Others::share(p.rest, s.rest, after(at));
  }
  static __device__ __forceinline__ void finish(const Params& p, State& s, const TreePlace& at) {
    First::finish(p.first, s.first, at);
    Others::finish(p.rest, s.rest, after(at));
  }
};

}  // namespace detail

// Children are visited first, left to right, each with the same accumulator.
template <class Node, class... Children>
struct DeviceTree {
  using Below = detail::TreeChildren<Children...>;
  static constexpr int kSharedFloats = Node::kSharedFloats + Below::kSharedFloats;
  static constexpr bool kPrefetches = Node::kPrefetches || Below::kPrefetches;
  static_assert(sizeof...(Children) <= 3, "nodes read at most three values");
  struct Params {
    typename Node::Params node;
    typename Below::Params children;
  };
  struct State {
    typename Node::State node;
    typename Below::State children;
  };
  static __device__ __forceinline__ TreePlace below(TreePlace place) {
    place.shared += Node::kSharedFloats * place.panels * 4;
    return place;
  }
  static __device__ __forceinline__ void begin(const Params& p, State& s, const TreePlace& at) {
    Node::begin(p.node, s.node, at);
    Below::begin(p.children, s.children, below(at));
  }
  static __device__ __forceinline__ void share(const Params& p, const State& s,
                                               const TreePlace& at) {
    Node::share(p.node, s.node, at);
    Below::share(p.children, s.children, below(at));
  }
  static __device__ __forceinline__ void finish(const Params& p, State& s, const TreePlace& at) {
    Node::finish(p.node, s.node, at);
    Below::finish(p.children, s.children, below(at));
  }
  static __device__ __forceinline__ void visit(const Params& p, State& s, const TreePlace& at,
                                               const TreeValues& sums, TreeValues& to) {
    const TreePlace place = below(at);
    if constexpr (sizeof...(Children) == 0) {
      Node::visit(p.node, s.node, at, sums, to);
    } else if constexpr (sizeof...(Children) == 1) {
      TreeValues a;
      visit_child<Children...>(p.children, s.children, place, sums, a);
      Node::visit(p.node, s.node, at, a, to);
    } else if constexpr (sizeof...(Children) == 2) {
      TreeValues a, b;
      visit_two<Children...>(p.children, s.children, place, sums, a, b);
      Node::visit(p.node, s.node, at, a, b, to);
    } else {
      TreeValues a, b, c;
      visit_three<Children...>(p.children, s.children, place, sums, a, b, c);
      Node::visit(p.node, s.node, at, a, b, c, to);
    }
  }

 private:
  template <class A, class... Rest, class P, class S>
  static __device__ __forceinline__ void visit_child(const P& p, S& s, const TreePlace& at,
                                                     const TreeValues& sums, TreeValues& a) {
    A::visit(p.first, s.first, at, sums, a);
  }
  template <class A, class B, class P, class S>
  static __device__ __forceinline__ void visit_two(const P& p, S& s, const TreePlace& at,
                                                   const TreeValues& sums, TreeValues& a,
                                                   TreeValues& b) {
    A::visit(p.first, s.first, at, sums, a);
    B::visit(p.rest.first, s.rest.first, detail::TreeChildren<A, B>::after(at), sums, b);
  }
  template <class A, class B, class C, class P, class S>
  static __device__ __forceinline__ void visit_three(const P& p, S& s, const TreePlace& at,
                                                     const TreeValues& sums, TreeValues& a,
                                                     TreeValues& b, TreeValues& c) {
    visit_two<A, B>(p, s, at, sums, a, b);
    const TreePlace place = detail::TreeChildren<A, B, C>::after(at);
    C::visit(p.rest.rest.first, s.rest.rest.first, detail::TreeChildren<B, C>::after(place), sums,
             c);
  }
};

// The input once; its value is the accumulator of the others and of the output, which gives the
// result.
template <class Input, class Output, class... Others>
struct DeviceSplit {
  using All = detail::TreeChildren<Input, Output, Others...>;
  static constexpr int kSharedFloats = All::kSharedFloats;
  static constexpr bool kPrefetches = All::kPrefetches;
  using Params = typename All::Params;
  using State = typename All::State;
  static __device__ __forceinline__ void begin(const Params& p, State& s, const TreePlace& at) {
    All::begin(p, s, at);
  }
  static __device__ __forceinline__ void share(const Params& p, const State& s,
                                               const TreePlace& at) {
    All::share(p, s, at);
  }
  static __device__ __forceinline__ void finish(const Params& p, State& s, const TreePlace& at) {
    All::finish(p, s, at);
  }
  static __device__ __forceinline__ void visit(const Params& p, State& s, const TreePlace& at,
                                               const TreeValues& sums, TreeValues& to) {
    TreeValues common;
    Input::visit(p.first, s.first, at, sums, common);
    using Rest = detail::TreeChildren<Output, Others...>;
    const TreePlace output = All::after(at);
    visit_others<Others...>(p.rest.rest, s.rest.rest, Rest::after(output), common);
    Output::visit(p.rest.first, s.rest.first, output, common, to);
  }

 private:
  template <class First, class... Rest, class P, class S>
  static __device__ __forceinline__ void visit_others(const P& p, S& s, const TreePlace& at,
                                                      const TreeValues& common) {
    TreeValues unused;
    First::visit(p.first, s.first, at, common, unused);
    if constexpr (sizeof...(Rest) > 0)
      visit_others<Rest...>(p.rest, s.rest, detail::TreeChildren<First, Rest...>::after(at),
                            common);
  }
  template <class P, class S>
  static __device__ __forceinline__ void visit_others(const P&, S&, const TreePlace&,
                                                      const TreeValues&) {}
};

}  // namespace gemm_core
