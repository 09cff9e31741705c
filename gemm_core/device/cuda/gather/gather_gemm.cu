#include "gemm_core/device/cuda/gather/gather_gemm.hpp"

#include <algorithm>

#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/device/cuda/gather/gather_instances.hpp"
#include "gemm_core/device/cuda/gemm/dense_checks.hpp"
#include "gemm_core/device/cuda/tensor_map.hpp"
#include "gemm_core/kernel/sm90_row_gather_gemm.cuh"

namespace gemm_core::cuda {
namespace {

using base::DType;
using Code = GemmStatus::Code;

constexpr std::int64_t kStageBytes = 128;  // of a row
constexpr std::int64_t kLimit = (std::int64_t{1} << 31) - 512;

template <class... Parts>
GemmStatus refuse(Code code, const Parts&... parts) {
  return {code, base::concat("gather gemm on CUDA: ", parts...)};
}
std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }
std::int64_t run_of(const GatherGemmArguments& g) { return g.a.run == 0 ? g.k : g.a.run; }
std::int64_t taps_of(const GatherGemmArguments& g) { return g.k / run_of(g); }
bool is_empty(const GatherGemmArguments& g) { return g.m == 0 || g.n == 0; }
DType stored(DType compute) { return compute == DType::tf32 ? DType::f32 : compute; }

bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

GemmStatus check_shapes(const GatherGemmArguments& g) {
  for (const auto& [name, extent] : {std::pair{"m", g.m}, {"n", g.n}, {"k", g.k}}) {
    if (extent < 0 || extent >= kLimit)
      return refuse(Code::invalid_extent, name, " = ", extent, ", expected 0..", kLimit - 1);
  }
  if (g.k == 0) return refuse(Code::invalid_extent, "k = 0");
  if (g.compute != DType::f16 && g.compute != DType::bf16 && g.compute != DType::tf32)
    return refuse(Code::unsupported, base::name(g.compute), " products are not supported");
  const DType type = stored(g.compute);
  if (g.b.dtype != type || g.d.dtype != type)
    return refuse(Code::unsupported, "operands B and D are ", base::name(g.b.dtype), " and ",
                  base::name(g.d.dtype), ", expected ", base::name(type));
  const std::int64_t per_vector = 16 / base::bytes(type), run = run_of(g);
  if (run < 1 || g.k % run != 0)
    return refuse(Code::invalid_extent, "operand A: k = ", g.k, " is no multiple of the run ", run);
  if (run != g.k && run * base::bytes(type) % kStageBytes != 0)
    return refuse(Code::unsupported, "operand A: runs of ", run, " elements are no multiple of ",
                  kStageBytes, " bytes");
  if (run % per_vector != 0 || g.a.row_stride % per_vector != 0 || !is_aligned(g.a.data))
    return refuse(Code::misaligned, "operand A: rows of ", run, " elements, ", g.a.row_stride,
                  " apart, are not aligned to 16 bytes");
  if (g.b.row_stride != 1 || g.b.column_stride % per_vector != 0 || !is_aligned(g.b.data) ||
      g.b.pointers || g.b.rows.indices || g.b.columns.indices || g.b.scale.data || g.b.metadata)
    return refuse(Code::unsupported, "operand B is not plain, K-major and aligned to 16 bytes");
  if (g.n % 8 != 0 || g.d.column_stride != 1 || g.d.row_stride % per_vector != 0 ||
      !is_aligned(g.d.data) || g.d.pointers || g.d.columns.indices)
    return refuse(Code::unsupported,
                  "operand D: rows are not contiguous, aligned to 16 bytes and of 8 columns each");
  if (g.a.rows < 0 || g.a.rows >= kLimit)
    return refuse(Code::invalid_extent, "operand A: ", g.a.rows, " rows");
  if (g.a.row_stride < run || (g.m > 1 && g.d.row_stride < g.n))
    return refuse(Code::unsupported, "operand ", g.a.row_stride < run ? "A" : "D",
                  ": rows overlap each other");
  return {};
}

GemmStatus check_slots(const GatherGemmArguments& g) {
  const GatheredOperand& a = g.a;
  for (const IndexRef& list : {a.index, g.d.rows.indices}) {
    if (list && list.dtype != DType::i32 && list.dtype != DType::i64)
      return refuse(Code::unsupported, "an index buffer of ", base::name(list.dtype));
  }
  if (!a.row_slots.empty() && static_cast<std::int64_t>(a.row_slots.size()) != g.m)
    return refuse(Code::invalid_extent, "operand A: ", a.row_slots.size(), " row slots, m is ",
                  g.m);
  if (!a.tap_slots.empty() && static_cast<std::int64_t>(a.tap_slots.size()) != taps_of(g))
    return refuse(Code::invalid_extent, "operand A: ", a.tap_slots.size(),
                  " tap slots, k / run is ", taps_of(g));
  const auto range = [](const std::vector<std::int64_t>& table, std::int64_t count,
                        std::int64_t stride) {
    if (count == 0) return std::pair<std::int64_t, std::int64_t>{0, 0};
    if (table.empty())
      return std::pair{std::min<std::int64_t>(0, (count - 1) * stride),
                       std::max<std::int64_t>(0, (count - 1) * stride)};
    const auto [low, high] = std::minmax_element(table.begin(), table.end());
    return std::pair{*low, *high};
  };
  const auto rows = range(a.row_slots, g.m, a.row_slot_stride);
  const auto taps = range(a.tap_slots, taps_of(g), a.tap_slot_stride);
  const std::int64_t low = rows.first + taps.first, high = rows.second + taps.second;
  const std::int64_t count = a.index ? a.index_count : a.rows;
  if (low < 0 || rows.first < 0 || (a.index && high >= count))
    return refuse(Code::bad_index, "operand A: slots from ", low, " to ", high, ", the index has ",
                  count);
  return {};
}

GemmStatus check_memory(const GatherGemmArguments& g) {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || base::cuda::device_count() == 0) {
    (void)cudaGetLastError();
    return refuse(Code::wrong_device, "no CUDA device");
  }
  if (!base::cuda::device_info(device).has_wgmma())
    return refuse(Code::wrong_device, "cuda:", device, " is no Hopper GPU");
  if (is_empty(g)) return {};
  const std::pair<const char*, const void*> pointers[] = {{"operand A", g.a.data},
                                                          {"operand B", g.b.data},
                                                          {"operand D", g.d.data},
                                                          {"index of A", g.a.index.data},
                                                          {"index of D", g.d.rows.indices.data}};
  for (const auto& [name, pointer] : pointers) {
    const bool is_list = name[0] == 'i';
    if (pointer == nullptr && !is_list) return refuse(Code::null_operand, name, " has no data");
    if (pointer == nullptr) continue;
    if (auto s = check_pointer(name, pointer, device); !s.ok()) return s;
  }
  return {};
}

