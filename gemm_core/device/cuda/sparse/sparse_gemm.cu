#include "gemm_core/device/cuda/sparse/sparse_gemm.hpp"

#include <algorithm>
#include <optional>

#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/device/cuda/gemm/dense_checks.hpp"
#include "gemm_core/device/cuda/gemm/gemm_lowering.hpp"
#include "gemm_core/device/cuda/tables/table_products.hpp"
#include "gemm_core/device/cuda/tensor_map.hpp"
#include "gemm_core/device/gemm_checks.hpp"
#include "gemm_core/kernel/sm90_sparse_gemm.cuh"

namespace gemm_core::cuda {
namespace {

using base::DType;
using Code = GemmStatus::Code;
using Config = Sm90SparseConfig<base::half_t>;  // whose sizes are those of bf16 too

template <class... Parts>
GemmStatus refuse(Code code, const Parts&... parts) {
  return {code, base::concat("sparse gemm on CUDA: ", parts...)};
}
std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }
bool is_empty(const GemmArguments& g) { return g.m == 0 || g.n == 0; }

int current_device() {
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  return device;
}

struct Lowered {
  std::string name = "none";
  std::optional<Sm90SparseParams> sparse;
  std::optional<TableProducts> table;
  DType element = DType::f16;
  int blocks = 0;
};

std::optional<CUtensorMap> lines(const void* data, DType type, std::int64_t inner,
                                 std::int64_t rows, std::int64_t stride) {
  TensorMapDesc desc;
  desc.data = data;
  desc.element = type;
  desc.inner = inner;
  desc.rows = rows;
  desc.row_stride = rows > 1 ? stride * base::bytes(type) : 16;
  desc.batch_stride = 16;
  desc.box_inner = 64;
  desc.box_rows = Config::kTileM;
  return make_tensor_map(desc);
}

std::optional<Lowered> by_wgmma(const GemmArguments& g) {
  const auto& device = base::cuda::device_info(current_device());
  constexpr std::int64_t kLimit = (std::int64_t{1} << 31) - 512;
  const bool fits = device.has_wgmma() && (g.compute == DType::f16 || g.compute == DType::bf16) &&
                    g.a.dtype == g.compute && g.b.dtype == g.compute && g.k > 0 &&
                    g.a.column_stride == 1 && g.b.row_stride == 1 && g.m < kLimit && g.n < kLimit &&
                    g.k < kLimit && g.a.metadata_pitch % 16 == 0 &&
                    reinterpret_cast<std::uintptr_t>(g.a.metadata) % 16 == 0 &&
                    !(g.n > 1 && g.d.column_stride != 1 && g.d.row_stride == 1);
  if (!fits) return std::nullopt;
  const auto a = lines(g.a.data, g.a.dtype, g.k / 2, g.m, g.a.row_stride);
  const auto b = lines(g.b.data, g.b.dtype, g.k, g.n, g.b.column_stride);
  if (!a || !b) return std::nullopt;
  const DenseProduct product = lower_product(g);
  Lowered lowered;
  lowered.name = base::concat("sparse_", base::name(g.compute), "_128x128");
  lowered.element = g.compute;
  Sm90SparseParams& p = lowered.sparse.emplace();
  p.problem.a = *a;
  p.problem.b = *b;
  p.problem.k_stages = static_cast<int>(ceil_div(g.k, Config::kStageK));
  set_store(p.problem, product, false);
  p.order = kernel::TileOrder({ceil_div(g.m, Config::kTileM), ceil_div(g.n, Config::kTileN), 1},
                              kernel::Raster::heuristic, 8);
  p.metadata = g.a.metadata;
  p.metadata_pitch = g.a.metadata_pitch;
  p.m = static_cast<int>(g.m);
  p.k = static_cast<int>(g.k);
  lowered.blocks =
      static_cast<int>(std::min<std::int64_t>(p.order.count(), device.multiprocessors));
  return lowered;
}

Lowered by_table(const GemmArguments& g) {
  LoweredProducts products;
  products.epilogues.push_back(g.epilogue);
  OperandAccess& access = products.accesses.emplace_back();
  access.metadata = g.a.metadata;
  access.metadata_pitch = g.a.metadata_pitch;
  DenseProblem p;
  p.m = g.m;
  p.n = g.n;
  p.k = g.k;
  p.a = {g.a.data, g.a.dtype, g.a.row_stride, g.a.column_stride, &access};
  p.b = {g.b.data, g.b.dtype, g.b.row_stride, g.b.column_stride};
  p.c = {g.c.data, g.c.dtype, g.c.row_stride, g.c.column_stride};
  p.d = g.d.data;
  p.d_dtype = g.d.dtype;
  p.d_row_stride = g.d.row_stride;
  p.d_column_stride = g.d.column_stride;
  p.compute = g.compute;
  p.alpha = g.alpha;
  p.beta = g.beta;
  p.epilogue = &products.epilogues.front();
  products.problems.push_back(p);
  Lowered lowered;
  lowered.table.emplace(products);
  lowered.name = lowered.table->name();
  return lowered;
}

Lowered lower(const GemmArguments& g, const std::string& kernel) {
  if (auto fast = by_wgmma(g); fast && (kernel.empty() || kernel == fast->name)) return *fast;
  return by_table(g);
}

template <class Element>
void launch_sparse(const Lowered& lowered, cudaStream_t stream) {
  const auto kernel = sm90_sparse_gemm<Sm90SparseConfig<Element>>;
  base::cuda::allow_shared_memory(kernel, Config::kSharedBytes);
  base::cuda::launch(kernel,
                     {.grid = dim3(static_cast<unsigned>(lowered.blocks)),
                      .block = dim3(Config::kThreads),
                      .shared_bytes = Config::kSharedBytes},
                     stream, *lowered.sparse);
}

GemmStatus renamed(GemmStatus s) {
  if (!s.ok() && s.message.rfind("gemm", 0) == 0) s.message = "sparse " + s.message;
  return s;
}

GemmStatus check_memory(const GemmArguments& g) {
  const int device = current_device();
  const auto check = [&](const char* name, const void* data) {
    return renamed(check_pointer(name, data, device));
  };
  if (g.k > 0) {
    if (auto s = check("operand A", g.a.data); !s.ok()) return s;
    if (auto s = check("the metadata of A", g.a.metadata); !s.ok()) return s;
    if (auto s = check("operand B", g.b.data); !s.ok()) return s;
  }
  if (g.beta != 0) {
    if (auto s = check("operand C", g.c.data); !s.ok()) return s;
  }
  if (auto s = check("operand D", g.d.data); !s.ok()) return s;
  return renamed(check_nodes(g, device));
}

}  // namespace

