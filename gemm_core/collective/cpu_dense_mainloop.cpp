#include "gemm_core/collective/cpu_dense_mainloop.hpp"

#include <algorithm>
#include <cstring>

#include "gemm_core/collective/aligned_buffer.hpp"
#include "gemm_core/collective/cpu_dense_kinds.hpp"
#include "gemm_core/epilogue/cpu_epilogue.hpp"

namespace gemm_core {
namespace {

using namespace dense;  // NOLINT: the kinds of this file
using base::DType;

// Rows of the packed A block start in different sets of L1.
constexpr std::int64_t kRowPadding = 16;

struct Scratch {
  AlignedBuffer tile, a;
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

template <class Kind>
std::int32_t* column_sums(const Shape<Kind>& s, void* packed) {
  return static_cast<std::int32_t*>(packed) + s.k * s.padded_n;
}

// The sums of B's columns in [n0, n0 + width), over bytes of packed quads.
void sum_columns(const std::int32_t* words, std::int64_t rows, std::int64_t width,
                 std::int32_t* sums) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < width; ++j) {
      std::int8_t bytes[4];
      std::memcpy(bytes, &words[i * width + j], 4);
      sums[j] += bytes[0] + bytes[1] + bytes[2] + bytes[3];
    }
  }
}

template <class Kind>
void pack_panel(const CpuAtoms& atoms, const DenseProblem& p, void* packed, std::int64_t unit) {
  using Word = typename Kind::Word;
  const Shape<Kind> s(atoms, p);
  const std::int64_t n0 = unit * s.panel, width = std::min(s.panel, s.padded_n - n0);
  const std::int64_t columns = std::min(width, s.n - n0);
  if constexpr (std::is_same_v<Kind, U8I8>) std::fill_n(column_sums(s, packed) + n0, width, 0);
  for (std::int64_t k0 = 0; k0 < s.k; k0 += s.block_k) {
    const std::int64_t k = std::min(s.block_k, s.k - k0);
    Word* to = static_cast<Word*>(packed) + k0 * s.padded_n + n0 * k;
    if (columns < width) std::fill(to, to + k * width, Word{});
    Kind::load_b(atoms, p, {k0, k, n0, columns}, to, width);
    if constexpr (std::is_same_v<Kind, U8I8>)
      sum_columns(to, k, width, column_sums(s, packed) + n0);
  }
}

template <class Word>
struct ABlock {
  const Word* base;
  std::int64_t pitch;
};

// In place where the micro-kernel can read it: fp32 as it is, rows not aliasing each other's cache
// sets.
template <class Kind>
ABlock<typename Kind::Word> a_block(const CpuAtoms& atoms, const DenseProblem& p,
                                    const Shape<Kind>& s, const BlockRange& range) {
  if constexpr (std::is_same_v<Kind, F32>) {
    constexpr std::int64_t kAliasFloats = 256;
    const bool plain = p.a.access == nullptr && p.a.dtype == DType::f32 &&
                       p.compute == DType::f32 && p.a.column_stride == 1;
    // Rows that follow each other without a gap, and are taken whole, spread over all sets.
    const bool has_no_gaps = p.a.row_stride == range.columns && range.columns <= kAliasFloats;
    if (plain && (has_no_gaps || p.a.row_stride % kAliasFloats != 0)) {
      return {static_cast<const float*>(p.a.data) + range.row * p.a.row_stride + range.column,
              p.a.row_stride};
    }
  }
  const std::int64_t pitch = std::min(s.block_k, s.k) + kRowPadding;
  auto* to = reserve<typename Kind::Word>(scratch().a, range.rows * pitch);
  Kind::load_a(atoms, p, range, to, pitch);
  return {to, pitch};
}

template <class Kind>
TileAt tile_at(const Shape<Kind>& s, const DenseProblem& p, std::int64_t index) {
  const std::int64_t tiles_m = (p.m + s.tile_m - 1) / s.tile_m;
  const std::int64_t m0 = index % tiles_m * s.tile_m, n0 = index / tiles_m * s.tile_n;
  const std::int64_t ld = std::min(s.tile_n, s.padded_n - n0);
  return {m0, std::min(s.tile_m, p.m - m0), n0, std::min(ld, s.n - n0), ld};
}

// Rows of memory of a block of an operand that has plain strides.
AheadRows rows_of(const MatrixRef& m, const BlockRange& r) {
  if (m.access != nullptr || base::bits(m.dtype) < 8) return {};
  const std::int64_t size = base::bytes(m.dtype);
  const char* first =
      static_cast<const char*>(m.data) + (r.row * m.row_stride + r.column * m.column_stride) * size;
  if (m.column_stride == 1) return {first, m.row_stride * size, r.rows, r.columns * size};
  if (m.row_stride == 1) return {first, m.column_stride * size, r.columns, r.rows * size};
  return {};
}

