#include "gemm_core/device/cuda/visitor_gemm.hpp"

#include <algorithm>
#include <variant>

#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/device/cuda/dense_checks.hpp"
#include "gemm_core/device/cuda/gemm_lowering.hpp"
#include "gemm_core/device/cuda/tensor_map.hpp"
#include "gemm_core/device/cuda/tree_instances.hpp"
#include "gemm_core/device/cuda/visitor_lowering.hpp"
#include "gemm_core/kernel/visitor_pass.cuh"

namespace gemm_core::cuda {
namespace {

using base::DType;
using Code = GemmStatus::Code;
using visitor::RuntimeGraph;

constexpr std::size_t kAlignment = 256;
std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}
std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }
bool is_empty(const GemmArguments& g) { return g.m == 0 || g.n == 0 || g.batch == 0; }

// The product alone: alpha, beta and C are nodes of the program.
GemmArguments bare(const GemmArguments& g) {
  GemmArguments product = g;
  product.alpha = 1;
  product.beta = 0;
  product.c = {};
  return product;
}

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

using HalfResidual = ResidualTree<base::half_t>;
using BfloatResidual = ResidualTree<base::bf16_t>;

// What is launched: a compiled tree, or the product and a pass over its sums.
struct Plan {
  std::variant<std::monostate, Sm90TreeGemmParams<AmaxTree>, Sm90TreeGemmParams<HalfResidual>,
               Sm90TreeGemmParams<BfloatResidual>, Sm90TreeGemmParams<ProgramTree>>
      tree;
  std::string name = "none";
  int clusters = 0;
  bool finishes = false;   // partial results are combined by a launch
  bool adds_amax = false;  // the kernel itself combines the largest magnitudes
};

