// A kernel map in the order the GPU's gather kernels walk it. Everything here is a device pointer;
// the struct is trivially copyable and travels as a kernel argument. Who owns the memory:
// sparseconv/cuda/maps/device_map.cuh.
//
// Words: a *slot* is one place of the walk: one output row (or padding). Slots are grouped by 64
// and rows are assigned to slots so that the rows of a group have nearly the same set of taps
// (sorted by tap mask), because a group executes the union of its rows' taps. A *tile* is 64 or 128
// consecutive slots, the work of one step list.
//
// Single order: every output row has exactly one slot.
// Planes: the taps are split into three groups (tap % 3 == 0, 2, 1: the planes below, above and of
// the centre along z),
//   each with its own slots. Rows without a tap in an outer plane have no slot there. Outer planes
//   leave fp32 partial sums in a scratch buffer, the centre plane (all rows) adds them, below
//   first, and stores: a fixed order. Outer planes and centre are two launches; the second starts
//   while the first drains and waits for it only where it adds.
#pragma once
#include <cstdint>

namespace gemm_core {

inline constexpr int kSlotGroup = 64;       // rows of one WGMMA
inline constexpr int kSlotAlignment = 128;  // every plane starts and ends at a multiple of this
inline constexpr int kMaxMaskedTaps = 32;   // taps of a table with masks

// Bits of an entry of GatherTable::rows.
inline constexpr std::int32_t kSlotBelow = 1 << 30;  // the row has a partial sum of the plane below
inline constexpr std::int32_t kSlotAbove = 1 << 29;  // ... of the plane above
inline constexpr std::int32_t kSlotRow = kSlotAbove - 1;

struct GatherTable {
  std::int32_t taps = 0;
  std::int64_t capacity =
      0;  // slots allocated, a multiple of kSlotAlignment; row pitch of `neighbours`
  const std::int32_t* neighbours = nullptr;  // [taps][capacity] input row or -1; defined for the
                                             // taps of a slot's plane, -1 in padding slots
  const std::int32_t* rows = nullptr;  // [capacity] output row with kSlotBelow/kSlotAbove in a
                                       // centre plane; -1 in padding slots
  const std::uint32_t* group_masks =
      nullptr;  // [capacity / 64] union of the tap masks of a group's rows (plane's taps
                // only); what schedules are made from
  const std::int32_t* plane_begin =
      nullptr;  // [5] first slot of: below, above, centre, the centre's rows that add
                // partials (any slot, not aligned), and the end. Single order: 0 0 0 E E
};

// One tile of a schedule, 16 bytes, read as one load.
struct alignas(16) TileRecord {
  std::int32_t slot = -1;       // first slot of the tile; -1 ends a list
  std::uint32_t masks[2] = {};  // taps of each group of 64 slots (tiles of 64: the first only)
  std::uint32_t flags = 0;
};
enum TileFlags : std::uint32_t {
  kTileBelow = 1,  // outer planes: leave fp32 partial sums
  kTileAbove = 2,
  kTileAddsPartials = 4,  // some row of the tile has kSlotBelow or kSlotAbove
};

// Static schedule of persistent thread blocks (made from a table by build_tile_schedule): list b
// holds the tiles of block b, longest first, ended by slot = -1. Built for one tile size, one
// number of lists and either the outer planes or the centre (all rows of a single order), each tile
// given to the least loaded list, longest tiles first.
struct TileSchedule {
  std::int32_t tile = 0;  // 64 or 128 slots
  std::int32_t lists = 0,
               pitch = 0;  // records[list * pitch + i]; a list ends with at least two end records
  const TileRecord* records = nullptr;
};

}  // namespace gemm_core
