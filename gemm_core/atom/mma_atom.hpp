// MMA atoms and their tiling over threads, one form for every instruction.
//
// An atom's traits say: the number types A, B, C; kM, kN, kK; kThreads; and ALayout, BLayout,
// CLayout, which take (thread, value) to an index of the m x k, n x k and m x n tile, column-major.
// Where the host can run it there is `call(C* c, const A* a, const B* b)` on one thread's values: c
// += a * b.
//
//   using Mma = TiledMma<MmaAtom<Sm80Mma16x8x8Tf32>, 2, 2, 1, Int<32>, Int<32>>;   // 128 threads,
//   tiles of 32 x 32 auto mine = Mma::partition_c(c, thread);   // View of (values of the atom,
//   rest m, rest n)
#pragma once
#include <array>
#include <concepts>
#include <memory>

#include "gemm_core/atom/tensor_view.hpp"

namespace gemm_core {

template <class T>
concept MmaTraits = requires {
  typename T::A;
  typename T::B;
  typename T::C;
  { T::kM + T::kN + T::kK + T::kThreads } -> std::convertible_to<int>;
  requires layout::IsLayout<typename T::ALayout> && layout::IsLayout<typename T::BLayout> &&
      layout::IsLayout<typename T::CLayout>;
};

template <MmaTraits Traits>
struct MmaAtom : Traits {
  using typename Traits::ALayout;
  using typename Traits::BLayout;
  using typename Traits::CLayout;
  static_assert(layout::size<0>(ALayout{}) == Traits::kThreads &&
                    layout::size<0>(BLayout{}) == Traits::kThreads &&
                    layout::size<0>(CLayout{}) == Traits::kThreads,
                "mma atom: a layout has another number of threads");
  static constexpr int kValuesA = static_cast<int>(layout::size<1>(ALayout{}));
  static constexpr int kValuesB = static_cast<int>(layout::size<1>(BLayout{}));
  static constexpr int kValuesC = static_cast<int>(layout::size<1>(CLayout{}));
};

// What the instruction does, from its layouts alone: the tile products of all threads' values, held
// [thread][value].
template <class Atom, class Multiply>
void emulate_mma(typename Atom::C* c, const typename Atom::A* a, const typename Atom::B* b,
                 const Multiply& multiply) {
  const auto tile_of = [](auto tag, auto layout, const auto* values, int count) {
    using T = decltype(tag);
    std::vector<T> tile(static_cast<std::size_t>(layout::cosize(layout)));
    for (int t = 0; t < Atom::kThreads; ++t) {
      for (int v = 0; v < count; ++v)
        tile[static_cast<std::size_t>(layout(t, v))] = values[t * count + v];
    }
    return tile;
  };
  const auto tile_a = tile_of(typename Atom::A{}, typename Atom::ALayout{}, a, Atom::kValuesA);
  const auto tile_b = tile_of(typename Atom::B{}, typename Atom::BLayout{}, b, Atom::kValuesB);
  const typename Atom::CLayout at;
  for (int t = 0; t < Atom::kThreads; ++t) {
    for (int v = 0; v < Atom::kValuesC; ++v) {
      const int index = static_cast<int>(at(t, v)), m = index % Atom::kM, n = index / Atom::kM;
      typename Atom::C& sum = c[t * Atom::kValuesC + v];
      for (int k = 0; k < Atom::kK; ++k) {
        sum = multiply(tile_a[static_cast<std::size_t>(m + Atom::kM * k)],
                       tile_b[static_cast<std::size_t>(n + Atom::kN * k)], sum);
      }
    }
  }
}

namespace detail {

// (thread, value) of an atom and of kAtoms0 x kAtoms1 x kAtoms2 atoms, in a tile of kTile rows:
// thread steps of the atoms along its rows, its columns, and where they share it.
template <class AtomLayout, layout::Index kRows, layout::Index kColumns, layout::Index kTile,
          class AtomCounts, class AtomSteps>
BASE_HD constexpr auto tiled_thread_value() {
  using namespace layout;  // NOLINT: a short function of the algebra
  const auto atom = composition(InTile<kRows, kTile, kColumns>{}, AtomLayout{});
  const auto atoms = Layout<AtomCounts, AtomSteps>{};
  return make_layout(
      make_tuple(make_tuple(mode<0>(atom).shape, atoms.shape), mode<1>(atom).shape),
      make_tuple(make_tuple(mode<0>(atom).stride, atoms.stride), mode<1>(atom).stride));
}

}  // namespace detail

// kAtomsM x kAtomsN x kAtomsK atoms side by side; threads count an atom's threads first, then atoms
// along M, N, K. PermM and PermN say how a tile's rows and columns are dealt to the atoms: an
// integer keeps them in order, a layout (in which row a tile's i-th row stands) permutes them;
// their sizes are the tile, a multiple of the atoms' extent.
template <class Atom_, int kAtomsM, int kAtomsN, int kAtomsK = 1,
          class PermM = layout::Int<Atom_::kM * kAtomsM>,
          class PermN = layout::Int<Atom_::kN * kAtomsN>,
          class PermK = layout::Int<Atom_::kK * kAtomsK>>
struct TiledMma {
  using Atom = Atom_;
  static constexpr int kThreads = Atom::kThreads * kAtomsM * kAtomsN * kAtomsK;
  using AtomTileM = layout::Int<Atom::kM * kAtomsM>;
  using AtomTileN = layout::Int<Atom::kN * kAtomsN>;
  using AtomTileK = layout::Int<Atom::kK * kAtomsK>;
  using Counts = Ints<kAtomsM, kAtomsN, kAtomsK>;

