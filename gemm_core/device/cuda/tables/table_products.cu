#include "gemm_core/device/cuda/tables/table_products.hpp"

#include <algorithm>

#include "gemm_core/base/cuda/cuda_check.hpp"
#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/device/cuda/dense_node.hpp"

namespace gemm_core::cuda {
namespace {

using base::DType;

constexpr std::size_t kAlignment = 16;
constexpr std::int64_t kMostBlocks = 1 << 16;

std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }
DType storage(DType compute) { return compute == DType::tf32 ? DType::f32 : compute; }

// Tables stay offsets into the staged bytes until a workspace is bound; 0 stays null.
template <class T>
const T* as_pointer(std::size_t at) {
  return reinterpret_cast<const T*>(at + 1);
}
template <class T>
void move_to(const T*& table, const char* base) {
  if (table != nullptr)
    table = reinterpret_cast<const T*>(base + reinterpret_cast<std::size_t>(table) - 1);
}
void move_to(TableView& v, const char* base) {
  for (auto* table : {&v.line_offsets, &v.k_offsets, &v.line_slots, &v.k_slots})
    move_to(*table, base);
  move_to(v.line_points, base);
  move_to(v.k_points, base);
}

TableData data_of(const MatrixRef& m) {
  return {m.data, m.access != nullptr ? m.access->slots.data : nullptr};
}

}  // namespace

std::size_t TableProducts::keep(const void* data, std::size_t bytes) {
  const std::size_t at = (staged_.size() + kAlignment - 1) / kAlignment * kAlignment;
  staged_.resize(at + bytes);
  std::copy_n(static_cast<const char*>(data), bytes, staged_.data() + at);
  return at;
}

template <class T>
const T* TableProducts::keep_table(const T* table, std::int64_t count) {
  if (table == nullptr) return nullptr;
  return as_pointer<T>(keep(table, static_cast<std::size_t>(count) * sizeof(T)));
}

// Every chunk of k starts at a multiple of 16 bytes in every line, and its elements follow each
// other.
bool TableProducts::takes_vectors(const MatrixRef& m, std::int64_t lines, std::int64_t k,
                                  bool lines_are_rows, std::int64_t per_chunk) const {
  if (per_chunk == 0 || k % per_chunk != 0 || reinterpret_cast<std::uintptr_t>(m.data) % 16 != 0)
    return false;
  const std::int64_t line_stride = lines_are_rows ? m.row_stride : m.column_stride;
  const std::int64_t k_stride = lines_are_rows ? m.column_stride : m.row_stride;
  if (m.access == nullptr) return k_stride == 1 && (lines == 1 || line_stride % per_chunk == 0);
  const OperandAccess& a = *m.access;
  if (a.metadata != nullptr || (a.slots && a.slot_pitch % per_chunk != 0)) return false;
  const std::int64_t* const line_table = lines_are_rows ? a.row_offsets : a.column_offsets;
  const std::int64_t* const k_table = lines_are_rows ? a.column_offsets : a.row_offsets;
  const std::int64_t* const k_slots = lines_are_rows ? a.column_slots : a.row_slots;
  const BoxPoint* const k_points = lines_are_rows ? a.column_points : a.row_points;
  if (line_table == nullptr ? line_stride % per_chunk != 0
                            : std::any_of(line_table, line_table + lines,
                                          [&](std::int64_t at) { return at % per_chunk != 0; })) {
    return false;
  }
  if (k_table == nullptr && k_stride != 1) return false;
  for (std::int64_t i = 0; i < k; ++i) {
    if (i % per_chunk == 0) {
      if (k_table != nullptr && k_table[i] % per_chunk != 0) return false;
      continue;
    }
    if (k_table != nullptr && k_table[i] != k_table[i - 1] + 1) return false;
    if (k_slots != nullptr && k_slots[i] != k_slots[i - 1]) return false;
    if (k_points != nullptr && (k_points[i].quotient != k_points[i - 1].quotient ||
                                k_points[i].remainder != k_points[i - 1].remainder)) {
      return false;
    }
  }
  return true;
}

TableView TableProducts::view_of(const MatrixRef& m, DType compute, std::int64_t lines,
                                 std::int64_t k, bool lines_are_rows) {
  TableView v;
  v.lines = lines;
  v.type = m.dtype;
  v.rounds_to = compute;
  v.line_stride = lines_are_rows ? m.row_stride : m.column_stride;
  v.k_stride = lines_are_rows ? m.column_stride : m.row_stride;
  v.k_fastest = v.k_stride == 1;
  if (m.access == nullptr) return v;
  const OperandAccess& a = *m.access;
  v.line_offsets = keep_table(lines_are_rows ? a.row_offsets : a.column_offsets, lines);
  v.k_offsets = keep_table(lines_are_rows ? a.column_offsets : a.row_offsets, k);
  v.line_points = keep_table(lines_are_rows ? a.row_points : a.column_points, lines);
  v.k_points = keep_table(lines_are_rows ? a.column_points : a.row_points, k);
  std::copy(a.box.begin(), a.box.end(), v.box);
  if (a.slots) {
    v.line_slots = keep_table(lines_are_rows ? a.row_slots : a.column_slots, lines);
    v.k_slots = keep_table(lines_are_rows ? a.column_slots : a.row_slots, k);
    v.slot_pitch = a.slot_pitch;
    v.slots_are_64 = a.slots.dtype == DType::i64;
  }
  v.metadata = a.metadata;
  v.metadata_pitch = a.metadata_pitch;
  const std::int64_t* const k_table = lines_are_rows ? a.column_offsets : a.row_offsets;
  if (k_table != nullptr) v.k_fastest = k > 1 && k_table[1] - k_table[0] == 1;
  return v;
}

