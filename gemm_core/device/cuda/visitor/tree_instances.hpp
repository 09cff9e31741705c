// The epilogue trees that are compiled, and how to launch a product with one. A tree of the
// caller's own, in a file that nvcc compiles and that includes tree_instance.cuh:
//
//   using Tree = DeviceTree<DeviceCompute<ElementwiseOp::maximum>, DeviceAccumulator, DeviceRow>;
//   auto params = tree_params<Tree>(args, *tree_problem(args));
//   params.tree.children.rest.first = {limits, 0, 0.f};
//   launch_tree_gemm<base::half_t, Tree>(params, tree_clusters(args), stream);
#pragma once
#include <algorithm>
#include <optional>

#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/device/gemm.hpp"
#include "gemm_core/kernel/sm90_gemm.cuh"
#include "gemm_core/kernel/sm90_tree_gemm.cuh"

namespace gemm_core::cuda {

// amax(activation(scale * acc + shift)), and the same with a residual before amax; the activation
// is chosen where the tree runs, or is SiLU: without a choice the machine's exponentials overlap
// what surrounds them.
using AnyActivation = DeviceActivation;
using Silu = DeviceCompute<ElementwiseOp::silu>;
template <class Activation>
using BiasTree = DeviceTree<Activation, DeviceTree<DeviceScaleShift, DeviceAccumulator>>;
template <class Activation>
using AmaxTree = DeviceTree<DeviceAmax, BiasTree<Activation>>;
template <class Element, class Activation>
using ResidualTree =
    DeviceTree<DeviceAmax, DeviceTree<DeviceCompute<ElementwiseOp::plus>, BiasTree<Activation>,
                                      DevicePrefetched<Element>>>;
using ProgramTree = DeviceTree<DeviceProgram>;

// Tensor maps and extents of A B; alpha, beta, C and nodes are the tree's. Empty where the tree
// kernels cannot take the product: visitor_gemm.hpp says which ones they do. All of these functions
// and the launch have to be told the same tile.
std::optional<Sm90GemmProblem> tree_problem(const GemmArguments& arguments,
                                            TreeTile tile = TreeTile::in_turn_128);

inline kernel::TileOrder tree_order(const GemmArguments& g, TreeTile tile = TreeTile::in_turn_128) {
  const Sm90DenseTile t = dense_tile_of(tile);
  return kernel::TileOrder(
      {(g.m + t.m * t.cluster - 1) / (t.m * t.cluster), (g.n + t.n - 1) / t.n, g.batch},
      kernel::Raster::heuristic, 8);
}
// As many as the current device runs, or as there are tiles of a cluster.
inline int tree_clusters(const GemmArguments& g, TreeTile tile = TreeTile::in_turn_128) {
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  const int most = base::cuda::device_info(device).multiprocessors / dense_tile_of(tile).cluster;
  return static_cast<int>(std::min<std::int64_t>(tree_order(g, tile).count(), most));
}

template <class Tree>
Sm90TreeGemmParams<Tree> tree_params(const GemmArguments& g, const Sm90GemmProblem& problem,
                                     TreeTile tile = TreeTile::in_turn_128) {
  Sm90TreeGemmParams<Tree> params;
  params.a = problem.a;
  params.b = problem.b;
  params.d = params.aux = problem.d;
  params.order = tree_order(g, tile);
  params.k_stages = problem.k_stages;
  params.batch_step_a = problem.batch_step_a;
  params.batch_step_b = problem.batch_step_b;
  params.m = static_cast<int>(g.m);
  params.n = static_cast<int>(g.n);
  return params;
}

// Both operands K-major.
template <class Element, class Tree, TreeTile kTile = TreeTile::in_turn_128>
void launch_tree_gemm(const Sm90TreeGemmParams<Tree>& params, int clusters, cudaStream_t stream);

}  // namespace gemm_core::cuda
