#include "gemm_core/epilogue/visitor_nodes.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "gemm_core/base/error.hpp"
#include "gemm_core/collective/cpu_block_loads.hpp"
#include "gemm_core/collective/cpu_element.hpp"

namespace gemm_core::visitor {
namespace {

using base::DType;

float identity_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::maximum:
      return -std::numeric_limits<float>::infinity();
    case Reduction::minimum:
      return std::numeric_limits<float>::infinity();
    default:
      return 0;
  }
}

float combined(Reduction reduction, float a, float b) {
  switch (reduction) {
    case Reduction::sum:
      return a + b;
    case Reduction::minimum:
      return std::isnan(a) || std::isnan(b) ? a + b : std::min(a, b);
    default:
      return std::isnan(a) || std::isnan(b) ? a + b : std::max(a, b);
  }
}

struct Axis {
  std::int64_t count, stride;
};

// Whether no two elements share a place: from the smallest stride on, each steps over all before.
// Strides of axes that are stepped along are below 2^59.
bool steps_apart(std::vector<Axis> axes) {
  constexpr std::int64_t kMost = std::int64_t{1} << 59;
  for (Axis& axis : axes) {
    if (axis.count <= 1) axis = {1, 0};
    if (axis.stride >= kMost || axis.stride <= -kMost) return false;
    axis.stride = std::abs(axis.stride);
  }
  std::sort(axes.begin(), axes.end(),
            [](const Axis& x, const Axis& y) { return x.stride < y.stride; });
  std::int64_t reach = 0;
  for (const Axis& axis : axes) {
    if (axis.count <= 1) continue;
    std::int64_t step = 0;
    if (axis.stride <= reach || __builtin_mul_overflow(axis.count - 1, axis.stride, &step) ||
        __builtin_add_overflow(reach, step, &reach)) {
      return false;
    }
  }
  return true;
}

}  // namespace

Fragment MatrixLoad::visit(Piece& piece, Inputs) const {
  float* to = piece.take();
  if (matrix.data == nullptr) {
    std::fill(to, to + piece.count(), null_default);
    return to;
  }
  MatrixRef from = matrix;
  from.data = static_cast<const char*>(matrix.data) +
              piece.place.batch * batch_stride * base::bytes(matrix.dtype);
  load_block(*piece.atoms, from, {piece.place.m0, piece.rows, piece.place.n0, piece.columns},
             DType::f32, to, piece.columns);
  return to;
}

void MatrixLoad::check(const Extents& e) const {
  if (matrix.data == nullptr) return;
  ENSURE(is_narrow_float(matrix.dtype), "epilogue node ", name, ": element type ",
         base::name(matrix.dtype), " is none of float32, float16, bfloat16");
  ENSURE(e.m <= 1 || matrix.row_stride != 0 || e.n <= 1 || matrix.column_stride != 0,
         "epilogue node ", name, ": strides 0, 0 for a matrix [", e.m, ", ", e.n, "]");
}

Fragment RowLoad::visit(Piece& piece, Inputs) const {
  float* to = piece.take();
  for (std::int64_t i = 0; i < piece.rows; ++i) {
    float* row = to + i * piece.columns;
    if (data == nullptr) {
      std::fill(row, row + piece.columns, null_default);
    } else {
      const float* from = data + piece.place.batch * batch_stride + piece.place.n0;
      std::copy(from, from + piece.columns, row);
    }
  }
  return to;
}

Fragment ColumnLoad::visit(Piece& piece, Inputs) const {
  float* to = piece.take();
  for (std::int64_t i = 0; i < piece.rows; ++i) {
    const float value =
        data ? data[piece.place.batch * batch_stride + piece.place.m0 + i] : null_default;
    std::fill(to + i * piece.columns, to + (i + 1) * piece.columns, value);
  }
  return to;
}

float Scalar::value(std::int64_t batch) const {
  float product = 1;
  for (const Factor& f : factors)
    product *= f.pointer ? f.pointer[batch * f.batch_stride] : f.value;
  return product;
}

Fragment Scalar::visit(Piece& piece, Inputs) const {
  float* to = piece.take();
  std::fill(to, to + piece.count(), value(piece.place.batch));
  return to;
}

