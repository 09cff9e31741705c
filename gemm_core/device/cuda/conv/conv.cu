#include "gemm_core/device/cuda/conv/conv.hpp"

#include <algorithm>
#include <optional>

#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/device/conv_lowering.hpp"
#include "gemm_core/device/cuda/conv/conv_tma.hpp"
#include "gemm_core/device/cuda/conv/depthwise.hpp"
#include "gemm_core/device/cuda/gemm/dense_checks.hpp"
#include "gemm_core/device/cuda/tables/table_products.hpp"

namespace gemm_core::cuda {
namespace {

using Code = GemmStatus::Code;
constexpr const char* kDepthwise = "depthwise";
constexpr const char* kTable = "table";

template <class... Parts>
GemmStatus refuse(Code code, const Parts&... parts) {
  return {code, base::concat("conv on CUDA: ", parts...)};
}

int current_device() {
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  return device;
}

// Checks shared with products, by their own name.
GemmStatus renamed(GemmStatus s) {
  constexpr std::size_t kPrefix = 4;  // "gemm"
  if (!s.ok() && s.message.rfind("gemm", 0) == 0) s.message = "conv" + s.message.substr(kPrefix);
  return s;
}

bool is_empty(const ConvArguments& g) {
  return g.problem.batch == 0 && g.operation != ConvOperation::filter_gradient;
}

// How one convolution runs: launches of Hopper kernels, the depthwise kernels or table products.
struct Lowered {
  std::string name = "none";
  std::vector<LoweredConv> launches;
  std::optional<Depthwise> depthwise;
  std::optional<TableProducts> table;
  double cycles = 0;

  std::size_t flag_bytes() const {
    std::size_t most = 0;
    for (const LoweredConv& x : launches) most = std::max(most, x.flag_bytes);
    return most;
  }
  std::size_t workspace_bytes() const {
    if (depthwise) return depthwise->workspace_bytes();
    if (table) return table->workspace_bytes();
    std::size_t sums = 0;
    for (const LoweredConv& x : launches) sums = std::max(sums, x.sum_bytes);
    return sums == 0 ? 0 : flag_bytes() + sums + 256;
  }
  // Launches follow each other, and leave flags at 0: one workspace serves all.
  void bind(void* workspace, cudaStream_t stream) {
    if (table) table->bind(workspace, stream);
    if (launches.empty() || workspace_bytes() == 0) return;
    const std::size_t flags = flag_bytes();
    const auto address = (reinterpret_cast<std::uintptr_t>(workspace) + 255) / 256 * 256;
    if (flags > 0) CUDA_CHECK(cudaMemsetAsync(reinterpret_cast<void*>(address), 0, flags, stream));
    for (LoweredConv& x : launches)
      x.bind(reinterpret_cast<std::uint32_t*>(address), reinterpret_cast<char*>(address) + flags);
  }
};

Lowered by_table(const ConvArguments& g) {
  Lowered lowered;
  lowered.table.emplace(lower_conv(g));
  lowered.name = lowered.table->name();
  return lowered;
}

// Instances that can take the convolution, the cheapest by the model first.
std::vector<Lowered> by_instances(const ConvArguments& g, std::uint32_t group) {
  std::vector<Lowered> list;
  const auto& device = base::cuda::device_info(current_device());
  if (!device.has_wgmma() || g.problem.batch == 0) return list;
  for (const ConvInstance* instance : conv_instances()) {
    Lowered lowered;
    lowered.launches = lower_conv_to(*instance, g, group, device.multiprocessors);
    if (lowered.launches.empty()) continue;
    lowered.name = instance->shape.name;
    for (const LoweredConv& x : lowered.launches) lowered.cycles += x.cycles;
    list.push_back(std::move(lowered));
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const Lowered& x, const Lowered& y) { return x.cycles < y.cycles; });
  return list;
}

Lowered lower(const ConvArguments& g, const ConvPlan& plan) {
  const bool any = plan.kernel.empty();
  if ((any || plan.kernel == kDepthwise) && Depthwise::takes(g)) {
    Lowered lowered;
    lowered.name = kDepthwise;
    lowered.depthwise.emplace(g, base::cuda::device_info(current_device()).multiprocessors);
    return lowered;
  }
  if (plan.kernel.rfind(kTable, 0) != 0) {
    for (Lowered& x : by_instances(g, plan.group)) {
      if (any || x.name == plan.kernel) return std::move(x);
    }
  }
  return by_table(g);
}

GemmStatus check_memory(const ConvArguments& g) {
  const int device = current_device();
  const auto check = [&](const char* name, const ConvTensor& t) {
    return renamed(check_pointer(name, t.data, device));
  };
  if (auto s = check("operand A", g.a); !s.ok()) return s;
  if (auto s = check("operand B", g.b); !s.ok()) return s;
  if (auto s = check("operand D", g.d); !s.ok()) return s;
  if (g.beta != 0) {
    if (auto s = check("operand C", g.c); !s.ok()) return s;
  }
  GemmArguments nodes;
  const DenseProblem shape = conv_shape(g);
  nodes.m = shape.m;
  nodes.n = shape.n;
  nodes.epilogue = g.epilogue;
  return renamed(check_nodes(nodes, device));
}

}  // namespace