std::optional<CUtensorMap> map_of_b(const GatherGemmArguments& g, int box_rows) {
  const std::int64_t bytes = base::bytes(g.b.dtype);
  TensorMapDesc desc{.data = g.b.data, .element = g.b.dtype, .inner = g.k, .rows = g.n};
  desc.row_stride = g.n > 1 ? g.b.column_stride * bytes : ceil_div(g.k * bytes, 16) * 16;
  desc.batch_stride = desc.row_stride * g.n;
  desc.box_inner = static_cast<int>(kStageBytes / bytes);
  desc.box_rows = box_rows;
  return make_tensor_map(desc);
}

int tile_columns(const GatherGemmArguments& g) {
  return g.compute != DType::tf32 && g.n > 128 ? 256 : 128;
}

SlotList list_of(const IndexRef& index) { return {index.data, index.dtype == DType::i64, 1}; }

}  // namespace

struct GatherGemm::Impl {
  GatherGemmArguments arguments;
  Sm90RowGatherParams params;
  int clusters = 0;
  bool initialized = false;
};

GatherGemm::GatherGemm() : impl_(std::make_unique<Impl>()) {}
GatherGemm::~GatherGemm() = default;
GatherGemm::GatherGemm(GatherGemm&&) noexcept = default;
GatherGemm& GatherGemm::operator=(GatherGemm&&) noexcept = default;

GemmStatus GatherGemm::can_implement(const GatherGemmArguments& g) {
  if (auto s = check_shapes(g); !s.ok()) return s;
  if (auto s = check_slots(g); !s.ok()) return s;
  if (auto s = check_memory(g); !s.ok()) return s;
  if (!is_empty(g) && !map_of_b(g, tile_columns(g) / kGatherCluster))
    return refuse(Code::unsupported, "operand B is out of reach of bulk copies");
  return {};
}

