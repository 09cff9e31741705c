// The device's hash map: blocks of 4x4x4 cells as in hash_map.hpp, with masks and first ranks, 32
// bytes an entry: one memory access a look-up. All bits are ones before a build (a free entry).
#pragma once
#include "sparseconv/coord.hpp"
#include "sparseconv/cuda/maps/step.cuh"
#include "sparseconv/hash_map.hpp"

namespace sparseconv::cuda {

using detail::kBlockBits;
inline constexpr Key kFreeSlot = ~Key{0};

// What a look-up gives: cells of a block, and the rank of its first key.
struct alignas(16) BlockCells {
  std::uint64_t mask;
  std::int32_t first;
  std::int32_t unused;
};

struct alignas(16) BlockHead {
  Key id;
  std::uint64_t mask;  // while a set is marked: inverted
};

struct alignas(32) BlockEntry {
  BlockHead head;
  std::int32_t first;
  std::int32_t unused[3];
};

// Where a look-up goes on from a slot of something else. Far away: beside a home stand homes of the
// same group, and chains through them were up to 13 slots long where 8 % of all are in use. Odd, so
// that it comes to all of the slots, a power of two.
SPARSECONV_DEVICE inline std::int32_t next_slot(std::int32_t slot, std::int32_t slots) {
  return static_cast<std::int32_t>((static_cast<std::uint32_t>(slot) + 0x9e3779b1u) &
                                   static_cast<std::uint32_t>(slots - 1));
}

struct BlockTable {
  BlockEntry* entries = nullptr;
  std::int32_t slots = 0;  // power of two, at least 16
  std::int32_t shift = 0;  // 64 - log2(slots / 8)
  // Of sets that are marked, or that others are marked from: slots in use, in any order, and their
  // number (0 before a build).
  std::int32_t *list = nullptr, *used = nullptr;

  SPARSECONV_DEVICE std::int32_t home(Key id) const {
    return static_cast<std::int32_t>(detail::home_slot(id, shift));
  }

  // Slot of `id`, taken where it is new; -1 when the table is full.
  SPARSECONV_DEVICE std::int32_t insert(Key id) const {
    std::int32_t slot = home(id);
    for (std::int32_t probe = 0; probe < slots; ++probe) {
      const Key before = compare_and_swap(&entries[slot].head.id, kFreeSlot, id);
      if (before == kFreeSlot && list != nullptr) list[next_number(used)] = slot;
      if (before == kFreeSlot || before == id) return slot;
      slot = next_slot(slot, slots);
    }
    return -1;
  }

  // Goes on from an entry that may belong to another block. Mask 0 where the block is absent.
  SPARSECONV_DEVICE BlockCells resolve(Key id, std::int32_t slot, BlockHead head,
                                       std::int32_t first) const {
    for (std::int32_t probe = 0; probe < slots; ++probe) {
      if (head.id == id) return {head.mask, first, 0};
      if (head.id == kFreeSlot) break;
      slot = next_slot(slot, slots);
      head = entries[slot].head;
      first = entries[slot].first;
    }
    return {0, 0, 0};
  }
  // Slot of a block that is there.
  SPARSECONV_DEVICE std::int32_t slot_of(Key id) const {
    std::int32_t slot = home(id);
    while (entries[slot].head.id != id) slot = next_slot(slot, slots);
    return slot;
  }
  SPARSECONV_DEVICE BlockCells find(Key id) const {
    const std::int32_t slot = home(id);
    return resolve(id, slot, entries[slot].head, entries[slot].first);
  }
};

// Slots for at most `blocks` blocks: never more than 80 % full.
constexpr std::int64_t slots_for(std::int64_t blocks) {
  return static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(blocks + blocks / 4 + 16)));
}

// Coordinates on the device. Ranks number the sorted keys, rows the caller's order.
struct CoordinateView {
  Key* keys = nullptr;           // [capacity] ascending, distinct
  std::int32_t* rows = nullptr;  // [capacity] row of a rank; null: the rank
  std::int32_t* count =
      nullptr;  // rows there would be; a set of more than `capacity` counts as empty
  std::int32_t capacity = 0;
  BlockTable table;

  SPARSECONV_DEVICE std::int32_t size() const { return *count <= capacity ? *count : 0; }
  SPARSECONV_DEVICE std::int32_t row(std::int32_t rank) const {
    return rows == nullptr ? rank : rows[rank];
  }
};

// Rank of a block's cell, or -1.
SPARSECONV_DEVICE inline std::int32_t rank_in(const BlockCells& block, int cell) {
  const std::uint64_t bit = std::uint64_t{1} << cell;
  return (block.mask & bit) != 0 ? block.first + bit_count(block.mask & (bit - 1)) : -1;
}

// Cells of the block whose first key is the i-th of a set. Four keys at a time: each look at memory
// takes long.
SPARSECONV_DEVICE inline std::uint64_t cells_of_block(const Key* keys, std::int32_t i,
                                                      std::int32_t end) {
  const Key id = keys[i] >> kBlockBits;
  std::uint64_t cells = 0;
  bool goes_on = true;
  for (std::int32_t j = i; goes_on; j += 4) {
    Key key[4];
    SPARSECONV_UNROLL
    for (int k = 0; k < 4; ++k) key[k] = j + k < end ? keys[j + k] : kNoKey;
    SPARSECONV_UNROLL
    for (int k = 0; k < 4; ++k) {
      goes_on = goes_on && j + k < end && key[k] >> kBlockBits == id;
      if (goes_on) cells |= std::uint64_t{1} << (key[k] & 63);
    }
  }
  return cells;
}

}  // namespace sparseconv::cuda
