// What VisitorGemm launches: a compiled tree, or the product and a pass over its sums.
#pragma once
#include <string>
#include <variant>

#include "gemm_core/device/cuda/visitor/tree_instances.hpp"
#include "gemm_core/device/cuda/visitor/visitor_gemm.hpp"

namespace gemm_core::cuda {

struct VisitorPlan {
  template <class Activation>
  using Amax = Sm90TreeGemmParams<AmaxTree<Activation>>;
  template <class Element, class Activation>
  using Residual = Sm90TreeGemmParams<ResidualTree<Element, Activation>>;

  std::variant<std::monostate, Amax<AnyActivation>, Amax<Silu>,
               Residual<base::half_t, AnyActivation>, Residual<base::half_t, Silu>,
               Residual<base::bf16_t, AnyActivation>, Residual<base::bf16_t, Silu>,
               Sm90TreeGemmParams<ProgramTree>>
      tree;
  TreeTile tile = TreeTile::in_turn_128;
  std::string name = "none";
  int clusters = 0;
  bool finishes = false;   // partial results are combined by a launch
  bool adds_amax = false;  // the kernel itself combines the largest magnitudes
};

inline bool is_empty(const GemmArguments& g) { return g.m == 0 || g.n == 0 || g.batch == 0; }
// The product alone: alpha, beta and C are nodes of the program.
GemmArguments bare_product(const GemmArguments& arguments);

VisitorPlan plan_visitor(const GemmArguments& arguments, const VisitorProgram& program,
                         VisitorPath path);
// The tree of a plan that has one.
void launch_plan(const VisitorPlan& plan, base::DType compute, cudaStream_t stream);

}  // namespace gemm_core::cuda
