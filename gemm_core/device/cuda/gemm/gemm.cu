#include "gemm_core/device/cuda/gemm/gemm.hpp"

#include <algorithm>

#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/device/cuda/gather/list_gemm.hpp"
#include "gemm_core/device/cuda/gemm/complex_gemm.hpp"
#include "gemm_core/device/cuda/gemm/dense_checks.hpp"
#include "gemm_core/device/cuda/gemm/f64_gemm.hpp"
#include "gemm_core/device/cuda/gemm/gemm_lowering.hpp"
#include "gemm_core/device/cuda/gemm/gemm_tuning.hpp"
#include "gemm_core/device/cuda/mixed/mixed_lowering.hpp"
#include "gemm_core/device/cuda/mixed/widened_gemm.hpp"
#include "gemm_core/device/cuda/visitor/visitor_gemm.hpp"

namespace gemm_core::cuda {
namespace {

using Code = GemmStatus::Code;

bool is_empty(const GemmArguments& g) { return g.m == 0 || g.n == 0 || g.batch == 0; }

int multiprocessors() {
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  return base::cuda::device_info(device).multiprocessors;
}

bool has_wgmma() {
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  return base::cuda::device_info(device).has_wgmma();
}

// Instances that could take the product, the cheapest by the model first.
std::vector<const DenseInstance*> candidates(const DenseProduct& p) {
  std::vector<const DenseInstance*> list;
  if (!has_wgmma()) return list;
  const int processors = multiprocessors();
  for (const DenseInstance* instance : dense_instances()) {
    if (lower_to(*instance, p, 8, processors)) list.push_back(instance);
  }
  // Who asks for cut sums gets a kernel that cuts them.
  const auto cuts = [&](const DenseInstance* x) {
    return plan_for(*x, p, processors).stream_units() > 0;
  };
  if (std::any_of(list.begin(), list.end(), cuts) &&
      p.schedule.decomposition != kernel::Decomposition::heuristic) {
    std::erase_if(list, [&](const DenseInstance* x) { return !cuts(x); });
  }
  std::stable_sort(list.begin(), list.end(), [&](const auto* x, const auto* y) {
    return estimate_cycles(*x, p, processors) < estimate_cycles(*y, p, processors);
  });
  return list;
}

constexpr std::size_t kArrays = 4;  // A, B, C, D

bool reads_c(const GemmArguments& g) { return g.beta != 0 || g.beta_imag != 0; }

bool has_pointers(const GemmArguments& g) {
  return g.a.pointers || g.b.pointers || g.d.pointers || (reads_c(g) && g.c.pointers);
}

// A product of a pointer array as one of each batch.
std::vector<GemmArguments> batches_of(const GemmArguments& g) {
  std::vector<GemmArguments> list(static_cast<std::size_t>(g.batch), g);
  for (std::int64_t l = 0; l < g.batch; ++l) {
    GemmArguments& one = list[static_cast<std::size_t>(l)];
    one.batch = 1;
    const auto take = [&](auto& o) {
      if (o.pointers != nullptr) {
        o.data = o.pointers[l];
      } else if (o.data != nullptr) {
        const std::int64_t bytes = l * o.batch_stride * base::bits(o.dtype) / 8;
        o.data = const_cast<char*>(static_cast<const char*>(o.data)) + bytes;
      }
      o.pointers = nullptr;
      o.batch_stride = 0;
    };
    take(one.a);
    take(one.b);
    take(one.c);
    take(one.d);
  }
  return list;
}

// The WGMMA kernel that takes all batches of a pointer array in one launch, as groups; or "".
std::string grouped_kernel(const GemmArguments& g) {
  const bool is_whole = base::bits(g.a.dtype) >= 8 && base::bits(g.b.dtype) >= 8;
  return has_pointers(g) && is_whole ? GroupedGemm::common_kernel(batches_of(g)) : "";
}

// By the kernel that the plan names, else by the model's choice; empty where it cannot be had.
std::optional<LoweredGemm> lower_by(const DenseProduct& p, const std::string& kernel,
                                    std::uint32_t group) {
  const auto is_wanted = [&](const std::string& name) { return kernel.empty() || kernel == name; };
  const int processors = multiprocessors();
  for (const DenseInstance* instance : candidates(p)) {
    if (is_wanted(instance->name)) return lower_to(*instance, p, group, processors);
  }
  if (has_wgmma()) {
    for (const MixedInstance* instance : mixed_candidates(p, processors)) {
      if (is_wanted(instance->name)) return lower_to(*instance, p, group, processors);
    }
    const auto f64 = lower_to_f64(p, group, processors);
    if (f64 && is_wanted(f64->name)) return f64;
  }
  LoweredGemm fallback = lower_to_fallback(p, group);
  if (!is_wanted(fallback.name)) return std::nullopt;
  return fallback;
}

std::optional<LoweredGemm> lower(const GemmArguments& g, const GemmPlan& plan) {
  if (is_complex(g.compute)) {
    LoweredGemm lowered = lower_complex(g, plan.group);
    if (!plan.kernel.empty() && plan.kernel != lowered.name) return std::nullopt;
    return lowered;
  }
  const DenseProduct p = lower_product(g);
  if (plan.kernel.empty() && g.schedule.decomposition == kernel::Decomposition::data_parallel) {
    const std::string measured = default_kernel(tuning_key(g));
    if (!measured.empty()) {
      if (auto lowered = lower_by(p, measured, plan.group)) return lowered;
    }
  }
  return lower_by(p, plan.kernel, plan.group);
}

// Copies pointer arrays to the workspace and makes `device` point there.
GemmArguments with_device_pointers(const GemmArguments& g, void* workspace, cudaStream_t stream) {
  GemmArguments device = g;
  if (!reads_c(g)) device.c = {};
  if (is_empty(g) || !has_pointers(device)) return device;
  const auto address = (reinterpret_cast<std::uintptr_t>(workspace) + 15) / 16 * 16;
  auto* to = reinterpret_cast<void**>(address);
  const auto move = [&](auto& pointers) {
    if (pointers == nullptr) return;
    CUDA_CHECK(cudaMemcpyAsync(to, pointers, static_cast<std::size_t>(g.batch) * sizeof(void*),
                               cudaMemcpyHostToDevice, stream));
    pointers = reinterpret_cast<std::remove_reference_t<decltype(pointers)>>(to);
    to += g.batch;
  };
  move(device.a.pointers);
  move(device.b.pointers);
  move(device.c.pointers);
  move(device.d.pointers);
  return device;
}

// Nodes for which an epilogue tree was compiled run in its kernel, as a graph behind the product.
struct AsTree {
  GemmArguments product;
  visitor::RuntimeGraph graph;
};
std::optional<AsTree> as_tree(const GemmArguments& g, const GemmPlan& plan) {
  // Narrow results leave half of the tree kernels' tiles empty; a caller who names a kernel or asks
  // for cut sums gets those.
  if (g.epilogue.nodes.empty() || !plan.kernel.empty() || g.n <= 64 ||
      g.schedule.decomposition != kernel::Decomposition::data_parallel)
    return std::nullopt;
  AsTree tree{g, visitor::graph_of(g.epilogue)};
  tree.product.epilogue.nodes.clear();
  if (!VisitorGemm::can_implement(tree.product, tree.graph, VisitorPath::compiled).ok())
    return std::nullopt;
  return tree;
}

// Operands that are written as what is multiplied before they are.
bool takes_widened(const GemmArguments& g) {
  return has_wgmma() && !has_lists(g) && WidenedGemm::takes(g);
}
bool widening_pays(const GemmArguments& g) {
  return WidenedGemm::pays(g, !mixed_candidates(lower_product(g), multiprocessors()).empty());
}
bool runs_widened(const GemmArguments& g, const GemmPlan& plan) {
  if (is_empty(g) || !takes_widened(g)) return false;
  return plan.kernel.empty() ? widening_pays(g) : plan.kernel == WidenedGemm::kName;
}

bool runs_grouped(const GemmArguments& g, const GemmPlan& plan) {
  if (is_empty(g) || !has_pointers(g) || has_lists(g)) return false;
  const std::string name = grouped_kernel(g);
  return !name.empty() && (plan.kernel.empty() || plan.kernel == name);
}

}  // namespace

struct Gemm::Impl {
  LoweredGemm lowered;
  std::optional<VisitorGemm> tree;          // instead
  std::optional<WidenedGemm> widened;       // instead
  std::optional<GemmArguments> with_lists;  // instead
  GroupedGemm grouped;                      // of a pointer array, where one launch takes all of it
  bool is_grouped = false;
  GemmPlan plan;
  void* workspace = nullptr;
  std::size_t bytes = 0;
  bool initialized = false;
};

Gemm::Gemm() : impl_(std::make_unique<Impl>()) {}
Gemm::~Gemm() = default;
Gemm::Gemm(Gemm&&) noexcept = default;
Gemm& Gemm::operator=(Gemm&&) noexcept = default;

GemmStatus Gemm::can_implement(const GemmArguments& g, const GemmPlan& plan) {
  if (auto s = has_lists(g) ? check_list_gemm(g) : check_dense(g); !s.ok()) return s;
  if (plan.group != 1 && plan.group != 2 && plan.group != 4 && plan.group != 8)
    return {Code::unsupported,
            base::concat("gemm on CUDA: group ", plan.group, ", expected 1, 2, 4 or 8")};
  if (plan.kernel.empty() || is_empty(g)) return {};
  const auto names = dense_kernel_names(g);
  if (std::find(names.begin(), names.end(), plan.kernel) == names.end())
    return {Code::unsupported,
            base::concat("gemm on CUDA: kernel \"", plan.kernel, "\" cannot take this product")};
  return {};
}

std::size_t Gemm::workspace_size(const GemmArguments& g, const GemmPlan& plan) {
  if (is_empty(g) || !can_implement(g, plan).ok()) return 0;
  if (const auto tree = as_tree(g, plan))
    return VisitorGemm::workspace_size(tree->product, tree->graph);
  if (has_lists(g) && !has_pointers(g)) return 0;
  if (runs_widened(g, plan)) return WidenedGemm::workspace_size(g);
  if (has_pointers(g)) {
    const std::size_t arrays = static_cast<std::size_t>(g.batch) * kArrays * sizeof(void*) + 16;
    return runs_grouped(g, plan) ? GroupedGemm::workspace_size(batches_of(g)) : arrays;
  }
  return lower(g, plan)->workspace_bytes();
}

GemmStatus Gemm::initialize(const GemmArguments& g, void* workspace, std::size_t bytes,
                            cudaStream_t stream, const GemmPlan& plan) {
  impl_->initialized = false;
  if (auto s = can_implement(g, plan); !s.ok()) return s;
  const std::size_t needed = workspace_size(g, plan);
  if (needed > 0 && (workspace == nullptr || bytes < needed)) {
    return {Code::small_workspace, base::concat("gemm on CUDA: workspace has ",
                                                workspace ? bytes : 0, " bytes, needs ", needed)};
  }
  impl_->lowered = {};
  impl_->tree.reset();
  impl_->widened.reset();
  impl_->with_lists.reset();
  impl_->is_grouped = runs_grouped(g, plan);
  if (has_lists(g)) {
    if (!is_empty(g)) impl_->with_lists = with_device_pointers(g, workspace, stream);
  } else if (const auto tree = as_tree(g, plan)) {
    if (auto s =
            impl_->tree.emplace().initialize(tree->product, tree->graph, workspace, bytes, stream);
        !s.ok())
      return s;
  } else if (runs_widened(g, plan)) {
    if (auto s = impl_->widened.emplace().initialize(g, workspace, bytes, stream); !s.ok())
      return s;
  } else if (impl_->is_grouped) {
    const auto batches = batches_of(g);
    if (auto s = impl_->grouped.initialize(batches, workspace, bytes, stream); !s.ok()) return s;
  } else if (!is_empty(g)) {
    impl_->lowered = *lower(with_device_pointers(g, workspace, stream), plan);
    impl_->lowered.bind(workspace, stream);
  }
  impl_->plan = plan;
  impl_->workspace = workspace;
  impl_->bytes = bytes;
  impl_->initialized = true;
  return {};
}

GemmStatus Gemm::update(const GemmArguments& g, cudaStream_t stream) {
  if (!impl_->initialized) return {Code::not_initialized, "gemm on CUDA: update before initialize"};
  const GemmPlan plan = impl_->plan;
  return initialize(g, impl_->workspace, impl_->bytes, stream, plan);
}

GemmStatus Gemm::run(cudaStream_t stream) const {
  if (!impl_->initialized) return {Code::not_initialized, "gemm on CUDA: run before initialize"};
  if (impl_->tree) return impl_->tree->run(stream);
  if (impl_->widened) return impl_->widened->run(stream);
  if (impl_->is_grouped) return impl_->grouped.run(stream);
  if (impl_->with_lists)
    launch_list_gemm(*impl_->with_lists, stream);
  else
    launch(impl_->lowered, stream);
  return {};
}

std::string Gemm::kernel_name() const {
  if (impl_->with_lists) return "simt_lists";
  if (impl_->is_grouped) return impl_->grouped.kernel_name();
  if (impl_->widened) return impl_->widened->kernel_name();
  return impl_->tree ? impl_->tree->kernel_name() : impl_->lowered.name;
}

std::size_t workspace_of_product(const GemmArguments& g) { return lower(g, {})->workspace_bytes(); }

std::vector<std::string> dense_kernel_names(const GemmArguments& g) {
  std::vector<std::string> names;
  if (is_empty(g) || !check_dense(g).ok()) return names;
  if (is_complex(g.compute)) return {lower_complex(g, 8).name};
  if (auto name = grouped_kernel(g); !name.empty()) names.push_back(std::move(name));
  const DenseProduct p = lower_product(g);
  for (const DenseInstance* instance : candidates(p)) names.emplace_back(instance->name);
  if (has_wgmma()) {
    for (const MixedInstance* instance : mixed_candidates(p, multiprocessors()))
      names.emplace_back(instance->name);
  }
  if (has_wgmma()) {
    if (const auto f64 = lower_to_f64(p, 8, multiprocessors())) names.push_back(f64->name);
  }
  if (takes_widened(g))
    names.insert(widening_pays(g) ? names.begin() : names.end(), WidenedGemm::kName);
  names.push_back(lower_to_fallback(p, 8).name);
  return names;
}

}  // namespace gemm_core::cuda
