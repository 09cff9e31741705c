#include "gemm_core/collective/cpu_weight_gradient.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace gemm_core {
namespace {

constexpr std::int64_t kListMargin = 16;  // list_present stores whole vectors
constexpr std::int64_t kPanelPadding = 16;

struct Scratch {
  AlignedBuffer input, gradient;
  std::vector<std::int32_t> source, target;
};

Scratch& scratch() {
  thread_local Scratch kept;
  return kept;
}

// Rows of one operand: in place where they are fp32, else `converted`.
struct Rows {
  const float* base = nullptr;
  std::int64_t pitch = 0;
  const std::int32_t* list = nullptr;
};

// Columns [channel, channel + channels) of rows list[0..count), or first.. where list is null.
Rows in_place(const base::ConstTensorView& view, const std::int32_t* list, std::int64_t first,
              std::int64_t channel) {
  return {view.as<float>() + first * view.stride[0] + channel, view.stride[0], list};
}

Rows converted(const CpuAtoms& atoms, const base::ConstTensorView& view, const std::int32_t* list,
               std::int64_t first, std::int64_t count, std::int64_t channel, std::int64_t channels,
               AlignedBuffer& panel) {
  const std::int64_t pitch = channels + kPanelPadding;
  float* const to = panel.reserve(count * pitch);
  const std::int64_t start = first * view.stride[0] + channel;
  atoms.convert_rows({.base = static_cast<const char*>(view.data) + start * base::bytes(view.dtype),
                      .dtype = view.dtype,
                      .pitch = view.stride[0],
                      .source = list,
                      .rows = count,
                      .columns = channels,
                      .to = to,
                      .ldto = pitch});
  return {to, pitch, nullptr};
}

// Pairs whose rows of both operands fill most of an L1 of 32 KiB; part of the result's definition.
std::int64_t pairs_of_block(std::int64_t columns) {
  constexpr std::int64_t kFloats = 6144, kLeast = 96, kMost = 256, kPanelColumns = 64;
  return std::clamp(kFloats / std::min(columns, kPanelColumns), kLeast, kMost);
}

}  // namespace

void run_weight_gradient_piece(const CpuAtoms& atoms, const WeightGradientArguments& a,
                               const WeightGradientPiece& piece) {
  const bool depthwise = is_depthwise(a);
  const std::int64_t group_k = a.input.shape[1] / a.groups;
  const std::int64_t columns = depthwise ? a.groups : a.gradient.shape[1] / a.groups;
  const std::int64_t channels = depthwise ? a.groups : piece.channel_end - piece.channel_begin;
  const std::int64_t rows = depthwise ? 1 : channels;
  const std::int64_t channel_a = piece.group * group_k + piece.channel_begin;
  const std::int64_t channel_b = piece.group * columns;
  std::memset(piece.to, 0, static_cast<std::size_t>(rows * piece.ldc) * sizeof(float));

  Scratch& s = scratch();
  std::int64_t count = piece.row_end - piece.row_begin;
  const std::int32_t *source = nullptr, *target = nullptr;
  if (a.neighbours != nullptr) {
    s.source.resize(static_cast<std::size_t>(count + kListMargin));
    s.target.resize(static_cast<std::size_t>(count + kListMargin));
    count = atoms.list_present(a.neighbours + piece.tap * a.rows + piece.row_begin, count,
                               s.source.data(), s.target.data());
    source = s.source.data();
    target = s.target.data();
  }
  if (count == 0) return;
  const std::int64_t first_a = source ? 0 : piece.row_begin, first_b = piece.row_begin;
  const Rows x = a.input.dtype == base::DType::f32 ? in_place(a.input, source, first_a, channel_a)
                                                   : converted(atoms, a.input, source, first_a,
                                                               count, channel_a, channels, s.input);
  const Rows y =
      a.gradient.dtype == base::DType::f32
          ? in_place(a.gradient, target, first_b, channel_b)
          : converted(atoms, a.gradient, target, first_b, count, channel_b, columns, s.gradient);
  const RowPairProduct product{.a = x.base,
                               .pitch_a = x.pitch,
                               .source = x.list,
                               .b = y.base,
                               .pitch_b = y.pitch,
                               .target = y.list,
                               .pairs = count,
                               .block = pairs_of_block(columns),
                               .rows = rows,
                               .columns = columns,
                               .c = piece.to,
                               .ldc = piece.ldc};
  if (depthwise) return atoms.multiply_row_pairs_depthwise(product);
  atoms.multiply_row_pairs(product);
}

}  // namespace gemm_core
