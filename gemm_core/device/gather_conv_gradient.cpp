#include "gemm_core/device/gather_conv_gradient.hpp"

#include <algorithm>
#include <vector>

#include "gemm_core/base/error.hpp"
#include "gemm_core/base/parallel.hpp"
#include "gemm_core/collective/cpu_weight_gradient.hpp"

namespace gemm_core {
namespace {

constexpr const char* kOperation = "gather_conv_weight_gradient";

void check_matrix(const base::ConstTensorView& view, const char* operand) {
  using base::DType;
  ENSURE(view.shape.rank() == 2 && view.stride.rank() == 2, kOperation, ": ", operand,
         " has shape ", base::to_string(view.shape), ", expected a matrix");
  ENSURE(view.dtype == DType::f32 || view.dtype == DType::f16 || view.dtype == DType::bf16,
         kOperation, ": ", operand, " has element type ", base::name(view.dtype),
         ", expected float32, float16 or bfloat16");
  ENSURE(view.shape[1] <= 1 || view.stride[1] == 1, kOperation, ": ", operand,
         " needs unit stride along channels, has ", view.stride[1]);
  ENSURE(view.device.is_cpu(), kOperation, ": ", operand, " is on ", base::to_string(view.device));
  ENSURE(view.data != nullptr || view.shape[0] == 0, kOperation, ": ", operand, " has ",
         view.shape[0], " rows and no data");
}

void check(const WeightGradientArguments& a) {
  check_matrix(a.input, "input");
  check_matrix(a.gradient, "gradient");
  ENSURE(a.rows >= 0 && a.gradient.shape[0] == a.rows, kOperation, ": gradient has ",
         a.gradient.shape[0], " rows, expected ", a.rows);
  const std::int64_t cin = a.input.shape[1], cout = a.gradient.shape[1];
  ENSURE(a.taps > 0 && a.groups > 0 && cin > 0 && cout > 0, kOperation, ": taps ", a.taps,
         ", groups ", a.groups, ", cin ", cin, ", cout ", cout, " must all be positive");
  ENSURE(cin % a.groups == 0 && cout % a.groups == 0, kOperation, ": groups ", a.groups,
         " must divide cin ", cin, " and cout ", cout);
  ENSURE(a.weight_gradient != nullptr, kOperation, ": weight_gradient is null");
  if (a.neighbours != nullptr || a.rows == 0) return;
  ENSURE(a.taps == 1, kOperation, ": ", a.taps, " taps and there is no neighbour table");
  ENSURE(a.input.shape[0] == a.rows, kOperation, ": input has ", a.input.shape[0],
         " rows, expected ", a.rows);
}

// How a gradient is cut into pieces; by sizes alone.
struct Cut {
  std::int64_t rows = 0, chunks = 0;      // output rows of a chunk
  std::int64_t channels = 0, blocks = 0;  // input channels of a block
  std::int64_t groups = 1;                // one where depthwise
  std::int64_t group_k = 0, group_n = 0, ldc = 0;
  std::int64_t tap_floats() const { return groups * group_k * ldc; }
};

Cut cut(const WeightGradientArguments& a) {
  constexpr std::int64_t kLeastRows = 4096, kMostChunks = 256, kChannels = 64, kVector = 16;
  constexpr std::int64_t kPartialFloats = 16 << 20;  // 64 MiB of partial sums
  Cut c;
  c.groups = is_depthwise(a) ? 1 : a.groups;
  c.group_k = is_depthwise(a) ? 1 : a.input.shape[1] / a.groups;
  c.group_n = is_depthwise(a) ? a.groups : a.gradient.shape[1] / a.groups;
  c.ldc = (c.group_n + kVector - 1) / kVector * kVector;
  const std::int64_t fitting = kPartialFloats / (a.taps * c.tap_floats());
  const std::int64_t most = std::clamp<std::int64_t>(fitting, 1, kMostChunks);
  c.rows = std::max(kLeastRows, (a.rows + most - 1) / most);
  c.chunks = (a.rows + c.rows - 1) / c.rows;
  c.channels = c.group_k <= kChannels * 3 / 2 ? c.group_k : kChannels;
  c.blocks = (c.group_k + c.channels - 1) / c.channels;
  return c;
}

// Chunks in order, from [group][k][ldc] to [cout][taps][group_k]; a few k at a time, so that whole
// cache lines are written.
void add_chunks(const WeightGradientArguments& a, const Cut& c, const float* partial,
                std::int64_t tap) {
  constexpr std::int64_t kStrip = 16;
  const std::int64_t chunk_floats = a.taps * c.tap_floats();
  thread_local std::vector<float> kept;
  kept.resize(static_cast<std::size_t>(kStrip * c.ldc));
  float* const sum = kept.data();
  for (std::int64_t group = 0; group < c.groups; ++group) {
    for (std::int64_t k = 0; k < c.group_k; k += kStrip) {
      const std::int64_t width = std::min(kStrip, c.group_k - k), size = width * c.ldc;
      const float* from = partial + tap * c.tap_floats() + (group * c.group_k + k) * c.ldc;
      std::copy(from, from + size, sum);
      for (std::int64_t chunk = 1; chunk < c.chunks; ++chunk) {
        from += chunk_floats;
        for (std::int64_t i = 0; i < size; ++i) sum[i] += from[i];
      }
      float* to = a.weight_gradient + (group * c.group_n * a.taps + tap) * c.group_k + k;
      for (std::int64_t n = 0; n < c.group_n; ++n, to += a.taps * c.group_k) {
        for (std::int64_t i = 0; i < width; ++i) to[i] = sum[i * c.ldc + n];
      }
    }
  }
}

}  // namespace

void gather_conv_weight_gradient(const WeightGradientArguments& a) {
  check(a);
  if (a.rows == 0) {
    const std::int64_t size = a.gradient.shape[1] * a.taps * (a.input.shape[1] / a.groups);
    std::fill_n(a.weight_gradient, size, 0.0f);
    return;
  }
  const Cut c = cut(a);
  AlignedBuffer own;
  AlignedBuffer& workspace = a.workspace ? *a.workspace : own;
  float* const partial = workspace.reserve(c.chunks * a.taps * c.tap_floats());
  const CpuAtoms& atoms = cpu_atoms();
  const std::int64_t pieces = c.chunks * a.taps * c.groups * c.blocks;
  base::parallel_blocks(pieces, 1, [&](std::int64_t i, std::int64_t) {
    WeightGradientPiece piece;
    const std::int64_t block = i % c.blocks;
    i /= c.blocks;
    piece.group = i % c.groups;
    i /= c.groups;
    piece.tap = i % a.taps;
    const std::int64_t chunk = i / a.taps;
    piece.row_begin = chunk * c.rows;
    piece.row_end = std::min(a.rows, piece.row_begin + c.rows);
    piece.channel_begin = block * c.channels;
    piece.channel_end = std::min(c.group_k, piece.channel_begin + c.channels);
    piece.ldc = c.ldc;
    piece.to = partial + (chunk * a.taps + piece.tap) * c.tap_floats() +
               (piece.group * c.group_k + piece.channel_begin) * c.ldc;
    run_weight_gradient_piece(atoms, a, piece);
  });
  base::parallel_blocks(a.taps, 1,
                        [&](std::int64_t tap, std::int64_t) { add_chunks(a, c, partial, tap); });
}

}  // namespace gemm_core