struct Conv::Impl {
  Lowered lowered;
  void* workspace = nullptr;
  bool initialized = false;
};

Conv::Conv() : impl_(std::make_unique<Impl>()) {}
Conv::~Conv() = default;
Conv::Conv(Conv&&) noexcept = default;
Conv& Conv::operator=(Conv&&) noexcept = default;

GemmStatus Conv::can_implement(const ConvArguments& g, const ConvPlan& plan) {
  ConvArguments plain = g;  // whose nodes are in device memory
  plain.epilogue.nodes.clear();
  if (auto s = gemm_core::Conv::can_implement(plain); !s.ok()) {
    s.message = "conv on CUDA" + s.message.substr(4);
    return s;
  }
  if (g.path == ConvArguments::Path::gathered)
    return refuse(Code::unsupported, "the gathered path is the CPU's");
  if (!g.epilogue.nodes.empty() &&
      (g.operation == ConvOperation::filter_gradient || g.problem.groups != 1)) {
    return refuse(Code::unsupported, "epilogue nodes on a filter gradient or on ", g.problem.groups,
                  " groups");
  }
  if (!g.epilogue.nodes.empty() &&
      (g.d.dtype == base::DType::f64 || g.d.dtype == base::DType::i32)) {
    return refuse(Code::unsupported, "epilogue nodes on ", base::name(g.d.dtype), " results");
  }
  if (plan.group != 1 && plan.group != 2 && plan.group != 4 && plan.group != 8)
    return refuse(Code::unsupported, "group ", plan.group, ", expected 1, 2, 4 or 8");
  if (auto s = renamed(check_device()); !s.ok()) return s;
  if (is_empty(g)) return {};
  if (auto s = check_memory(g); !s.ok()) return s;
  if (plan.kernel.empty()) return {};
  const auto names = conv_kernel_names(g);
  if (std::find(names.begin(), names.end(), plan.kernel) == names.end())
    return refuse(Code::unsupported, "kernel \"", plan.kernel, "\" cannot take this convolution");
  return {};
}

std::size_t Conv::workspace_size(const ConvArguments& g, const ConvPlan& plan) {
  if (!can_implement(g, plan).ok() || is_empty(g)) return 0;
  return lower(g, plan).workspace_bytes();
}

GemmStatus Conv::initialize(const ConvArguments& g, void* workspace, std::size_t bytes,
                            cudaStream_t stream, const ConvPlan& plan) {
  impl_->initialized = false;
  if (auto s = can_implement(g, plan); !s.ok()) return s;
  impl_->lowered = {};
  if (!is_empty(g)) {
    try {
      impl_->lowered = lower(g, plan);
    } catch (const std::bad_alloc&) {
      const DenseProblem shape = conv_shape(g);
      return refuse(Code::unsupported, "no memory for tables of ", shape.m, " x ", shape.k,
                    " positions");
    }
    const std::size_t needed = impl_->lowered.workspace_bytes();
    if (needed > 0 && (workspace == nullptr || bytes < needed)) {
      return refuse(Code::small_workspace, "workspace has ", workspace ? bytes : 0,
                    " bytes, needs ", needed);
    }
    impl_->lowered.bind(workspace, stream);
  }
  impl_->workspace = workspace;
  impl_->initialized = true;
  return {};
}

GemmStatus Conv::run(cudaStream_t stream) const {
  if (!impl_->initialized) return {Code::not_initialized, "conv on CUDA: run before initialize"};
  const Lowered& lowered = impl_->lowered;
  if (lowered.depthwise) lowered.depthwise->run(impl_->workspace, stream);
  if (lowered.table) lowered.table->launch(stream);
  for (const LoweredConv& x : lowered.launches) x.launch(stream);
  return {};
}

std::string Conv::kernel_name() const { return impl_->lowered.name; }

std::vector<std::string> conv_kernel_names(const ConvArguments& g) {
  std::vector<std::string> names;
  if (is_empty(g) || !Conv::can_implement(g).ok()) return names;
  if (Depthwise::takes(g)) names.emplace_back(kDepthwise);
  for (const Lowered& x : by_instances(g, 8)) names.push_back(x.name);
  names.push_back(by_table(g).name);
  return names;
}

}  // namespace gemm_core::cuda
