#include "gemm_core/device/cuda/visitor/visitor_plan.hpp"

#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/device/cuda/gemm/gemm_lowering.hpp"
#include "gemm_core/device/cuda/tensor_map.hpp"
#include "gemm_core/device/cuda/visitor/visitor_lowering.hpp"

namespace gemm_core::cuda {
namespace {

using base::DType;

std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }

const base::cuda::DeviceInfo& current_device() {
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  return base::cuda::device_info(device);
}

std::optional<CUtensorMap> map_of_residual(const VisitorNode& node, const GemmArguments& g) {
  if (node.type != g.d.dtype || (g.n > 1 && node.column_stride != 1)) return std::nullopt;
  const std::int64_t bytes = base::bytes(node.type), line = ceil_div(g.n * bytes, 16) * 16;
  const std::int64_t batch = node.batch_stride != 0 ? g.batch : 1;
  TensorMapDesc desc{.data = node.data, .element = node.type, .inner = g.n, .rows = g.m};
  desc.batch = batch;
  desc.row_stride = g.m > 1 ? node.row_stride * bytes : line;
  desc.batch_stride = batch > 1 ? node.batch_stride * bytes : line * g.m;
  desc.box_inner = static_cast<int>(128 / bytes);
  desc.box_rows = 64;
  return make_tensor_map(desc);
}

void set_activation(DeviceActivation::Params& to, const CommonEpilogue& c) {
  to = {c.activation, c.parameters};
}
void set_activation(OpParameters& to, const CommonEpilogue& c) { to = c.parameters; }

template <class Params>  // of a BiasTree
void set_bias(Params& to, const CommonEpilogue& c) {
  set_activation(to.node, c);
  DeviceScaleShift::Params& scale_shift = to.children.first.node;
  if (c.scale != nullptr) {
    scale_shift.scale = static_cast<const float*>(c.scale->data);
    scale_shift.scale_batch_stride = c.scale->batch_stride;
  }
  if (c.shift != nullptr) {
    scale_shift.shift = static_cast<const float*>(c.shift->data);
    scale_shift.shift_batch_stride = c.shift->batch_stride;
  }
  scale_shift.alpha = c.alpha.value;
  scale_shift.alpha_pointer = c.alpha.pointer;
  scale_shift.alpha_batch_stride = c.alpha.batch_stride;
}

template <class Activation>
void set_amax(VisitorPlan& plan, const GemmArguments& g, const Sm90GemmProblem& problem,
              const CommonEpilogue& c, std::uint32_t groups) {
  using Tree = AmaxTree<Activation>;
  auto& params =
      plan.tree.emplace<Sm90TreeGemmParams<Tree>>(tree_params<Tree>(g, problem, plan.tile));
  set_bias(params.tree.children.first, c);
  params.tree.node = {c.amax, nullptr, groups};
}

template <class Element, class Activation>
void set_residual(VisitorPlan& plan, const GemmArguments& g, const Sm90GemmProblem& problem,
                  const CommonEpilogue& c, const CUtensorMap& map, std::uint32_t groups) {
  using Tree = ResidualTree<Element, Activation>;
  auto& params =
      plan.tree.emplace<Sm90TreeGemmParams<Tree>>(tree_params<Tree>(g, problem, plan.tile));
  params.aux = map;
  params.batch_step_aux = c.residual->batch_stride != 0 ? 1 : 0;
  set_bias(params.tree.children.first.children.first, c);
  params.tree.node = {c.amax, nullptr, groups};
}

// One tile's tree is hidden behind another's products, unless larger tiles are asked for, which
// read less but hide nothing: at 4096^3 they are up to 4 % faster on a device that does not
// throttle, 7 % slower on one that does; elsewhere slower (docs/performance_gpu.md).
TreeTile tile_of(VisitorPath path) {
  return path == VisitorPath::compiled_256 ? TreeTile::shared_256 : TreeTile::in_turn_128;
}

// A compiled tree for the program, if there is one.
bool plan_common(VisitorPlan& plan, const GemmArguments& g, const Sm90GemmProblem& problem,
                 const VisitorProgram& program, std::uint32_t groups) {
  const char* const suffix = plan.tile == TreeTile::in_turn_128 ? "_128x128" : "_128x256";
  const auto c = common_epilogue_of(program, g.batch);
  if (!c || !DeviceActivation::takes(c->activation)) return false;
  const bool is_silu = plan.tile == TreeTile::in_turn_128 && c->activation == ElementwiseOp::silu;
  const char* const activation = is_silu ? "_silu" : "";
  if (c->residual == nullptr) {
    const auto set = is_silu ? set_amax<Silu> : set_amax<AnyActivation>;
    set(plan, g, problem, *c, groups);
    plan.name = base::concat(base::name(g.compute), "_tree_bias", activation, suffix);
    return true;
  }
  const auto map = map_of_residual(*c->residual, g);
  if (!map) return false;
  plan.name = base::concat(base::name(g.compute), "_tree_residual", activation, suffix);
  const auto set =
      g.compute == DType::f16
          ? (is_silu ? set_residual<base::half_t, Silu> : set_residual<base::half_t, AnyActivation>)
          : (is_silu ? set_residual<base::bf16_t, Silu>
                     : set_residual<base::bf16_t, AnyActivation>);
  set(plan, g, problem, *c, *map, groups);
  return true;
}

// Of which trees tiles of 128 x 256 were compiled.
template <class Tree>
constexpr bool kHasWideTiles = !std::is_same_v<Tree, ProgramTree>;
template <>
constexpr bool kHasWideTiles<AmaxTree<Silu>> = false;
template <class Element>
constexpr bool kHasWideTiles<ResidualTree<Element, Silu>> = false;

// Of which element a tree is, where it can be of one alone.
template <class Tree>
struct TreeElement {
  using type = void;
};
template <class Element, class Activation>
struct TreeElement<ResidualTree<Element, Activation>> {
  using type = Element;
};

template <class Element, class Tree>
void launch(const Sm90TreeGemmParams<Tree>& params, const VisitorPlan& plan, cudaStream_t stream) {
  if (plan.tile == TreeTile::in_turn_128)
    launch_tree_gemm<Element, Tree>(params, plan.clusters, stream);
  else if constexpr (kHasWideTiles<Tree>)
    launch_tree_gemm<Element, Tree, TreeTile::shared_256>(params, plan.clusters, stream);
}

void launch_for(std::monostate, const VisitorPlan&, DType, cudaStream_t) {}
template <class Tree>
void launch_for(const Sm90TreeGemmParams<Tree>& params, const VisitorPlan& plan, DType compute,
                cudaStream_t stream) {
  using Element = typename TreeElement<Tree>::type;
  if constexpr (!std::is_void_v<Element>)
    launch<Element>(params, plan, stream);
  else if (compute == DType::f16)
    launch<base::half_t>(params, plan, stream);
  else
    launch<base::bf16_t>(params, plan, stream);
}

}  // namespace