void set_bias(BiasTree::Params& to, const CommonEpilogue& c) {
  to.node = {c.activation, c.parameters};
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

template <class Tree>
bool set_residual(Plan& plan, const GemmArguments& g, const Sm90GemmProblem& problem,
                  const CommonEpilogue& c, const CUtensorMap& map, std::uint32_t warps) {
  auto& params = plan.tree.emplace<Sm90TreeGemmParams<Tree>>(tree_params<Tree>(g, problem));
  params.aux = map;
  params.batch_step_aux = c.residual->batch_stride != 0 ? 1 : 0;
  set_bias(params.tree.children.first.children.first, c);
  params.tree.node = {c.amax, nullptr, warps};
  return true;
}

// A compiled tree for the program, if there is one.
bool plan_common(Plan& plan, const GemmArguments& g, const Sm90GemmProblem& problem,
                 const VisitorProgram& program, std::uint32_t warps) {
  const auto c = common_epilogue_of(program, g.batch);
  if (!c || !DeviceActivation::takes(c->activation)) return false;
  if (c->residual == nullptr) {
    auto& params =
        plan.tree.emplace<Sm90TreeGemmParams<AmaxTree>>(tree_params<AmaxTree>(g, problem));
    set_bias(params.tree.children.first, *c);
    params.tree.node = {c->amax, nullptr, warps};
    plan.name = base::concat(base::name(g.compute), "_tree_bias");
    return true;
  }
  const auto map = map_of_residual(*c->residual, g);
  if (!map) return false;
  plan.name = base::concat(base::name(g.compute), "_tree_residual");
  return g.compute == DType::f16 ? set_residual<HalfResidual>(plan, g, problem, *c, *map, warps)
                                 : set_residual<BfloatResidual>(plan, g, problem, *c, *map, warps);
}

Plan plan_for(const GemmArguments& g, const VisitorProgram& program, VisitorPath path) {
  Plan plan;
  plan.finishes = program.reductions > 0;
  if (path == VisitorPath::separate) return plan;
  const auto problem = tree_problem(g);
  if (!problem) return plan;
  plan.clusters = tree_clusters(g);
  const auto warps = static_cast<std::uint32_t>(plan.clusters) * 2 * 8;  // of consumers
  if (path != VisitorPath::interpreted && plan_common(plan, g, *problem, program, warps)) {
    plan.adds_amax = plan.finishes;
    plan.finishes = false;
    return plan;
  }
  auto& params =
      plan.tree.emplace<Sm90TreeGemmParams<ProgramTree>>(tree_params<ProgramTree>(g, *problem));
  params.tree.node = program;
  plan.name = base::concat(base::name(g.compute), "_tree_program");
  return plan;
}

// Sums of a product for a pass over them.
GemmArguments with_sums(const GemmArguments& g, float* sums) {
  GemmArguments product = bare(g);
  product.d = {};
  product.d.data = sums;
  product.d.dtype = DType::f32;
  product.d.row_stride = ceil_div(g.n, 8) * 8;
  product.d.batch_stride = product.d.row_stride * g.m;
  return product;
}
std::size_t sum_bytes(const GemmArguments& g) {
  return aligned(static_cast<std::size_t>(g.batch * g.m * ceil_div(g.n, 8) * 8) * sizeof(float));
}

// The workspace: two words of amax, partial results, fp32 sums, what the product needs.
struct Layout {
  std::size_t scratch = 0, partials = 0, sums = 0, product = 0;

  Layout(const GemmArguments& g, const VisitorProgram& program, const Plan& plan) {
    if (plan.adds_amax) scratch = kAlignment;
    if (plan.finishes) {
      for (int i = 0; i < program.reductions; ++i)
        partials += bytes_of(g, program.nodes[program.reduction[i].node]);
    }
    if (std::holds_alternative<std::monostate>(plan.tree) && !is_empty(g)) {
      sums = sum_bytes(g);
      // Any address will do to ask how much the product needs.
      product = g.k == 0 ? 0 : aligned(Gemm::workspace_size(with_sums(g, any_device_memory(g))));
    }
  }
  std::size_t bytes() const {
    const std::size_t all = scratch + partials + sums + product;
    return all == 0 ? 0 : all + kAlignment;  // to round the address up
  }
  static std::size_t bytes_of(const GemmArguments& g, const VisitorNode& node) {
    const auto count = VisitorBlocks{g.m, g.n}.count(node.axis) * g.batch;
    return aligned(static_cast<std::size_t>(count) * sizeof(float));
  }

 private:
  static float* any_device_memory(const GemmArguments& g) {
    const auto address =
        reinterpret_cast<std::uintptr_t>(g.d.pointers ? g.d.pointers[0] : g.d.data);
    return reinterpret_cast<float*>(address / 16 * 16);
  }
};

GemmStatus check_pointers(const GemmArguments& g, const LoweredVisitor& lowered) {
  if (is_empty(g)) return {};
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  const auto check = [&](const std::string& name, const void* pointer) -> GemmStatus {
    if (pointer == nullptr) return {};
    return check_pointer(base::concat("epilogue node ", name).c_str(), pointer, device);
  };
  for (std::size_t i = 0; i < lowered.names.size(); ++i) {
    const VisitorNode& node = lowered.program.nodes[i];
    if (auto s = check(lowered.names[i], node.data); !s.ok()) return s;
    for (int f = 0; f < node.factor_count; ++f) {
      const VisitorFactor& factor = lowered.program.factor[node.first_factor + f];
      if (auto s = check(lowered.names[i], factor.pointer); !s.ok()) return s;
    }
  }
  for (int i = 0; i < lowered.program.reductions; ++i) {
    const VisitorReduction& r = lowered.program.reduction[i];
    if (auto s = check(lowered.names[static_cast<std::size_t>(r.node)], r.out); !s.ok()) return s;
  }
  return {};
}

GemmStatus lower(const GemmArguments& g, const RuntimeGraph& graph, VisitorPath path,
                 LoweredVisitor& lowered) {
  const auto refuse = [](const auto&... why) {
    return GemmStatus{Code::unsupported, base::concat("gemm on CUDA: ", why...)};
  };
  if (g.visitor != nullptr || !g.epilogue.nodes.empty())
    return refuse("a visitor graph takes the place of epilogue nodes and of other visitors");
  if (auto s = check_dense(g); !s.ok()) return s;
  constexpr std::int64_t kLimit = (std::int64_t{1} << 31) - 512;
  if (g.m >= kLimit || g.n >= kLimit || g.batch >= kLimit ||
      ceil_div(g.m, 64) * ceil_div(g.n, 64) * g.batch >= kLimit)
    return refuse("a visitor graph over [", g.m, ", ", g.n, "] x ", g.batch, " is too large");
  if (g.compute == DType::f64 || is_complex(g.compute) || g.d.dtype == DType::i32)
    return refuse("visitor graphs work in fp32; results of ", base::name(g.d.dtype), " as ",
                  base::name(g.compute), " are not supported");
  if (g.d.pointers != nullptr || (g.beta != 0 && g.c.pointers != nullptr))
    return refuse("pointer arrays of C and D do not go with a visitor graph");
  if (auto s = lower_visitor(g, graph, lowered); !s.ok()) return s;
  if (auto s = check_pointers(g, lowered); !s.ok()) return s;
  constexpr std::int64_t kMostBatches = 65535;  // of a grid
  if (lowered.program.reductions > 0 && g.batch > kMostBatches)
    return refuse("reductions over ", g.batch, " batches, at most ", kMostBatches);
  if (path == VisitorPath::interpreted && !is_empty(g) && !tree_problem(g))
    return refuse("no kernel interprets the graph of this product in its store path");
  if (path == VisitorPath::compiled &&
      (is_empty(g) ||
       plan_for(g, lowered.program, path).name.find("_program") != std::string::npos ||
       !tree_problem(g)))
    return refuse("no kernel was compiled for the graph of this product");
  return {};
}

}  // namespace