// Whether a tile's sums are its results, in vectors: the last block along k then writes D itself.
// Only where a panel is one line wide: on a Xeon with AVX-512, whose panels are four, products with
// K = 256 took 8 % longer so.
template <class Kind>
bool has_plain_results(const CpuAtoms& atoms, const DenseProblem& p, const TileAt& t) {
  constexpr std::int64_t kLineFloats = 16;
  return std::is_same_v<Kind, F32> && atoms.lanes * atoms.panel_vectors <= kLineFloats &&
         p.alpha == 1 && p.beta == 0 && p.visitor == nullptr &&
         (p.epilogue == nullptr || p.epilogue->nodes.empty()) && p.d_dtype == DType::f32 &&
         p.d_access == nullptr && p.d_column_stride == 1 && t.columns == t.ld;
}

// What is read and written once the sums of a tile are whole.
void ask_for_results(const DenseProblem& p, const TileAt& t, Ahead& ahead) {
  const BlockRange place{t.m0, t.rows, t.n0, t.columns};
  if (p.beta != 0) ahead.add(rows_of(p.c, place));
  if (p.epilogue != nullptr) ask_for_operands(*p.epilogue, t.m0, t.rows, t.n0, t.columns, ahead);
  ahead.add(rows_of({p.d, p.d_dtype, p.d_row_stride, p.d_column_stride, p.d_access}, place));
}

// While a block of a tile is multiplied: A's rows of the next block, which begins at word next_k0
// (0: of the next tile), and under the last block the results.
template <class Kind>
Ahead ahead_of(const CpuAtoms& atoms, const DenseProblem& p, const Shape<Kind>& s, const TileAt& t,
               std::int64_t next_k0, std::int64_t next_k) {
  Ahead ahead;
  if constexpr (Kind::kReals == 1) {
    const bool is_last = next_k0 == 0;
    const std::int64_t m0 = is_last ? t.m0 + s.tile_m : t.m0, rows = std::min(s.tile_m, p.m - m0),
                       begin = next_k0 * Kind::kKPerWord, k = next_k * Kind::kKPerWord;
    if (rows > 0) ahead.add(rows_of(p.a, {m0, rows, begin, std::min(k, p.k - begin)}));
    if (is_last && !has_plain_results<Kind>(atoms, p, t)) ask_for_results(p, t, ahead);
  }
  return ahead;
}

template <class Kind>
void accumulate(const CpuAtoms& atoms, const DenseProblem& p, const typename Kind::Word* packed,
                const TileAt& t, std::int64_t begin, std::int64_t end, typename Kind::Sum* sums,
                bool stores = false) {
  const Shape<Kind> s(atoms, p);
  if (begin == end) {
    std::memset(sums, 0, static_cast<std::size_t>(t.rows * t.ld) * sizeof(typename Kind::Sum));
  }
  for (std::int64_t block = begin; block < end; ++block) {
    const std::int64_t k0 = block * s.block_k, k = std::min(s.block_k, s.k - k0);
    const auto a = a_block<Kind>(atoms, p, s, {t.m0, t.rows, k0, k});
    const std::int64_t next_k0 = block + 1 == s.blocks() ? 0 : k0 + k,
                       next_k = std::min(s.block_k, s.k - next_k0);
    const Ahead ahead = ahead_of(atoms, p, s, t, next_k0, next_k);
    PanelProduct<typename Kind::Word, typename Kind::Sum> product{
        .base = a.base,
        .pitch = a.pitch,
        .rows = t.rows,
        .k = k,
        .columns = t.ld,
        .b = packed + k0 * s.padded_n + t.n0 * k,
        .c = sums,
        .ldc = t.ld,
        .accumulate = block > begin,
        .next_b = packed + next_k0 * s.padded_n + t.n0 * next_k,
        .ahead = &ahead};
    if (stores && block + 1 == end) {
      product.c = static_cast<typename Kind::Sum*>(p.d) + t.m0 * p.d_row_stride + t.n0;
      product.ldc = p.d_row_stride;
      product.addend = sums;
      product.ld_addend = t.ld;
    }
    Kind::multiply(atoms, product);
  }
}

