// What the dense mainloop multiplies, one struct a kind: the words that its micro-kernel reads,
// what it sums in, how blocks of A and B become words, which atom multiplies. Ranges are in words
// along k and in reals along n.
#pragma once
#include <algorithm>
#include <type_traits>

#include "gemm_core/collective/cpu_block_loads.hpp"
#include "gemm_core/collective/cpu_dense_mainloop.hpp"
#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/collective/cpu_operand_loads.hpp"
#include "gemm_core/collective/cpu_word_loads.hpp"

namespace gemm_core::dense {

template <class WordT, class SumT, int kKPerWordN, int kRealsN = 1>
struct KindOf {
  using Word = WordT;
  using Sum = SumT;
  static constexpr int kKPerWord = kKPerWordN;  // products of one word
  static constexpr int kReals = kRealsN;        // reals of an element: 2 where it is complex
  static constexpr bool kIsWide = std::is_same_v<SumT, double>;
};

struct F32 : KindOf<float, float, 1> {
  static void load_a(const CpuAtoms& atoms, const DenseProblem& p, const BlockRange& r, Word* to,
                     std::int64_t ld) {
    load_block(atoms, p.a, r, p.compute, to, ld);
  }
  static void load_b(const CpuAtoms& atoms, const DenseProblem& p, const BlockRange& r, Word* to,
                     std::int64_t ld) {
    load_block(atoms, p.b, r, p.compute, to, ld);
  }
  static void multiply(const CpuAtoms& atoms, const PanelProduct<float>& p) { atoms.multiply(p); }
};

struct F64 : KindOf<double, double, 1> {
  static void load_a(const CpuAtoms&, const DenseProblem& p, const BlockRange& r, Word* to,
                     std::int64_t ld) {
    load_block(p.a, r, to, ld);
  }
  static void load_b(const CpuAtoms&, const DenseProblem& p, const BlockRange& r, Word* to,
                     std::int64_t ld) {
    load_block(p.b, r, to, ld);
  }
  static void multiply(const CpuAtoms& atoms, const PanelProduct<double>& p) {
    atoms.multiply_f64(p);
  }
};

// Integers of at most 8 bits, widened to pairs of int16.
struct I16 : KindOf<std::int32_t, std::int32_t, 2> {
  static void load_a(const CpuAtoms&, const DenseProblem& p, const BlockRange& r, Word* to,
                     std::int64_t ld) {
    load_pairs_along_rows(p.a, r, p.k, to, ld);
  }
  static void load_b(const CpuAtoms&, const DenseProblem& p, const BlockRange& r, Word* to,
                     std::int64_t ld) {
    load_pairs_down_columns(p.b, r, p.k, to, ld);
  }
  static void multiply(const CpuAtoms& atoms, const PanelProduct<std::int32_t>& p) {
    atoms.multiply_i16(p);
  }
};

// Quads of uint8 x int8. A signed A is raised by 128, and 128 times the sums of B's columns taken
// off again.
struct U8I8 : KindOf<std::int32_t, std::int32_t, 4> {
  static bool is_raised(base::DType a) {
    return a == base::DType::i8 || a == base::DType::i4 || a == base::DType::i2;
  }
  static void load_a(const CpuAtoms&, const DenseProblem& p, const BlockRange& r, Word* to,
                     std::int64_t ld) {
    load_quads_along_rows(p.a, r, p.k, is_raised(p.a.dtype), to, ld);
  }
  static void load_b(const CpuAtoms&, const DenseProblem& p, const BlockRange& r, Word* to,
                     std::int64_t ld) {
    load_quads_down_columns(p.b, r, p.k, to, ld);
  }
  static void multiply(const CpuAtoms& atoms, const PanelProduct<std::int32_t>& p) {
    atoms.multiply_u8i8(p);
  }
};

// Pairs of bf16, summed in fp32.
struct Bf16 : KindOf<std::uint32_t, float, 2> {
  static void load_a(const CpuAtoms& atoms, const DenseProblem& p, const BlockRange& r, Word* to,
                     std::int64_t ld) {
    load_bf16_along_rows(atoms, p.a, r, p.k, to, ld);
  }
  static void load_b(const CpuAtoms& atoms, const DenseProblem& p, const BlockRange& r, Word* to,
                     std::int64_t ld) {
    load_bf16_down_columns(atoms, p.b, r, p.k, to, ld);
  }
  static void multiply(const CpuAtoms& atoms, const PanelProduct<std::uint32_t, float>& p) {
    atoms.multiply_bf16(p);
  }
};

template <class Real>
struct Complex : KindOf<Real, Real, 1, 2> {
  using typename KindOf<Real, Real, 1, 2>::Word;
  static BlockRange elements(const BlockRange& r) {
    return {r.row, r.rows, r.column / 2, r.columns / 2};
  }
  static void load_a(const CpuAtoms&, const DenseProblem& p, const BlockRange& r, Word* to,
                     std::int64_t ld) {
    load_complex_rows<Real>(p.a, elements(r), to, ld);
  }
  static void load_b(const CpuAtoms&, const DenseProblem& p, const BlockRange& r, Word* to,
                     std::int64_t ld) {
    load_complex_blocks<Real>(p.b, {r.row / 2, r.rows / 2, r.column / 2, r.columns / 2}, to, ld);
  }
  static void multiply(const CpuAtoms& atoms, const PanelProduct<float>& p) { atoms.multiply(p); }
  static void multiply(const CpuAtoms& atoms, const PanelProduct<double>& p) {
    atoms.multiply_f64(p);
  }
};

inline bool uses_quads(const CpuAtoms& atoms, const DenseProblem& p) {
  return p.tiling.dot_products && atoms.multiply_u8i8 && p.b.dtype != base::DType::u8;
}
inline bool uses_bf16(const CpuAtoms& atoms, const DenseProblem& p) {
  return p.compute == base::DType::bf16 && p.tiling.dot_products && atoms.multiply_bf16;
}

template <class Body>
auto visit_kind(const CpuAtoms& atoms, const DenseProblem& p, Body&& body) {
  switch (p.compute) {
    case base::DType::f64:
      return body(F64{});
    case base::DType::c64:
      return body(Complex<float>{});
    case base::DType::c128:
      return body(Complex<double>{});
    case base::DType::i8:
      return uses_quads(atoms, p) ? body(U8I8{}) : body(I16{});
    default:
      return uses_bf16(atoms, p) ? body(Bf16{}) : body(F32{});
  }
}

constexpr std::int64_t round_up(std::int64_t value, std::int64_t to) {
  return (value + to - 1) / to * to;
}

// Tile (96 x 512 floats) and A block (96 x 256) share an L2 of 512 KiB with the panels of B that
// stream by.
inline constexpr std::int64_t kTileM = 96, kTileN = 512;
// Longest chain in one register; see kMaxBlockK of the packed convolution weights.
inline constexpr std::int64_t kBlockK = 256;

// Extents of a problem in words of its kind.
template <class Kind>
struct Shape {
  std::int64_t k, n, panel, padded_n, tile_m, tile_n, block_k;
  Shape(const CpuAtoms& atoms, const DenseProblem& p) {
    const std::int64_t lanes = Kind::kIsWide ? atoms.lanes_f64 : atoms.lanes;
    k = (p.k * Kind::kReals + Kind::kKPerWord - 1) / Kind::kKPerWord;
    n = p.n * Kind::kReals;
    panel = lanes * atoms.panel_vectors;
    padded_n = round_up(n, lanes);
    tile_m = p.tiling.tile_m ? p.tiling.tile_m : Kind::kIsWide ? kTileM / 2 : kTileM;
    // At least 16 columns: tiles then share no byte of a mask.
    tile_n =
        round_up(p.tiling.tile_n ? p.tiling.tile_n : kTileN, std::max<std::int64_t>(panel, 16));
    const std::int64_t chain = p.chain ? p.chain : kBlockK;
    block_k = std::is_same_v<typename Kind::Sum, std::int32_t>
                  ? kBlockK
                  : round_up(chain, 2) / Kind::kKPerWord;
  }
  std::int64_t blocks() const { return (k + block_k - 1) / block_k; }
};

// Where a tile lies, in reals.
struct TileAt {
  std::int64_t m0, rows, n0, columns, ld;
};

// cpu_dense_store.cpp: combination with C, epilogue and store of a tile of sums.
void store_tile(const CpuAtoms& atoms, const DenseProblem& p, float* tile, const TileAt& t);
void store_tile(const CpuAtoms& atoms, const DenseProblem& p, double* tile, const TileAt& t);
void store_tile(const CpuAtoms& atoms, const DenseProblem& p, std::int32_t* tile, const TileAt& t);

}  // namespace gemm_core::dense
