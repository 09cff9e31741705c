#include "gemm_core/device/cuda/visitor/visitor_gemm.hpp"

#include <algorithm>
#include <variant>

#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/device/cuda/gemm/dense_checks.hpp"
#include "gemm_core/device/cuda/gemm/gemm_lowering.hpp"
#include "gemm_core/device/cuda/visitor/visitor_lowering.hpp"
#include "gemm_core/device/cuda/visitor/visitor_plan.hpp"
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

// Sums of a product for a pass over them.
GemmArguments with_sums(const GemmArguments& g, float* sums) {
  GemmArguments product = bare_product(g);
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

  Layout(const GemmArguments& g, const VisitorProgram& program, const VisitorPlan& plan) {
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
  if (path != VisitorPath::fastest && path != VisitorPath::interpreted &&
      path != VisitorPath::separate &&
      (is_empty(g) ||
       plan_visitor(g, lowered.program, path).name.find("_program") != std::string::npos ||
       !tree_problem(g)))
    return refuse("no kernel was compiled for the graph of this product");
  return {};
}

}  // namespace

struct VisitorGemm::Impl {
  VisitorPlan plan;
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
  const VisitorPlan plan = plan_visitor(g, lowered.program, path);
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
  x.plan = plan_visitor(g, program, path);
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
  if (!std::holds_alternative<std::monostate>(x.plan.tree)) {
    launch_plan(x.plan, g.compute, stream);
  } else if (!is_empty(g)) {
    (void)x.product.run(stream);
    const auto blocks = ceil_div(g.m, kVisitorBlock) * ceil_div(g.n, kVisitorBlock) * g.batch;
    base::cuda::launch(
        visitor_pass, {.grid = dim3(static_cast<unsigned>(blocks)), .block = dim3(kVisitorThreads)},
        stream, x.pass);
  }
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