GemmArguments bare_product(const GemmArguments& g) {
  GemmArguments product = g;
  product.alpha = 1;
  product.beta = 0;
  product.c = {};
  return product;
}

// By the dense instance of the same tile.
std::optional<Sm90GemmProblem> tree_problem(const GemmArguments& g, TreeTile tile) {
  const Sm90DenseTile t = dense_tile_of(tile);
  if (is_empty(g) || g.k == 0 || g.a.pointers || g.b.pointers || g.d.pointers ||
      !current_device().has_wgmma() || (g.compute != DType::f16 && g.compute != DType::bf16) ||
      g.d.dtype != g.compute || (g.n > 1 && g.d.column_stride != 1)) {
    return std::nullopt;
  }
  const DenseProduct p = lower_product(bare_product(g));
  for (const DenseInstance* x : dense_instances()) {
    if (x->element != g.compute || !x->k_major_a || !x->k_major_b || x->tile_m != t.m ||
        x->tile_n != t.n || x->cluster != t.cluster || x->alternates != t.alternates)
      continue;
    const auto problem = problem_for(*x, p);
    if (problem && problem->mode == DenseStoreMode::bulk_16) return problem;
  }
  return std::nullopt;
}

VisitorPlan plan_visitor(const GemmArguments& g, const VisitorProgram& program, VisitorPath path) {
  VisitorPlan plan;
  plan.finishes = program.reductions > 0;
  if (path == VisitorPath::separate) return plan;
  plan.tile = tile_of(path);
  if (const auto problem = tree_problem(g, plan.tile);
      problem && path != VisitorPath::interpreted) {
    plan.clusters = tree_clusters(g, plan.tile);
    const int consumers = 2 * dense_tile_of(plan.tile).cluster;
    const auto groups = static_cast<std::uint32_t>(plan.clusters * consumers);
    if (plan_common(plan, g, *problem, program, groups)) {
      plan.adds_amax = plan.finishes;
      plan.finishes = false;
      return plan;
    }
  }
  // Interpreting a graph in the store path takes longer than a launch of its own (measured).
  if (path == VisitorPath::fastest) return plan;
  plan.tile = TreeTile::in_turn_128;
  const auto problem = tree_problem(g);
  if (!problem) return plan;
  plan.clusters = tree_clusters(g);
  auto& params =
      plan.tree.emplace<Sm90TreeGemmParams<ProgramTree>>(tree_params<ProgramTree>(g, *problem));
  params.tree.node = program;
  plan.name = base::concat(base::name(g.compute), "_tree_program");
  return plan;
}

void launch_plan(const VisitorPlan& plan, DType compute, cudaStream_t stream) {
  std::visit([&]<class Params>(const Params& params) { launch_for(params, plan, compute, stream); },
             plan.tree);
}

}  // namespace gemm_core::cuda