// By the dense instance of the same tile.
std::optional<Sm90GemmProblem> tree_problem(const GemmArguments& g) {
  if (is_empty(g) || g.k == 0 || g.a.pointers || g.b.pointers || g.d.pointers ||
      !current_device().has_wgmma() || (g.compute != DType::f16 && g.compute != DType::bf16) ||
      g.d.dtype != g.compute || (g.n > 1 && g.d.column_stride != 1)) {
    return std::nullopt;
  }
  const DenseProduct p = lower_product(bare(g));
  for (const DenseInstance* x : dense_instances()) {
    if (x->element != g.compute || !x->k_major_a || !x->k_major_b || x->tile_m != 128 ||
        x->tile_n != 128 || x->cluster != 2 || !x->alternates)
      continue;
    const auto problem = problem_for(*x, p);
    if (problem && problem->mode == DenseStoreMode::bulk_16) return problem;
  }
  return std::nullopt;
}

struct VisitorGemm::Impl {
  Plan plan;
  LoweredVisitor lowered;
  GemmArguments arguments;
  Gemm product;  // of a pass over its sums
  VisitorPassParams pass;
  bool initialized = false;
};

VisitorGemm::VisitorGemm() : impl_(std::make_unique<Impl>()) {}
VisitorGemm::~VisitorGemm() = default;
VisitorGemm::VisitorGemm(VisitorGemm&&) noexcept = default;
VisitorGemm& VisitorGemm::operator=(VisitorGemm&&) noexcept = default;

GemmStatus VisitorGemm::can_implement(const GemmArguments& g, const RuntimeGraph& graph,
                                      VisitorPath path) {
  LoweredVisitor lowered;
  return lower(g, graph, path, lowered);
}

std::size_t VisitorGemm::workspace_size(const GemmArguments& g, const RuntimeGraph& graph,
                                        VisitorPath path) {
  LoweredVisitor lowered;
  if (!lower(g, graph, path, lowered).ok()) return 0;
  const Plan plan = plan_for(g, lowered.program, path);
  return Layout(g, lowered.program, plan).bytes();
}