template <class Kind>
void finish(const CpuAtoms& atoms, const DenseProblem& p, const void* packed, const TileAt& t,
            typename Kind::Sum* sums) {
  if constexpr (std::is_same_v<Kind, U8I8>) {
    if (U8I8::is_raised(p.a.dtype)) {
      const Shape<Kind> s(atoms, p);
      const std::int32_t* columns = column_sums(s, const_cast<void*>(packed)) + t.n0;
      for (std::int64_t i = 0; i < t.rows; ++i) {
        for (std::int64_t j = 0; j < t.ld; ++j) {
          auto& sum = reinterpret_cast<std::uint32_t&>(sums[i * t.ld + j]);
          sum -= 128u * static_cast<std::uint32_t>(columns[j]);
        }
      }
    }
  }
  store_tile(atoms, p, sums, t);
}

}  // namespace

std::int64_t packed_bytes(const CpuAtoms& atoms, const DenseProblem& p) {
  return visit_kind(atoms, p, [&]<class Kind>(Kind) {
    const Shape<Kind> s(atoms, p);
    const std::int64_t sums = std::is_same_v<Kind, U8I8> ? s.padded_n : 0;
    return round_up(
        (s.k * s.padded_n + sums) * static_cast<std::int64_t>(sizeof(typename Kind::Word)), 64);
  });
}

std::int64_t pack_units(const CpuAtoms& atoms, const DenseProblem& p) {
  return visit_kind(atoms, p, [&]<class Kind>(Kind) {
    const Shape<Kind> s(atoms, p);
    return p.m == 0 ? 0 : (s.padded_n + s.panel - 1) / s.panel;
  });
}

void pack_unit(const CpuAtoms& atoms, const DenseProblem& p, void* packed, std::int64_t unit) {
  visit_kind(atoms, p, [&]<class Kind>(Kind) { pack_panel<Kind>(atoms, p, packed, unit); });
}

TileGrid dense_grid(const CpuAtoms& atoms, const DenseProblem& p, std::int64_t batch) {
  return visit_kind(atoms, p, [&]<class Kind>(Kind) {
    const Shape<Kind> s(atoms, p);
    return TileGrid{p.m, p.n, batch, s.tile_m, s.tile_n / Kind::kReals};
  });
}

std::int64_t dense_tiles(const CpuAtoms& atoms, const DenseProblem& p) {
  const TileGrid grid = dense_grid(atoms, p, 1);
  return grid.tiles_m() * grid.tiles_n();
}

std::int64_t dense_k_blocks(const CpuAtoms& atoms, const DenseProblem& p) {
  return visit_kind(atoms, p, [&]<class Kind>(Kind) { return Shape<Kind>(atoms, p).blocks(); });
}

SumType sum_type(const CpuAtoms& atoms, const DenseProblem& p) {
  return visit_kind(atoms, p, []<class Kind>(Kind) {
    using Sum = typename Kind::Sum;
    return std::is_same_v<Sum, double>  ? SumType::f64
           : std::is_same_v<Sum, float> ? SumType::f32
                                        : SumType::i32;
  });
}

std::int64_t sums_count(const CpuAtoms& atoms, const DenseProblem& p) {
  return visit_kind(atoms, p, [&]<class Kind>(Kind) {
    const Shape<Kind> s(atoms, p);
    return std::min(s.tile_m, p.m) * std::min(s.tile_n, s.padded_n);
  });
}

void accumulate_dense_tile(const CpuAtoms& atoms, const DenseProblem& p, const void* packed,
                           std::int64_t tile, std::int64_t begin, std::int64_t end, void* sums) {
  visit_kind(atoms, p, [&]<class Kind>(Kind) {
    const Shape<Kind> s(atoms, p);
    accumulate<Kind>(atoms, p, static_cast<const typename Kind::Word*>(packed), tile_at(s, p, tile),
                     begin, end, static_cast<typename Kind::Sum*>(sums));
  });
}

void finish_dense_tile(const CpuAtoms& atoms, const DenseProblem& p, const void* packed,
                       std::int64_t tile, void* sums) {
  visit_kind(atoms, p, [&]<class Kind>(Kind) {
    const Shape<Kind> s(atoms, p);
    finish<Kind>(atoms, p, packed, tile_at(s, p, tile), static_cast<typename Kind::Sum*>(sums));
  });
}

void run_dense_tile(const CpuAtoms& atoms, const DenseProblem& p, const void* packed,
                    std::int64_t tile) {
  visit_kind(atoms, p, [&]<class Kind>(Kind) {
    const Shape<Kind> s(atoms, p);
    const TileAt t = tile_at(s, p, tile);
    auto* sums = reserve<typename Kind::Sum>(scratch().tile, t.rows * t.ld);
    const bool stores = s.blocks() > 0 && has_plain_results<Kind>(atoms, p, t);
    accumulate<Kind>(atoms, p, static_cast<const typename Kind::Word*>(packed), t, 0, s.blocks(),
                     sums, stores);
    if (!stores) finish<Kind>(atoms, p, packed, t, sums);
  });
}

}  // namespace gemm_core
