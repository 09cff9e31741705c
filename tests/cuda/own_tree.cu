#include "tests/cuda/own_tree.hpp"

#include "gemm_core/device/cuda/visitor/tree_instance.cuh"

namespace cuda_tests {

using namespace gemm_core;  // NOLINT: a test file

bool run_own_tree(const GemmArguments& arguments, const float* bound, const float* row, float* copy,
                  cudaStream_t stream) {
  using Bound = DeviceTree<DeviceCompute<ElementwiseOp::maximum>, DeviceAccumulator, DeviceColumn>;
  using Output =
      DeviceTree<DeviceCompute<ElementwiseOp::minus>,
                 DeviceTree<DeviceCompute<ElementwiseOp::multiplies>, DeviceAccumulator, DeviceRow>,
                 DeviceScalar>;
  using Copy = DeviceTree<DeviceStore, DeviceAccumulator>;
  using Tree = DeviceSplit<Bound, Output, Copy>;
  const auto problem = cuda::tree_problem(arguments);
  if (!problem) return false;
  auto params = cuda::tree_params<Tree>(arguments, *problem);
  params.tree.first.children.rest.first.data = bound;
  params.tree.rest.first.children.first.children.rest.first.data = row;
  params.tree.rest.first.children.rest.first.value = 3;
  VisitorNode& store = params.tree.rest.rest.first.node;
  store.kind = VisitorKind::store;
  store.data = copy;
  store.row_stride = arguments.n;
  store.pairs = arguments.n % 2 == 0;
  cuda::launch_tree_gemm<base::half_t, Tree>(params, cuda::tree_clusters(arguments), stream);
  return true;
}

}  // namespace cuda_tests
