#include "gemm_core/collective/cpu_dense_mainloop.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "gemm_core/base/numeric.hpp"
#include "gemm_core/collective/aligned_buffer.hpp"
#include "gemm_core/collective/cpu_block_loads.hpp"
#include "gemm_core/epilogue/cpu_epilogue.hpp"

namespace gemm_core {
namespace {

using base::DType;

// Tile (96 x 512 floats) and A block (96 x 256) share an L2 of 512 KiB with the panels of B that
// stream by.
constexpr std::int64_t kTileM = 96, kTileN = 512;
// Longest chain in one register; see kMaxBlockK of the packed convolution weights.
constexpr std::int64_t kBlockK = 256;
// Rows of the packed A block start in different sets of L1.
constexpr std::int64_t kRowPadding = 16;

struct Scratch {
  AlignedBuffer tile, a, c;
};
Scratch& scratch() {
  thread_local Scratch kept;
  return kept;
}

template <class Word>
Word* reserve(AlignedBuffer& buffer, std::int64_t count) {
  return reinterpret_cast<Word*>(
      buffer.reserve(count * static_cast<std::int64_t>(sizeof(Word) / sizeof(float))));
}

constexpr std::int64_t round_up(std::int64_t value, std::int64_t to) {
  return (value + to - 1) / to * to;
}

// What the micro-kernel multiplies: float, double, or a word of two int16.
template <class Body>
auto visit_word(DType compute, Body&& body) {
  if (compute == DType::f64) return body(double{});
  if (compute == DType::i8) return body(std::int32_t{});
  return body(float{});
}

template <class Word>
struct Shape {
  std::int64_t k, panel, padded_n, tile_m, tile_n;
  Shape(const CpuAtoms& atoms, const DenseProblem& p) {
    constexpr bool kWide = std::is_same_v<Word, double>;
    const std::int64_t lanes = kWide ? atoms.lanes_f64 : atoms.lanes;
    k = std::is_same_v<Word, std::int32_t> ? (p.k + 1) / 2 : p.k;
    panel = lanes * atoms.panel_vectors;
    padded_n = round_up(p.n, lanes);
    tile_m = kWide ? kTileM / 2 : kTileM;
    tile_n = round_up(kTileN, panel);
  }
};

template <class Word>
void pack_panel(const CpuAtoms& atoms, const DenseProblem& p, Word* packed, std::int64_t unit) {
  const Shape<Word> s(atoms, p);
  const std::int64_t n0 = unit * s.panel, width = std::min(s.panel, s.padded_n - n0);
  const std::int64_t columns = std::min(width, p.n - n0);
  for (std::int64_t k0 = 0; k0 < s.k; k0 += kBlockK) {
    const std::int64_t k = std::min(kBlockK, s.k - k0);
    Word* to = packed + k0 * s.padded_n + n0 * k;
    if (columns < width) std::fill(to, to + k * width, Word{});
    const BlockRange range{k0, k, n0, columns};
    if constexpr (std::is_same_v<Word, float>) load_block(atoms, p.b, range, p.compute, to, width);
    if constexpr (std::is_same_v<Word, double>) load_block(p.b, range, to, width);
    if constexpr (std::is_same_v<Word, std::int32_t>)
      load_pairs_down_columns(p.b, range, p.k, to, width);
  }
}

template <class Word>
struct ABlock {
  const Word* base;
  std::int64_t pitch;
};

// In place where the micro-kernel can read it: fp32 as it is, rows not aliasing each other's cache
// sets.
template <class Word>
ABlock<Word> a_block(const CpuAtoms& atoms, const DenseProblem& p, const BlockRange& range) {
  if constexpr (std::is_same_v<Word, float>) {
    constexpr std::int64_t kAliasFloats = 256;
    const bool plain = p.a.dtype == DType::f32 && p.compute == DType::f32 && p.a.column_stride == 1;
    if (plain && p.a.row_stride % kAliasFloats != 0) {
      return {static_cast<const float*>(p.a.data) + range.row * p.a.row_stride + range.column,
              p.a.row_stride};
    }
  }
  const std::int64_t pitch = kBlockK + kRowPadding;
  Word* to = reserve<Word>(scratch().a, range.rows * pitch);
  if constexpr (std::is_same_v<Word, float>) load_block(atoms, p.a, range, p.compute, to, pitch);
  if constexpr (std::is_same_v<Word, double>) load_block(p.a, range, to, pitch);
  if constexpr (std::is_same_v<Word, std::int32_t>)
    load_pairs_along_rows(p.a, range, p.k, to, pitch);
  return {to, pitch};
}

char* d_address(const DenseProblem& p, std::int64_t m, std::int64_t n) {
  return static_cast<char*>(p.d) +
         (m * p.d_row_stride + n * p.d_column_stride) * base::bytes(p.d_dtype);
}

template <class T>
const T& c_element(const DenseProblem& p, std::int64_t m, std::int64_t n) {
  return static_cast<const T*>(p.c.data)[m * p.c.row_stride + n * p.c.column_stride];
}

void finish(const CpuAtoms& atoms, const DenseProblem& p, const Block& block, std::int64_t m0,
            std::int64_t n0) {
  LinearCombination l{.alpha = static_cast<float>(p.alpha), .beta = static_cast<float>(p.beta)};
  if (p.beta != 0) {
    float* c = scratch().c.reserve(block.rows * block.columns);
    load_block(atoms, p.c, {m0, block.rows, n0, block.columns}, DType::f32, c, block.columns);
    l.c = c;
    l.pitch = block.columns;
  }
  if (p.alpha != 1 || p.beta != 0) atoms.combine(block, l);
  if (p.visitor) p.visitor->tile(atoms, block, {m0, n0, p.batch});
  const Epilogue& epilogue = p.epilogue ? *p.epilogue : kNoEpilogue;
  if (p.d_column_stride == 1) {
    run_epilogue(atoms, epilogue, block, m0, n0,
                 {p.d, p.d_dtype, {}, {p.m, p.n}, {p.d_row_stride, 1}});
    return;
  }
  run_epilogue_nodes(atoms, epilogue, block, m0, n0);
  for (std::int64_t j = 0; j < block.columns; ++j) {  // D may be contiguous down its columns
    for (std::int64_t i = 0; i < block.rows; ++i) {
      const float value = block.values[i * block.ld + j];
      char* to = d_address(p, m0 + i, n0 + j);
      switch (p.d_dtype) {
        case DType::f16:
          *reinterpret_cast<base::half_t*>(to) = base::half_t(value);
          break;
        case DType::bf16:
          *reinterpret_cast<base::bf16_t*>(to) = base::bf16_t(value);
          break;
        default:
          *reinterpret_cast<float*>(to) = value;
          break;
      }
    }
  }
}

struct TileAt {
  std::int64_t m0, rows, n0, columns, ld;
};

void finish_tile(const CpuAtoms& atoms, const DenseProblem& p, float* tile, const TileAt& t) {
  finish(atoms, p, {tile, t.ld, t.rows, t.columns}, t.m0, t.n0);
}

void finish_tile(const CpuAtoms&, const DenseProblem& p, double* tile, const TileAt& t) {
  for (std::int64_t i = 0; i < t.rows; ++i) {
    for (std::int64_t j = 0; j < t.columns; ++j) {
      double value = p.alpha * tile[i * t.ld + j];
      if (p.beta != 0) value = std::fma(p.beta, c_element<double>(p, t.m0 + i, t.n0 + j), value);
      *reinterpret_cast<double*>(d_address(p, t.m0 + i, t.n0 + j)) = value;
    }
  }
}

void finish_tile(const CpuAtoms& atoms, const DenseProblem& p, std::int32_t* tile,
                 const TileAt& t) {
  if (p.d_dtype != DType::i32) {  // sums leave the integers here
    float* values = reinterpret_cast<float*>(tile);
    for (std::int64_t i = 0; i < t.rows * t.ld; ++i) values[i] = static_cast<float>(tile[i]);
    finish(atoms, p, {values, t.ld, t.rows, t.columns}, t.m0, t.n0);
    return;
  }
  for (std::int64_t i = 0; i < t.rows; ++i) {
    for (std::int64_t j = 0; j < t.columns; ++j) {
      std::uint32_t value = static_cast<std::uint32_t>(tile[i * t.ld + j]);
      if (p.beta != 0)
        value += static_cast<std::uint32_t>(c_element<std::int32_t>(p, t.m0 + i, t.n0 + j));
      *reinterpret_cast<std::int32_t*>(d_address(p, t.m0 + i, t.n0 + j)) =
          static_cast<std::int32_t>(value);
    }
  }
}

void multiply(const CpuAtoms& atoms, const PanelProduct<float>& p) { atoms.multiply(p); }
void multiply(const CpuAtoms& atoms, const PanelProduct<double>& p) { atoms.multiply_f64(p); }
void multiply(const CpuAtoms& atoms, const PanelProduct<std::int32_t>& p) { atoms.multiply_i16(p); }

template <class Word>
void run_tile(const CpuAtoms& atoms, const DenseProblem& p, const Word* packed,
              std::int64_t index) {
  const Shape<Word> s(atoms, p);
  const std::int64_t tiles_m = (p.m + s.tile_m - 1) / s.tile_m;
  const std::int64_t m0 = index % tiles_m * s.tile_m, n0 = index / tiles_m * s.tile_n;
  const std::int64_t rows = std::min(s.tile_m, p.m - m0),
                     columns = std::min(s.tile_n, s.padded_n - n0);
  Word* tile = reserve<Word>(scratch().tile, rows * columns);
  if (s.k == 0) std::memset(tile, 0, static_cast<std::size_t>(rows * columns) * sizeof(Word));
  for (std::int64_t k0 = 0; k0 < s.k; k0 += kBlockK) {
    const std::int64_t k = std::min(kBlockK, s.k - k0);
    const ABlock<Word> a = a_block<Word>(atoms, p, {m0, rows, k0, k});
    multiply(atoms, PanelProduct<Word>{.base = a.base,
                                       .pitch = a.pitch,
                                       .rows = rows,
                                       .k = k,
                                       .columns = columns,
                                       .b = packed + k0 * s.padded_n + n0 * k,
                                       .c = tile,
                                       .ldc = columns,
                                       .accumulate = k0 > 0});
  }
  finish_tile(atoms, p, tile, {m0, rows, n0, std::min(columns, p.n - n0), columns});
}

}  // namespace

std::int64_t packed_bytes(const CpuAtoms& atoms, const DenseProblem& p) {
  return visit_word(p.compute, [&](auto word) {
    const Shape<decltype(word)> s(atoms, p);
    return round_up(s.k * s.padded_n * static_cast<std::int64_t>(sizeof(word)), 64);
  });
}

std::int64_t pack_units(const CpuAtoms& atoms, const DenseProblem& p) {
  return visit_word(p.compute, [&](auto word) {
    const Shape<decltype(word)> s(atoms, p);
    return p.m == 0 ? 0 : (s.padded_n + s.panel - 1) / s.panel;
  });
}

void pack_unit(const CpuAtoms& atoms, const DenseProblem& p, void* packed, std::int64_t unit) {
  visit_word(p.compute,
             [&](auto word) { pack_panel(atoms, p, static_cast<decltype(word)*>(packed), unit); });
}

TileGrid dense_grid(const CpuAtoms& atoms, const DenseProblem& p, std::int64_t batch) {
  return visit_word(p.compute, [&](auto word) {
    const Shape<decltype(word)> s(atoms, p);
    return TileGrid{p.m, p.n, batch, s.tile_m, s.tile_n};
  });
}

std::int64_t dense_tiles(const CpuAtoms& atoms, const DenseProblem& p) {
  const TileGrid grid = dense_grid(atoms, p, 1);
  return grid.tiles_m() * grid.tiles_n();
}

void run_dense_tile(const CpuAtoms& atoms, const DenseProblem& p, const void* packed,
                    std::int64_t tile) {
  visit_word(p.compute, [&](auto word) {
    run_tile(atoms, p, static_cast<const decltype(word)*>(packed), tile);
  });
}

}  // namespace gemm_core