std::size_t GatherGemm::workspace_size(const GatherGemmArguments& g) {
  if (is_empty(g) || !can_implement(g).ok()) return 0;
  const std::size_t slots = g.a.row_slots.size() + g.a.tap_slots.size();
  return slots == 0 ? 0 : slots * sizeof(std::int64_t) + 16;
}

GemmStatus GatherGemm::initialize(const GatherGemmArguments& g, void* workspace, std::size_t bytes,
                                  cudaStream_t stream) {
  Impl& x = *impl_;
  x.initialized = false;
  if (auto s = can_implement(g); !s.ok()) return s;
  const std::size_t needed = workspace_size(g);
  if (needed > 0 && (workspace == nullptr || bytes < needed))
    return refuse(Code::small_workspace, "workspace has ", workspace ? bytes : 0, " bytes, needs ",
                  needed);
  x.arguments = g;
  x.clusters = 0;
  if (!is_empty(g)) {
    const int columns = tile_columns(g);
    Sm90RowGatherParams& p = x.params;
    p = {};
    p.b = *map_of_b(g, columns / kGatherCluster);
    const std::int64_t size = base::bytes(g.b.dtype);
    p.a.data = static_cast<const char*>(g.a.data);
    p.a.pitch = g.a.row_stride * size;
    p.a.index = list_of(g.a.index);
    p.a.rows.stride = g.a.row_slot_stride;
    p.a.taps.stride = g.a.tap_slot_stride;
    auto* to = reinterpret_cast<std::int64_t*>((reinterpret_cast<std::uintptr_t>(workspace) + 15) /
                                               16 * 16);
    const auto move = [&](const std::vector<std::int64_t>& table, SlotList& list) {
      if (table.empty()) return;
      CUDA_CHECK(cudaMemcpyAsync(to, table.data(), table.size() * sizeof(std::int64_t),
                                 cudaMemcpyHostToDevice, stream));
      list = {to, true, 1};
      to += table.size();
    };
    move(x.arguments.a.row_slots, p.a.rows);
    move(x.arguments.a.tap_slots, p.a.taps);
    p.a.limit = g.a.rows;
    p.a.run_bytes = run_of(g) * size;
    p.a.run_stages = static_cast<int>(ceil_div(p.a.run_bytes, kStageBytes));
    p.a.m = static_cast<int>(g.m);
    p.order =
        kernel::TileOrder({ceil_div(g.m, kGatherTileM * kGatherCluster), ceil_div(g.n, columns), 1},
                          kernel::Raster::heuristic, 8);
    p.k_stages = static_cast<int>(taps_of(g)) * p.a.run_stages;
    p.n = static_cast<int>(g.n);
    p.d = g.d.data;
    p.d_pitch = g.d.row_stride;
    p.d_rows = list_of(g.d.rows.indices);
    p.d_limit = g.d.rows.indices ? g.d.rows.limit : g.m;
    p.alpha = static_cast<float>(g.alpha);
    int device = 0;
    CUDA_CHECK(cudaGetDevice(&device));
    x.clusters = static_cast<int>(std::min<std::int64_t>(
        p.order.count(), base::cuda::device_info(device).multiprocessors / kGatherCluster));
  }
  x.initialized = true;
  return {};
}

GemmStatus GatherGemm::run(cudaStream_t stream) const {
  const Impl& x = *impl_;
  if (!x.initialized) return refuse(Code::not_initialized, "run before initialize");
  if (x.clusters == 0) return {};
  const int columns = tile_columns(x.arguments);
  if (x.arguments.compute == DType::f16)
    launch_row_gather_gemm<base::half_t>(x.params, columns, x.clusters, stream);
  else if (x.arguments.compute == DType::bf16)
    launch_row_gather_gemm<base::bf16_t>(x.params, columns, x.clusters, stream);
  else
    launch_row_gather_gemm<base::tf32_t>(x.params, columns, x.clusters, stream);
  return {};
}

std::string GatherGemm::kernel_name() const {
  const Impl& x = *impl_;
  if (x.clusters == 0) return "none";
  return base::concat(base::name(x.arguments.compute), "_row_gather_128x",
                      tile_columns(x.arguments), "_c2");
}

}  // namespace gemm_core::cuda
