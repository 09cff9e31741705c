#include "gemm_core/collective/cpu_gather_mainloop.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "gemm_core/collective/cpu_packed_weights.hpp"
#include "gemm_core/epilogue/cpu_epilogue.hpp"

namespace gemm_core {
namespace {

constexpr std::int64_t kListMargin = 16;  // list_present stores whole vectors
// Widest tile: with its rows it stays in L2, and A is read again for the next columns.
constexpr std::int64_t kTileColumns = 512;
// Rows at multiples of 1 KiB fall into few sets of L1; a dense operand is then copied into a panel.
constexpr std::int64_t kAliasFloats = 256, kPanelPadding = 16;

// Kept per thread, so that a steady state allocates nothing.
struct Scratch {
  AlignedBuffer tile, panel;
  std::vector<std::int32_t> source, target, counts;
  std::vector<PairProduct::Pair> pairs;
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

bool reads_in_place(const GatherConvArguments& a) {
  const bool aliases = a.neighbours == nullptr && a.input.stride[0] % kAliasFloats == 0;
  return a.input.dtype == base::DType::f32 && a.weights->compute == base::DType::f32 && !aliases;
}

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
    for (std::int64_t group = 0; group < weights_.groups; ++group) {
      if (data_.few_channels) {
        run_pairs(group);
        continue;
      }
      for (std::int64_t n = 0; n < data_.padded_n; n += kTileColumns) {
        run_columns(group, n, std::min(kTileColumns, data_.padded_n - n));
      }
    }
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

  // `channels` of the rows as fp32, in `panel` [rows.count][pitch].
  void convert(const TapRows& rows, std::int64_t channel, std::int64_t channels, float* panel,
               std::int64_t pitch) {
    const auto& input = arguments_.input;
    const std::int64_t start = rows.first * input.stride[0] + channel;
    atoms_.convert_rows(
        {.base = static_cast<const char*>(input.data) + start * base::bytes(input.dtype),
         .dtype = input.dtype,
         .pitch = input.stride[0],
         .source = rows.source,
         .rows = rows.count,
         .columns = channels,
         .compute = weights_.compute,
         .to = panel,
         .ldto = pitch});
  }

  // In place where the rows are fp32 and need no rounding, else converted into a panel.
  Operand operand(const TapRows& rows, std::int64_t channel, std::int64_t channels) {
    const auto& input = arguments_.input;
    if (reads_in_place(arguments_)) {
      return {input.as<float>() + rows.first * input.stride[0] + channel, input.stride[0],
              rows.source};
    }
    const std::int64_t pitch = channels + kPanelPadding;
    float* panel = scratch().panel.reserve(rows_ * pitch);
    convert(rows, channel, channels, panel, pitch);
    return {panel, pitch, nullptr};
  }

  float* zeroed_tile(std::int64_t columns) {
    float* tile = scratch().tile.reserve(rows_ * columns);
    std::memset(tile, 0, static_cast<std::size_t>(rows_ * columns) * sizeof(float));
    return tile;
  }

  void finish(const Block& block, std::int64_t n) {
    if (arguments_.visitor) arguments_.visitor->tile(atoms_, block, {begin_, n, 0});
    run_epilogue(atoms_, arguments_.epilogue, block, begin_, n, arguments_.output);
  }

  // What the last product of a tile of these columns asks for: what the epilogue reads and writes.
  Ahead results_at(std::int64_t n, std::int64_t columns) const {
    Ahead ahead;
    ask_for_operands(arguments_.epilogue, begin_, rows_, n, columns, ahead);
    const auto& output = arguments_.output;
    const std::int64_t size = base::bytes(output.dtype), pitch = output.stride[0] * size;
    ahead.add({static_cast<const char*>(output.data) + begin_ * pitch + n * size, pitch, rows_,
               columns * size});
    return ahead;
  }

  void run_columns(std::int64_t group, std::int64_t n, std::int64_t columns) {
    float* tile = zeroed_tile(columns);
    const std::int64_t present = std::min(columns, data_.group_n - n);
    const Ahead results = results_at(group * data_.group_n + n, present);
    for (std::int64_t tap = 0; tap < weights_.taps; ++tap) {
      const TapRows rows = rows_of_tap(tap);
      if (rows.count == 0) continue;
      const bool is_last = tap + 1 == weights_.taps;
      const float* b = data_.tap(group, tap, weights_.taps);
      for (std::int64_t k0 = 0; k0 < data_.group_k; k0 += kMaxBlockK) {
        const std::int64_t k = std::min(kMaxBlockK, data_.group_k - k0);
        const Operand a = operand(rows, group * data_.group_k + k0, k);
        const bool ends_tap = k0 + k == data_.group_k;
        const float* next_b =
            !ends_tap
                ? b + (k0 + k) * data_.padded_n + n * std::min(kMaxBlockK, data_.group_k - k0 - k)
            : !is_last
                ? data_.tap(group, tap + 1, weights_.taps) + n * std::min(kMaxBlockK, data_.group_k)
                : nullptr;
        atoms_.multiply({.base = a.base,
                         .pitch = a.pitch,
                         .source = a.source,
                         .target = rows.target,
                         .rows = rows.count,
                         .k = k,
                         .columns = columns,
                         .b = b + k0 * data_.padded_n + n * k,
                         .c = tile,
                         .ldc = columns,
                         .next_b = next_b,
                         .ahead = is_last && ends_tap ? &results : nullptr});
      }
    }
    finish({tile, columns, rows_, present}, group * data_.group_n + n);
  }