GemmStatus VisitorGemm::initialize(const GemmArguments& g, const RuntimeGraph& graph,
                                   void* workspace, std::size_t bytes, cudaStream_t stream,
                                   VisitorPath path) {
  Impl& x = *impl_;
  x.initialized = false;
  if (auto s = lower(g, graph, path, x.lowered); !s.ok()) return s;
  VisitorProgram& program = x.lowered.program;
  x.arguments = g;
  x.plan = plan_for(g, program, path);
  const Layout layout(g, program, x.plan);
  if (layout.bytes() > 0 && (workspace == nullptr || bytes < layout.bytes()))
    return {Code::small_workspace,
            base::concat("gemm on CUDA: workspace has ", workspace ? bytes : 0, " bytes, needs ",
                         layout.bytes())};
  const auto address =
      (reinterpret_cast<std::uintptr_t>(workspace) + kAlignment - 1) / kAlignment * kAlignment;
  char* to = reinterpret_cast<char*>(address);
  if (layout.scratch > 0) {
    CUDA_CHECK(cudaMemsetAsync(to, 0, 2 * sizeof(std::uint32_t), stream));
    std::visit(
        [&]<class Params>(Params& params) {
          if constexpr (requires { params.tree.node.scratch; })
            params.tree.node.scratch = reinterpret_cast<std::uint32_t*>(to);
        },
        x.plan.tree);
    to += layout.scratch;
  }
  if (x.plan.finishes) {
    for (int i = 0; i < program.reductions; ++i) {
      VisitorNode& node = program.nodes[program.reduction[i].node];
      node.data = to;
      to += Layout::bytes_of(g, node);
    }
  }
  if (auto* params = std::get_if<Sm90TreeGemmParams<ProgramTree>>(&x.plan.tree))
    params->tree.node = program;
  if (std::holds_alternative<std::monostate>(x.plan.tree) && !is_empty(g)) {
    auto* sums = reinterpret_cast<float*>(to);
    to += layout.sums;
    const GemmArguments product = with_sums(g, sums);
    if (auto s = x.product.initialize(product, to, layout.product, stream); !s.ok()) return s;
    x.pass = {program, store_of(g), sums, product.d.row_stride};
    x.pass.m = static_cast<int>(g.m);
    x.pass.n = static_cast<int>(g.n);
    x.pass.batch = static_cast<int>(g.batch);
    x.plan.name = base::concat("visitor_pass after ", x.product.kernel_name());
  }
  x.initialized = true;
  return {};
}

GemmStatus VisitorGemm::run(cudaStream_t stream) const {
  const Impl& x = *impl_;
  if (!x.initialized) return {Code::not_initialized, "gemm on CUDA: run before initialize"};
  const GemmArguments& g = x.arguments;
  const auto launch_tree = [&]<class Params>(const Params& params) {
    using Variant = std::remove_cvref_t<Params>;
    if constexpr (std::is_same_v<Variant, Sm90TreeGemmParams<HalfResidual>>) {
      launch_tree_gemm<base::half_t, HalfResidual>(params, x.plan.clusters, stream);
    } else if constexpr (std::is_same_v<Variant, Sm90TreeGemmParams<BfloatResidual>>) {
      launch_tree_gemm<base::bf16_t, BfloatResidual>(params, x.plan.clusters, stream);
    } else if constexpr (!std::is_same_v<Variant, std::monostate>) {
      if (g.compute == DType::f16)
        launch_tree_gemm<base::half_t>(params, x.plan.clusters, stream);
      else
        launch_tree_gemm<base::bf16_t>(params, x.plan.clusters, stream);
    } else if (!is_empty(g)) {
      (void)x.product.run(stream);
      const auto blocks = ceil_div(g.m, kVisitorBlock) * ceil_div(g.n, kVisitorBlock) * g.batch;
      base::cuda::launch(
          visitor_pass,
          {.grid = dim3(static_cast<unsigned>(blocks)), .block = dim3(kVisitorThreads)}, stream,
          x.pass);
    }
  };
  std::visit(launch_tree, x.plan.tree);
  if (!x.plan.finishes) return {};
  const VisitorProgram& program = x.lowered.program;
  VisitorFinishParams finish{program, static_cast<int>(g.m), static_cast<int>(g.n),
                             static_cast<int>(g.batch)};
  std::int64_t longest = 0, batches = 1;
  for (int i = 0; i < program.reductions; ++i) {
    const VisitorReduction& r = program.reduction[i];
    longest = std::max(longest, VisitorBlocks{g.m, g.n}.length(program.nodes[r.node].axis));
    if (r.batch_stride != 0) batches = std::max(batches, g.batch);
  }
  base::cuda::launch(
      visitor_finish,
      {.grid = dim3(static_cast<unsigned>(ceil_div(longest, kFinishElements)),
                    static_cast<unsigned>(batches), static_cast<unsigned>(program.reductions)),
       .block = dim3(kFinishElements * kFinishParts)},
      stream, finish);
  return {};
}

std::string VisitorGemm::kernel_name() const { return impl_->plan.name; }

}  // namespace gemm_core::cuda
