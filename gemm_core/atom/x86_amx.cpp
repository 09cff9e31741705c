// AMX: tiles of 16 rows by 64 bytes. A register tile is 2 x 2 tiles of C over 2 tiles of A and 2 of
// B, 16 words of k a step. B's panels already have the form that the instruction wants; ends of k
// and of the rows are padded.
#include "gemm_core/atom/x86_dot_products.hpp"

#if defined(__x86_64__) && defined(__linux__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,amx-tile,amx-int8,amx-bf16"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,amx-tile,amx-int8,amx-bf16")
#endif

namespace gemm_core::x86 {
namespace {

constexpr std::int64_t kSide = 16;  // rows, words of k, columns of a tile
constexpr std::int64_t kPanelWidth = 4 * kSide;

struct TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

// Tiles of a thread, set up once a product and given back after it.
struct TileScope {
  TileScope() {
    const TileConfig config;
    _tile_loadconfig(&config);
  }
  ~TileScope() { _tile_release(); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

struct Quads {
  using Word = std::int32_t;
  using Sum = std::int32_t;
  static void multiply() {  // C tiles 0..3, A 4 and 5, B 6 and 7
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
};
struct Bf16Pairs {
  using Word = std::uint32_t;
  using Sum = float;
  static void multiply() {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
};

template <class Kind>
using Product = PanelProduct<typename Kind::Word, typename Kind::Sum>;

// 32 rows of A, one step of k, padded with zeros: what a tile load can read whatever rows there
// are.
template <class Kind>
struct PaddedA {
  alignas(64) typename Kind::Word words[2 * kSide][kSide];
  void fill(const Product<Kind>& p, std::int64_t row, std::int64_t k) {
    const std::int64_t count = std::min(kSide, p.k - k);
    std::memset(words, 0, sizeof(words));
    for (std::int64_t r = 0; r < std::min(2 * kSide, p.rows - row); ++r) {
      const std::int64_t from = p.source ? p.source[row + r] : row + r;
      std::memcpy(words[r], p.base + from * p.pitch + k, static_cast<std::size_t>(count) * 4);
    }
  }
};

template <class Kind>
struct PaddedB {
  alignas(64) typename Kind::Word words[2][kSide][kSide];
  // Columns [n, n + 32) of a panel of `width` columns.
  void fill(const typename Kind::Word* panel, std::int64_t width, std::int64_t n, std::int64_t k,
            std::int64_t end) {
    std::memset(words, 0, sizeof(words));
    for (std::int64_t i = k; i < std::min(end, k + kSide); ++i) {
      for (std::int64_t half = 0; half < 2 && n + half * kSide < width; ++half) {
        std::memcpy(words[half][i - k], panel + i * width + n + half * kSide, 64);
      }
    }
  }
};

template <class Kind>
void store(const Product<Kind>& p, std::int64_t row, std::int64_t column,
           const typename Kind::Sum* tile) {
  for (std::int64_t r = 0; r < std::min(kSide, p.rows - row); ++r) {
    auto* to = p.c + (p.target ? p.target[row + r] : row + r) * p.ldc + column;
    for (std::int64_t j = 0; j < kSide; ++j)
      to[j] = p.accumulate ? to[j] + tile[r * kSide + j] : tile[r * kSide + j];
  }
}

template <class Kind>
void multiply_block(const Product<Kind>& p, std::int64_t row, const typename Kind::Word* panel,
                    std::int64_t width, std::int64_t first, std::int64_t n) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  const bool has_rows = p.source == nullptr && row + 2 * kSide <= p.rows;
  const bool has_columns = n + 2 * kSide <= width;
  for (std::int64_t k = 0; k < p.k; k += kSide) {
    const bool whole = k + kSide <= p.k;
    if (has_rows && whole) {
      const auto* a = p.base + row * p.pitch + k;
      _tile_loadd(4, a, static_cast<long>(p.pitch * 4));
      _tile_loadd(5, a + kSide * p.pitch, static_cast<long>(p.pitch * 4));
    } else {
      PaddedA<Kind> a;
      a.fill(p, row, k);
      _tile_loadd(4, a.words[0], 64);
      _tile_loadd(5, a.words[kSide], 64);
    }
    if (has_columns && whole) {
      const auto* b = panel + k * width + n;
      _tile_loadd(6, b, static_cast<long>(width * 4));
      _tile_loadd(7, b + kSide, static_cast<long>(width * 4));
    } else {
      PaddedB<Kind> b;
      b.fill(panel, width, n, k, p.k);
      _tile_loadd(6, b.words[0], 64);
      _tile_loadd(7, b.words[1], 64);
    }
    Kind::multiply();
  }
  alignas(64) typename Kind::Sum tile[4][kSide * kSide];
  _tile_stored(0, tile[0], 64);
  _tile_stored(1, tile[1], 64);
  _tile_stored(2, tile[2], 64);
  _tile_stored(3, tile[3], 64);
  for (std::int64_t half = 0; half < 2 && n + half * kSide < width; ++half) {
    store<Kind>(p, row, first + n + half * kSide, tile[half]);
    if (row + kSide < p.rows) store<Kind>(p, row + kSide, first + n + half * kSide, tile[2 + half]);
  }
}

template <class Kind>
void multiply(const Product<Kind>& p) {
  const TileScope tiles;
  for (std::int64_t first = 0; first < p.columns; first += kPanelWidth) {
    const std::int64_t width = std::min(kPanelWidth, p.columns - first);
    for (std::int64_t row = 0; row < p.rows; row += 2 * kSide) {
      for (std::int64_t n = 0; n < width; n += 2 * kSide) {
        multiply_block<Kind>(p, row, p.b + first * p.k, width, first, n);
      }
    }
  }
}

}  // namespace

QuadProduct amx_int8_product() { return &multiply<Quads>; }
Bf16Product amx_bf16_product() { return &multiply<Bf16Pairs>; }

}  // namespace gemm_core::x86

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