  void run_pairs(std::int64_t group) {
    const std::int64_t k = data_.group_k, taps = weights_.taps, columns = data_.padded_n;
    Scratch& s = scratch();
    s.counts.assign(static_cast<std::size_t>(rows_), 0);
    s.pairs.resize(static_cast<std::size_t>(rows_ * taps));
    const bool in_place = reads_in_place(arguments_);
    float* panel = in_place ? nullptr : s.panel.reserve(rows_ * taps * k);
    std::int64_t converted = 0;
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const TapRows rows = rows_of_tap(tap);
      if (!in_place) convert(rows, group * k, k, panel + converted * k, k);
      for (std::int64_t j = 0; j < rows.count; ++j) {
        const std::int64_t row = rows.target[j];
        const std::int64_t source = in_place ? rows.source[j] : converted + j;
        s.pairs[static_cast<std::size_t>(row * taps + s.counts[static_cast<std::size_t>(row)]++)] =
            {static_cast<std::int32_t>(source), static_cast<std::int32_t>(tap)};
      }
      converted += rows.count;
    }
    float* tile = s.tile.reserve(rows_ * columns);
    atoms_.multiply_pairs({.base = in_place ? arguments_.input.as<float>() + group * k : panel,
                           .pitch = in_place ? arguments_.input.stride[0] : k,
                           .pairs = s.pairs.data(),
                           .counts = s.counts.data(),
                           .pairs_pitch = taps,
                           .rows = rows_,
                           .k = k,
                           .columns = columns,
                           .b = data_.tap(group, 0, taps),
                           .c = tile,
                           .ldc = columns});
    finish({tile, columns, rows_, data_.group_n}, group * data_.group_n);
  }

  void run_depthwise() {
    const std::int64_t channels = weights_.cout;
    float* tile = zeroed_tile(channels);
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
    finish({tile, channels, rows_, channels}, 0);
  }

  const GatherConvArguments& arguments_;
  const PackedConvWeights& weights_;
  const PackedConvWeights::Data& data_;
  const CpuAtoms& atoms_;
  std::int64_t begin_, rows_;
};

}  // namespace

std::int64_t gather_tile_rows(const GatherConvArguments& arguments, int threads) {
  // Three quarters of an L2 of 512 KiB for the tile and, where A is converted, its panel.
  constexpr std::int64_t kFloats = 96 * 1024, kMost = 384, kLeast = 48;
  const PackedConvWeights::Data& data = *arguments.weights->data;
  std::int64_t row_floats =
      std::min(data.depthwise ? arguments.weights->cout : data.padded_n, kTileColumns);
  if (!reads_in_place(arguments))
    row_floats += std::min(arguments.weights->cin, kMaxBlockK) + kPanelPadding;
  std::int64_t rows = std::clamp(kFloats / row_floats, kLeast, kMost);
  // Lists of pairs hold every tap of every row.
  if (data.few_channels) rows = std::clamp<std::int64_t>(8192 / arguments.weights->taps, 16, kMost);
  if (arguments.visitor) return rows;
  // Few rows: four tiles a thread, so that no thread waits long for the last.
  const std::int64_t per_thread = (arguments.rows + threads - 1) / threads;
  return std::min(rows, std::max(kLeast, per_thread / 4));
}

TileGrid gather_grid(const GatherConvArguments& arguments) {
  const PackedConvWeights::Data& data = *arguments.weights->data;
  const std::int64_t columns = data.depthwise      ? arguments.weights->cout
                               : data.few_channels ? data.group_n
                                                   : std::min(data.group_n, kTileColumns);
  return {arguments.rows, arguments.weights->cout, 1, gather_tile_rows(arguments, 1), columns};
}

void run_gather_tile(const GatherConvArguments& arguments, std::int64_t begin, std::int64_t end) {
  Tile(arguments, begin, end).run();
}

}  // namespace gemm_core