  static constexpr auto kThreadValueA =
      detail::tiled_thread_value<typename Atom::ALayout, Atom::kM, Atom::kK, AtomTileM::value,
                                 Counts, Ints<Atom::kM, 0, Atom::kK * AtomTileM::value>>();
  static constexpr auto kThreadValueB =
      detail::tiled_thread_value<typename Atom::BLayout, Atom::kN, Atom::kK, AtomTileN::value,
                                 Counts, Ints<0, Atom::kN, Atom::kK * AtomTileN::value>>();
  static constexpr auto kThreadValueC =
      detail::tiled_thread_value<typename Atom::CLayout, Atom::kM, Atom::kN, AtomTileM::value,
                                 Counts, Ints<Atom::kM, Atom::kN * AtomTileM::value, 0>>();

  // The part of thread t: (values of the atom, rest m, rest k) and so on. The union over threads is
  // the tensor, and with one atom along K each element of C has one owner.
  template <class T, layout::IsLayout L>
  BASE_HD static constexpr auto partition_a(const View<T, L>& a, layout::Index thread) {
    return part(permuted<PermM, PermK>(a), kThreadValueA, AtomTileM{}, AtomTileK{}, thread);
  }
  template <class T, layout::IsLayout L>
  BASE_HD static constexpr auto partition_b(const View<T, L>& b, layout::Index thread) {
    return part(permuted<PermN, PermK>(b), kThreadValueB, AtomTileN{}, AtomTileK{}, thread);
  }
  template <class T, layout::IsLayout L>
  BASE_HD static constexpr auto partition_c(const View<T, L>& c, layout::Index thread) {
    return part(permuted<PermM, PermN>(c), kThreadValueC, AtomTileM{}, AtomTileN{}, thread);
  }
  // Registers of a thread for a tile of known extents.
  template <class T, layout::IsLayout L>
  BASE_HD static constexpr auto partition_fragment_c(const View<T, L>& c) {
    return FragmentOf<typename Atom::C, decltype(partition_c(c, 0).layout)>{};
  }

 private:
  template <class P0, class P1, class T, layout::IsLayout L>
  BASE_HD static constexpr auto permuted(const View<T, L>& view) {
    return make_view(view.data,
                     layout::logical_divide(view.layout, layout::make_tuple(P0{}, P1{})));
  }
  template <class T, layout::IsLayout L, layout::IsLayout ThreadValue, class M, class N>
  BASE_HD static constexpr auto part(const View<T, L>& view, const ThreadValue& tv, const M& m,
                                     const N& n, layout::Index thread) {
    return detail::part_of_thread(
        make_view(view.data, detail::split_by_thread(view.layout, tv, m, n)), thread);
  }
};

}  // namespace gemm_core