TableProducts::TableProducts(const LoweredProducts& lowered) {
  if (lowered.problems.empty()) return;
  const DenseProblem& p = lowered.problems.front();
  if (p.m == 0 || p.n == 0) return;
  const bool both_i8 = p.a.dtype == DType::i8 && p.b.dtype == DType::i8;
  by_mma_ = (p.compute == DType::i8 && both_i8) || p.compute == DType::f16 ||
            p.compute == DType::bf16 || p.compute == DType::tf32 || p.compute == DType::f64 ||
            is_fp8(p.compute);
  // fp8 values are f16 values.
  element_ = is_fp8(p.compute)                    ? DType::f16
             : p.compute == DType::i8 && !by_mma_ ? DType::i32
                                                  : p.compute;
  name_ = base::concat(by_mma_ ? "table_mma_" : "table_simt_", base::name(element_));

  params_.k = p.k;
  params_.a = view_of(p.a, p.compute, p.m, p.k, true);
  params_.b = view_of(p.b, p.compute, p.n, p.k, false);
  if (by_mma_ && p.k > 0) {
    const DType stored = storage(element_);
    const auto vectors = [&](MatrixRef DenseProblem::*which, std::int64_t lines, bool rows) {
      const std::int64_t per_chunk = 16 / base::bytes(stored);
      return std::all_of(lowered.problems.begin(), lowered.problems.end(),
                         [&](const DenseProblem& x) {
                           return reinterpret_cast<std::uintptr_t>((x.*which).data) % 16 == 0;
                         }) &&
             takes_vectors(p.*which, lines, p.k, rows, per_chunk);
    };
    params_.a.is_plain = p.a.dtype == stored && stored == storage(p.compute);
    params_.b.is_plain = p.b.dtype == stored && stored == storage(p.compute);
    params_.a.vectors = params_.a.is_plain && vectors(&DenseProblem::a, p.m, true);
    params_.b.vectors = params_.b.is_plain && vectors(&DenseProblem::b, p.n, false);
  }

  TableEpilogue& e = params_.epilogue;
  const MatrixRef d{p.d, p.d_dtype, p.d_row_stride, p.d_column_stride, p.d_access};
  e.d = view_of(d, p.compute, p.m, p.n, true);
  if (p.beta != 0) e.c = view_of(p.c, p.compute, p.m, p.n, true);
  e.alpha = p.alpha;
  e.beta = p.beta;
  e.n = p.n;
  if (p.epilogue != nullptr) {
    ENSURE(p.epilogue->nodes.size() <= TableEpilogue::kMaxNodes,
           "table products: ", p.epilogue->nodes.size(), " epilogue nodes, at most ",
           int{TableEpilogue::kMaxNodes});
    for (const EpilogueNode& node : p.epilogue->nodes) e.nodes[e.count++] = device_node(node);
  }

  std::vector<TableBatch> batches;
  for (const DenseProblem& x : lowered.problems) {
    const MatrixRef to{x.d, x.d_dtype, 0, 0, x.d_access};
    batches.push_back({data_of(x.a), data_of(x.b), data_of(x.c), data_of(to)});
  }
  batches_at_ = keep(batches.data(), batches.size() * sizeof(TableBatch));

  const std::int64_t tile_m = by_mma_ ? 128 : SimtTableTile::kM;
  const std::int64_t tile_n = by_mma_ ? 128 : SimtTableTile::kN;
  params_.order = kernel::TileOrder({ceil_div(p.m, tile_m), ceil_div(p.n, tile_n),
                                     static_cast<std::int64_t>(lowered.problems.size())},
                                    kernel::Raster::heuristic, 8);
  blocks_ = static_cast<int>(std::min<std::int64_t>(params_.order.count(), kMostBlocks));
}

std::size_t TableProducts::workspace_bytes() const {
  return staged_.empty() ? 0 : staged_.size() + kAlignment;
}

void TableProducts::bind(void* workspace, cudaStream_t stream) {
  if (blocks_ == 0) return;
  const auto address =
      (reinterpret_cast<std::uintptr_t>(workspace) + kAlignment - 1) / kAlignment * kAlignment;
  auto* const base = reinterpret_cast<char*>(address);
  CUDA_CHECK(cudaMemcpyAsync(base, staged_.data(), staged_.size(), cudaMemcpyHostToDevice, stream));
  for (TableView* v : {&params_.a, &params_.b, &params_.epilogue.c, &params_.epilogue.d})
    move_to(*v, base);
  params_.batches = reinterpret_cast<const TableBatch*>(base + batches_at_);
  staged_.clear();
  staged_.shrink_to_fit();
}

void TableProducts::launch(cudaStream_t stream) const {
  if (blocks_ == 0) return;
  if (by_mma_)
    launch_table_mma(element_, params_, blocks_, stream);
  else
    launch_table_simt(element_, params_, blocks_, stream);
}

}  // namespace gemm_core::cuda