Fragment Compute::visit(Piece& piece, Inputs inputs) const {
  float* to = piece.take();
  piece.atoms->elementwise(op, parameters, inputs.data(), piece.count(), to);
  if (output != DType::f32) {
    piece.atoms->convert_rows({.base = to,
                               .dtype = DType::f32,
                               .pitch = piece.count(),
                               .rows = 1,
                               .columns = piece.count(),
                               .compute = output,
                               .to = to,
                               .ldto = piece.count()});
  }
  return to;
}

Fragment AddScaledSource::visit(Piece& piece, Inputs inputs) const {
  const float factor = beta.value(piece.place.batch);
  if (factor == 0) return inputs[0];
  const Fragment c = source.visit(piece, {});
  float* to = piece.take();
  std::fill(to, to + piece.count(), factor);
  const Fragment terms[3] = {to, c, inputs[0]};
  piece.atoms->elementwise(ElementwiseOp::multiply_add, {}, terms, piece.count(), to);
  return to;
}

void AddScaledSource::check(const Extents& e) const {
  source.check(e);
  for (std::int64_t l = 0; l < e.batch; ++l) {
    ENSURE(source.matrix.data != nullptr || beta.value(l) == 0, "epilogue node ", source.name,
           ": null, but beta is ", beta.value(l));
  }
}

Fragment Quantise::visit(Piece& piece, Inputs inputs) const {
  const float factor = scale.value(piece.place.batch);
  float* to = piece.take();
  for (std::int64_t i = 0; i < piece.count(); ++i) to[i] = rounded_to(factor * inputs[0][i], type);
  return to;
}

void Quantise::check(const Extents&) const {
  ENSURE(type == DType::e4m3 || type == DType::e5m2 || type == DType::i8 || type == DType::f16 ||
             type == DType::bf16,
         "epilogue node quantise: element type ", base::name(type), " is not supported");
}

Fragment MatrixStore::visit(Piece& piece, Inputs inputs) const {
  if (data == nullptr) return inputs[0];
  for (std::int64_t i = 0; i < piece.rows; ++i) {
    const std::int64_t row = piece.place.batch * batch_stride + (piece.place.m0 + i) * row_stride +
                             piece.place.n0 * column_stride;
    if (column_stride == 1 && is_narrow_float(dtype)) {
      // The block is read only: store() rounds on the way.
      float* values = const_cast<float*>(inputs[0]) + i * piece.columns;
      piece.atoms->store({values, piece.columns, 1, piece.columns},
                         static_cast<char*>(data) + row * base::bytes(dtype), dtype, row_stride);
      continue;
    }
    for (std::int64_t j = 0; j < piece.columns; ++j) {
      store_element(data, dtype, row + j * column_stride, inputs[0][i * piece.columns + j]);
    }
  }
  return inputs[0];
}

void MatrixStore::check(const Extents& e) const {
  if (data == nullptr) return;
  ENSURE(
      is_narrow_float(dtype) || dtype == DType::e4m3 || dtype == DType::e5m2 || dtype == DType::i8,
      "epilogue node ", name, ": element type ", base::name(dtype), " is not supported");
  ENSURE(steps_apart({{e.m, row_stride}, {e.n, column_stride}, {e.batch, batch_stride}}),
         "epilogue node ", name, ": strides ", row_stride, ", ", column_stride,
         " and batch stride ", batch_stride, " make [", e.m, ", ", e.n, "] x ", e.batch,
         " overlap itself");
}

Fragment MaskStore::visit(Piece& piece, Inputs inputs) const {
  if (data == nullptr) return inputs[0];
  for (std::int64_t i = 0; i < piece.rows; ++i) {
    std::uint8_t* row = data + piece.place.batch * batch_stride + (piece.place.m0 + i) * row_stride;
    for (std::int64_t j = 0; j < piece.columns; ++j) {
      const std::int64_t n = piece.place.n0 + j;
      const auto bit = static_cast<std::uint8_t>(1u << (n % 8));
      const bool is_set = inputs[0][i * piece.columns + j] >= 0;
      row[n / 8] = static_cast<std::uint8_t>(is_set ? row[n / 8] | bit : row[n / 8] & ~bit);
    }
  }
  return inputs[0];
}

