// What each node of an epilogue visitor tree reads and writes.
#include <algorithm>

#include "gemm_core/epilogue/visitor_nodes.hpp"

namespace gemm_core::visitor {
namespace {

using base::DType;

bool is_aligned(const float* p) {
  return reinterpret_cast<std::uintptr_t>(p) % alignof(float) == 0;
}

// Whether C is read in any product; a factor that cannot be read counts as not 0.
bool scales_something(const Scalar& beta, std::int64_t batch) {
  for (const auto& f : beta.factors) {
    if (!is_aligned(f.pointer)) return true;
  }
  for (std::int64_t l = 0; l < batch; ++l) {
    if (beta.value(l) != 0) return true;
  }
  return false;
}

}  // namespace

void MatrixLoad::memory(const Extents& e, std::vector<NodeMemory>& to) const {
  if (matrix.data == nullptr) return;
  to.push_back({.name = name,
                .matrix = matrix,
                .rows = e.m,
                .columns = e.n,
                .batch = e.batch,
                .batch_stride = batch_stride});
}

void RowLoad::memory(const Extents& e, std::vector<NodeMemory>& to) const {
  if (data == nullptr) return;
  to.push_back({.name = "row",
                .matrix = {data, DType::f32},
                .columns = e.n,
                .batch = e.batch,
                .batch_stride = batch_stride});
}

void ColumnLoad::memory(const Extents& e, std::vector<NodeMemory>& to) const {
  if (data == nullptr) return;
  to.push_back({.name = "column",
                .matrix = {data, DType::f32},
                .columns = e.m,
                .batch = e.batch,
                .batch_stride = batch_stride});
}

void Scalar::memory(const Extents& e, std::vector<NodeMemory>& to) const {
  for (const Factor& f : factors) {
    if (f.pointer == nullptr) continue;
    to.push_back({.name = "scalar",
                  .matrix = {f.pointer, DType::f32},
                  .batch = e.batch,
                  .batch_stride = f.batch_stride});
  }
}

void AddScaledSource::memory(const Extents& e, std::vector<NodeMemory>& to) const {
  beta.memory(e, to);
  if (scales_something(beta, e.batch)) source.memory(e, to);
}

void Quantise::memory(const Extents& e, std::vector<NodeMemory>& to) const { scale.memory(e, to); }

void MatrixStore::memory(const Extents& e, std::vector<NodeMemory>& to) const {
  if (data == nullptr) return;
  to.push_back({.name = name,
                .matrix = {data, dtype, row_stride, column_stride},
                .rows = e.m,
                .columns = e.n,
                .batch = e.batch,
                .batch_stride = batch_stride,
                .is_written = true});
}

void MaskStore::memory(const Extents& e, std::vector<NodeMemory>& to) const {
  if (data == nullptr) return;
  to.push_back({.name = name,
                .matrix = {data, DType::u8, row_stride},
                .rows = e.m,
                .columns = (e.n + 7) / 8,
                .batch = e.batch,
                .batch_stride = batch_stride,
                .is_written = true});
}

void MaskLoad::memory(const Extents& e, std::vector<NodeMemory>& to) const {
  if (data == nullptr) return;
  to.push_back({.name = "mask",
                .matrix = {data, DType::u8, row_stride},
                .rows = e.m,
                .columns = (e.n + 7) / 8,
                .batch = e.batch,
                .batch_stride = batch_stride});
}

void Reduce::memory(const Extents& e, std::vector<NodeMemory>& to) const {
  if (out == nullptr || parts != nullptr) return;
  const std::int64_t each = axis == ReductionAxis::rows      ? e.n
                            : axis == ReductionAxis::columns ? e.m
                                                             : 1;
  to.push_back({.name = "reduce",
                .matrix = {out, DType::f32},
                .columns = each,
                .batch = e.batch,
                .batch_stride = batch_stride,
                .is_written = true});
}

}  // namespace gemm_core::visitor
