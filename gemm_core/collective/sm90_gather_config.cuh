// The compiled forms of the gathered GEMM on Hopper: what one instance is, and what follows from
// it.
#pragma once
#include <type_traits>

#include "gemm_core/atom/sm90_descriptor.hpp"
#include "gemm_core/atom/sm90_wgmma.cuh"
#include "gemm_core/collective/gather_table.hpp"

namespace gemm_core {

// What distinguishes one compiled instance from another.
struct Sm90Tile {
  int m = 64, n = 64;  // rows and output channels of a tile
  int span_k = 64;     // channels of one swizzled span: 32, 64 or 128 bytes
  int used_k = 0;      // of a span's channels, whole 32 bytes; 0: all. The rest costs memory alone
  int spans = 1;       // of a stage
  // Three spans of 64 bytes: the first two of A lie side by side in rows of 128, so that a row is
  // asked for in two pieces instead of three.
  bool pairs_spans = false;
  int stages = 3;
  int gather_warps = 2;
  int teams = 1;  // take the steps in turn; the warps of a team share the rows of a tile
  int blocks_per_sm = 1;
  // Gather warps wait for a tap's indices before they ask for those of the next one.
  bool settles_indices = false;
  // A stage is released as soon as its product is done, not when the next one is under way: right
  // where other blocks of the SM keep the tensor cores busy meanwhile.
  bool releases_early = false;
  // The operand of the epilogue's addition is read when a tile begins, not when it ends; costs a
  // register for every four accumulators.
  bool reads_addend_early = false;
  // It is asked for behind the tile's last product, so that no fence before a product waits for it.
  bool reads_addend_last = false;
  // Two consumers take tiles of 64 rows in turn: the epilogue of one hides behind the products of
  // the other. Else there is a consumer for every 64 rows of a tile.
  bool takes_turns = false;
  // Takes GatherOperand::own; costs the gather warps a few registers.
  bool takes_own_rows = false;
  // f16: results and what is added to them may be 8-bit, each as it likes. 8-bit products' always
  // may.
  bool mixes_narrow = false;

  constexpr Sm90Tile variant(bool own_rows, bool narrow) const {
    Sm90Tile tile = *this;
    tile.takes_own_rows = own_rows;
    tile.mixes_narrow = narrow;
    return tile;
  }
};

template <class Element_, Sm90Tile kTile>
struct Sm90GatherConfig {
  using Element = Element_;
  // Of results and of what is added to them, where they are not 8-bit.
  using Wide = std::conditional_t<sizeof(Element) == 1, base::half_t, Element>;
  template <bool kOwnRows, bool kNarrow>
  using Variant = Sm90GatherConfig<Element, kTile.variant(kOwnRows, kNarrow)>;
  using Mma = Sm90Wgmma<Element, kTile.n>;
  static constexpr int kTileM = kTile.m, kTileN = kTile.n, kSpanK = kTile.span_k;
  static constexpr int kUsedK = kTile.used_k > 0 ? kTile.used_k : kSpanK;
  static constexpr int kSpans = kTile.spans, kStages = kTile.stages;
  static constexpr int kGatherWarps = kTile.gather_warps, kTeams = kTile.teams;
  static constexpr int kBlocksPerSm = kTile.blocks_per_sm;
  static constexpr bool kReleasesEarly = kTile.releases_early;
  static constexpr bool kReadsAddendEarly = kTile.reads_addend_early;
  static constexpr bool kReadsAddendLast = kTile.reads_addend_last;
  static constexpr bool kSettlesIndices = kTile.settles_indices;
  static constexpr bool kPairsSpans = kTile.pairs_spans;
  static constexpr bool kTakesTurns = kTile.takes_turns;
  static constexpr bool kTakesOwnRows = kTile.takes_own_rows;
  static constexpr bool kMixesNarrow = sizeof(Element) == 1 || kTile.mixes_narrow;
  static constexpr int kTeamWarps = kGatherWarps / kTeams;
  static constexpr int kStageK = kUsedK * kSpans;

  static constexpr int kGroups = kTileM / kSlotGroup;           // of 64 rows
  static constexpr int kConsumers = kTakesTurns ? 2 : kGroups;  // warpgroups
  static_assert(!kTakesTurns || kGroups == 1);
  static constexpr int kThreads = kConsumers * 128 + kGatherWarps * 32;
  static constexpr int kSpanBytes = kSpanK * static_cast<int>(sizeof(Element));
  static constexpr int kUsedBytes = kUsedK * static_cast<int>(sizeof(Element));
  static_assert(kUsedBytes % 32 == 0 && kUsedBytes <= kSpanBytes);
  static_assert(!kPairsSpans || (kSpanBytes == 64 && kSpans == 3 && kUsedBytes == kSpanBytes));
  // Of A's rows in its first span, or in its first two.
  static constexpr int kFirstBytes = kPairsSpans ? 2 * kSpanBytes : kSpanBytes;
  static constexpr int kSpanBytesA = kTileM * kSpanBytes, kSpanBytesB = kTileN * kSpanBytes;
  static constexpr int kStageBytesA = kSpans * kSpanBytesA, kStageBytesB = kSpans * kSpanBytesB;
  static constexpr int kStageBytes = kStageBytesA + kStageBytesB;
  static constexpr int kSharedBytes = 1024 + kStages * (kStageBytes + 16);

  static_assert(kTileM == 64 || kTileM == 128);
  // A team waits for a stage's barrier only at its own steps: it must not fall two phases behind.
  static_assert(kGatherWarps % kTeams == 0 && kTeams <= kStages);
  static_assert(kSpanBytesA % 1024 == 0 && kSpanBytesB % 1024 == 0,
                "spans start where the swizzle pattern does");
  static_assert(kSharedBytes * kBlocksPerSm <= 227 * 1024, "stages do not fit in shared memory");

  // Registers move from the gather warps to the consumers where both are whole warpgroups and the
  // accumulators are large.
  static constexpr bool kMovesRegisters =
      kGatherWarps % 4 == 0 && kTileN >= 128 && kBlocksPerSm == 1;
  static constexpr int kCompiledRegisters = 65536 / (kThreads * kBlocksPerSm) / 8 * 8;
  static constexpr int kGatherRegisters = kCompiledRegisters >= 168   ? 88
                                          : kCompiledRegisters >= 120 ? 64
                                                                      : 40;
  static constexpr int kGatherGroups = kGatherWarps / 4;
  static constexpr int kConsumerBudget =
      (kCompiledRegisters * (kConsumers + kGatherGroups) - kGatherRegisters * kGatherGroups) /
      kConsumers / 8 * 8;
  static constexpr int kConsumerRegisters = kConsumerBudget > 232 ? 232 : kConsumerBudget;
};

}  // namespace gemm_core