void MaskStore::check(const Extents& e) const {
  if (data == nullptr) return;
  ENSURE(row_stride >= (e.n + 7) / 8, "epilogue node ", name, ": rows of ", e.n, " bits need ",
         (e.n + 7) / 8, " bytes, the stride is ", row_stride);
  ENSURE(steps_apart({{(e.n + 7) / 8, 1}, {e.m, row_stride}, {e.batch, batch_stride}}),
         "epilogue node ", name, ": batch stride ", batch_stride, " makes ", e.batch, " masks of ",
         e.m, " rows overlap");
}

Fragment MaskLoad::visit(Piece& piece, Inputs) const {
  float* to = piece.take();
  for (std::int64_t i = 0; i < piece.rows; ++i) {
    const std::uint8_t* row =
        data ? data + piece.place.batch * batch_stride + (piece.place.m0 + i) * row_stride
             : nullptr;
    for (std::int64_t j = 0; j < piece.columns; ++j) {
      const std::int64_t n = piece.place.n0 + j;
      to[i * piece.columns + j] =
          row ? static_cast<float>(row[n / 8] >> (n % 8) & 1) : null_default;
    }
  }
  return to;
}

std::int64_t Reduce::length() const {
  return axis == ReductionAxis::rows ? grid.n : axis == ReductionAxis::columns ? grid.m : 1;
}

std::int64_t Reduce::slots() const {
  switch (axis) {
    case ReductionAxis::rows:
      return grid.tiles_m();
    case ReductionAxis::columns:
      return grid.tiles_n();
    default:
      return grid.tiles_m() * grid.tiles_n();
  }
}

void Reduce::check(const Extents& e) const {
  if (out == nullptr || batch_stride == 0) return;
  const std::int64_t each = axis == ReductionAxis::rows      ? e.n
                            : axis == ReductionAxis::columns ? e.m
                                                             : 1;
  ENSURE(steps_apart({{each, 1}, {e.batch, batch_stride}}), "epilogue node reduce: batch stride ",
         batch_stride, " makes ", e.batch, " results of ", each, " values overlap");
}

void Reduce::begin(const TileGrid& tiles) {
  grid = tiles;
  if (is_null()) return;
  partials.assign(static_cast<std::size_t>(grid.batch * slots() * length()),
                  identity_of(reduction));
}

Fragment Reduce::visit(Piece& piece, Inputs inputs) {
  if (is_null()) return inputs[0];
  const std::int64_t tile_m = piece.place.m0 / grid.tile_m, tile_n = piece.place.n0 / grid.tile_n;
  const std::int64_t slot = axis == ReductionAxis::rows      ? tile_m
                            : axis == ReductionAxis::columns ? tile_n
                                                             : tile_m * grid.tiles_n() + tile_n;
  float* partial = partials.data() + (piece.place.batch * slots() + slot) * length();
  for (std::int64_t i = 0; i < piece.rows; ++i) {
    for (std::int64_t j = 0; j < piece.columns; ++j) {
      const float value = inputs[0][i * piece.columns + j];
      float& sum = partial[axis == ReductionAxis::rows      ? piece.place.n0 + j
                           : axis == ReductionAxis::columns ? piece.place.m0 + i
                                                            : 0];
      sum = combined(reduction, sum, reduction == Reduction::amax ? std::fabs(value) : value);
    }
  }
  return inputs[0];
}

void Reduce::finish() {
  if (parts != nullptr) {
    *parts = std::move(partials);
    partials = {};
    return;
  }
  if (out == nullptr) return;
  const std::int64_t results = batch_stride == 0 ? 1 : grid.batch;
  for (std::int64_t l = 0; l < results; ++l) {
    std::fill(out + l * batch_stride, out + l * batch_stride + length(), identity_of(reduction));
  }
  for (std::int64_t l = 0; l < grid.batch; ++l) {
    for (std::int64_t slot = 0; slot < slots(); ++slot) {
      const float* partial = partials.data() + (l * slots() + slot) * length();
      float* to = out + l * batch_stride;
      for (std::int64_t i = 0; i < length(); ++i) to[i] = combined(reduction, to[i], partial[i]);
    }
  }
}

}  // namespace gemm_core::visitor
