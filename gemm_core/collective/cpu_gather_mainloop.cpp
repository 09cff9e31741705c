#include "gemm_core/collective/cpu_gather_mainloop.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "gemm_core/collective/cpu_packed_weights.hpp"
#include "gemm_core/epilogue/cpu_epilogue.hpp"

namespace gemm_core {
namespace {

constexpr std::int64_t kListMargin = 16;  // list_present stores whole vectors

// Kept per thread, so that a steady state allocates nothing.
struct Scratch {
  AlignedBuffer tile, panel;
  std::vector<std::int32_t> source, target;
};

Scratch& scratch() {
  thread_local Scratch kept;
  return kept;
}

// Rows of operand A under one tap, and where their products go.
struct TapRows {
  const std::int32_t* source = nullptr;  // null: rows first, first + 1, ...
  const std::int32_t* target = nullptr;
  std::int64_t first = 0, count = 0;
};

struct Operand {
  const float* base = nullptr;
  std::int64_t pitch = 0;
  const std::int32_t* source = nullptr;
};

class Tile {
 public:
  Tile(const GatherConvArguments& arguments, std::int64_t begin, std::int64_t end)
      : arguments_(arguments),
        weights_(*arguments.weights),
        data_(*weights_.data),
        atoms_(*data_.atoms),
        begin_(begin),
        rows_(end - begin) {}

  void run() {
    if (data_.depthwise) return run_depthwise();
    for (std::int64_t group = 0; group < weights_.groups; ++group) run_group(group);
  }

 private:
  TapRows rows_of_tap(std::int64_t tap) {
    if (arguments_.neighbours == nullptr) return {nullptr, nullptr, begin_, rows_};
    Scratch& s = scratch();
    s.source.resize(static_cast<std::size_t>(rows_ + kListMargin));
    s.target.resize(static_cast<std::size_t>(rows_ + kListMargin));
    const std::int32_t* neighbours = arguments_.neighbours + tap * arguments_.rows + begin_;
    const std::int64_t count =
        atoms_.list_present(neighbours, rows_, s.source.data(), s.target.data());
    return {s.source.data(), s.target.data(), 0, count};
  }

  // The rows as fp32: in place where they are fp32 and need no rounding, else converted into a
  // panel.
  Operand operand(const TapRows& rows, std::int64_t channel, std::int64_t channels) {
    const auto& input = arguments_.input;
    const std::int64_t pitch = input.stride[0];
    const std::int64_t start = rows.first * pitch + channel;
    if (input.dtype == base::DType::f32 && weights_.compute == base::DType::f32) {
      return {input.as<float>() + start, pitch, rows.source};
    }
    float* panel = scratch().panel.reserve(rows_ * channels);
    atoms_.convert_rows(
        {.base = static_cast<const char*>(input.data) + start * base::bytes(input.dtype),
         .dtype = input.dtype,
         .pitch = pitch,
         .source = rows.source,
         .rows = rows.count,
         .columns = channels,
         .compute = weights_.compute,
         .to = panel,
         .ldto = channels});
    return {panel, channels, nullptr};
  }

  void run_group(std::int64_t group) {
    const std::int64_t ld = data_.padded_n;
    float* tile = scratch().tile.reserve(rows_ * ld);
    std::memset(tile, 0, static_cast<std::size_t>(rows_ * ld) * sizeof(float));
    for (std::int64_t tap = 0; tap < weights_.taps; ++tap) {
      const TapRows rows = rows_of_tap(tap);
      if (rows.count == 0) continue;
      multiply(rows, operand(rows, group * data_.group_k, data_.group_k),
               data_.tap(group, tap, weights_.taps), tile);
    }
    run_epilogue(atoms_, arguments_.epilogue, {tile, ld, rows_, data_.group_n}, begin_,
                 group * data_.group_n, arguments_.output);
  }

  void multiply(const TapRows& rows, const Operand& a, const float* b, float* tile) const {
    for (std::int64_t k0 = 0; k0 < data_.group_k; k0 += kMaxBlockK) {
      atoms_.multiply({.base = a.base + k0,
                       .pitch = a.pitch,
                       .source = a.source,
                       .target = rows.target,
                       .rows = rows.count,
                       .k = std::min(kMaxBlockK, data_.group_k - k0),
                       .columns = data_.padded_n,
                       .b = b + k0 * data_.padded_n,
                       .c = tile,
                       .ldc = data_.padded_n});
    }
  }

  void run_depthwise() {
    const std::int64_t channels = weights_.cout;
    float* tile = scratch().tile.reserve(rows_ * channels);
    std::memset(tile, 0, static_cast<std::size_t>(rows_ * channels) * sizeof(float));
    for (std::int64_t tap = 0; tap < weights_.taps; ++tap) {
      const TapRows rows = rows_of_tap(tap);
      if (rows.count == 0) continue;
      const Operand a = operand(rows, 0, channels);
      atoms_.multiply_depthwise({.base = a.base,
                                 .pitch = a.pitch,
                                 .source = a.source,
                                 .target = rows.target,
                                 .rows = rows.count,
                                 .channels = channels,
                                 .weight = data_.values.data() + tap * channels,
                                 .c = tile,
                                 .ldc = channels});
    }
    run_epilogue(atoms_, arguments_.epilogue, {tile, channels, rows_, channels}, begin_, 0,
                 arguments_.output);
  }

  const GatherConvArguments& arguments_;
  const PackedConvWeights& weights_;
  const PackedConvWeights::Data& data_;
  const CpuAtoms& atoms_;
  std::int64_t begin_, rows_;
};

}  // namespace

std::int64_t gather_tile_rows(const GatherConvArguments& arguments, int threads) {
  const std::int64_t per_thread = (arguments.rows + threads - 1) / threads;
  return std::clamp<std::int64_t>(per_thread / 4, 48, 384);
}

void run_gather_tile(const GatherConvArguments& arguments, std::int64_t begin, std::int64_t end) {
  Tile(arguments, begin, end).run();
}

}  // namespace gemm_core