struct SparseGemm::Impl {
  Lowered lowered;
  bool initialized = false;
};

SparseGemm::SparseGemm() : impl_(std::make_unique<Impl>()) {}
SparseGemm::~SparseGemm() = default;
SparseGemm::SparseGemm(SparseGemm&&) noexcept = default;
SparseGemm& SparseGemm::operator=(SparseGemm&&) noexcept = default;

GemmStatus SparseGemm::can_implement(const GemmArguments& g, const std::string& kernel) {
  const auto has_lists = [](const auto& o) { return o.rows.indices || o.columns.indices; };
  if (g.a.metadata == nullptr) return refuse(Code::null_operand, "A has no metadata");
  if (has_lists(g.a) || has_lists(g.b) || has_lists(g.c) || has_lists(g.d) || g.a.scale.data ||
      g.a.zero.data || g.b.scale.data || g.b.zero.data || g.visitor || g.a.pointers ||
      g.b.pointers || g.c.pointers || g.d.pointers) {
    return refuse(Code::unsupported,
                  "gather lists, scales, visitors and pointer arrays are not supported");
  }
  GemmArguments plain = g;  // whose nodes are in device memory
  plain.epilogue.nodes.clear();
  if (auto s = check_gemm(plain); !s.ok()) {
    s.message = "sparse gemm on CUDA" + s.message.substr(std::string("gemm").size());
    return s;
  }
  if (base::bits(g.b.dtype) < 8)
    return refuse(Code::unsupported, "packed ", base::name(g.b.dtype), " elements");
  if (auto s = renamed(check_device()); !s.ok()) return s;
  if (is_empty(g)) return {};
  if (auto s = check_memory(g); !s.ok()) return s;
  if (kernel.empty()) return {};
  const auto names = sparse_kernel_names(g);
  if (std::find(names.begin(), names.end(), kernel) == names.end())
    return refuse(Code::unsupported, "kernel \"", kernel, "\" cannot take this product");
  return {};
}

std::size_t SparseGemm::workspace_size(const GemmArguments& g, const std::string& kernel) {
  if (is_empty(g) || !can_implement(g, kernel).ok()) return 0;
  const Lowered lowered = lower(g, kernel);
  return lowered.table ? lowered.table->workspace_bytes() : 0;
}

GemmStatus SparseGemm::initialize(const GemmArguments& g, void* workspace, std::size_t bytes,
                                  cudaStream_t stream, const std::string& kernel) {
  *impl_ = {};
  if (auto s = can_implement(g, kernel); !s.ok()) return s;
  if (!is_empty(g)) {
    impl_->lowered = lower(g, kernel);
    if (auto& table = impl_->lowered.table) {
      const std::size_t needed = table->workspace_bytes();
      if (workspace == nullptr || bytes < needed)
        return refuse(Code::small_workspace, "workspace has ", workspace ? bytes : 0,
                      " bytes, needs ", needed);
      table->bind(workspace, stream);
    }
  }
  impl_->initialized = true;
  return {};
}

GemmStatus SparseGemm::run(cudaStream_t stream) const {
  if (!impl_->initialized)
    return {Code::not_initialized, "sparse gemm on CUDA: run before initialize"};
  const Lowered& lowered = impl_->lowered;
  if (lowered.table) lowered.table->launch(stream);
  if (!lowered.sparse) return {};
  if (lowered.element == DType::f16)
    launch_sparse<base::half_t>(lowered, stream);
  else
    launch_sparse<base::bf16_t>(lowered, stream);
  return {};
}

std::string SparseGemm::kernel_name() const { return impl_->lowered.name; }

std::vector<std::string> sparse_kernel_names(const GemmArguments& g) {
  std::vector<std::string> names;
  if (is_empty(g) || !SparseGemm::can_implement(g).ok()) return names;
  if (const auto fast = by_wgmma(g)) names.push_back(fast->name);
  names.push_back(by_table(g).name);
  return names;
}

}  // namespace gemm_core::cuda
