// Steps that number the rows of general strided, generative and merged sets once their cells are
// marked in their own tables of blocks (mark_steps.cuh): the blocks are put in the order of their
// ids. Sets of a few hundred thousand rows do that by counting, all of them together: blocks of a
// group of 64 share a word, and a group starts after the cells of all groups with smaller ids,
// added up for each group: two short launches, where a sort takes three for every eight bits. The
// work grows with the square of the groups, so larger sets are sorted.
#pragma once
#include "sparseconv/cuda/maps/mark_steps.cuh"

namespace sparseconv::cuda {

inline constexpr std::int32_t kTooMany = 0x7fffffff;  // rows of a set whose table was full

// Groups of 64 neighbouring blocks, in a table of their own: a free entry is all ones, numbers are
// zeros before.
struct GroupTable {
  Key* ids = nullptr;
  std::uint64_t* blocks = nullptr;       // which of its blocks there are
  std::uint32_t* block_cells = nullptr;  // [16] words of a byte a block, of those there are
  std::int32_t* cells = nullptr;         // of all of them
  std::int32_t* first = nullptr;         // row of the first
  std::int32_t* list = nullptr;          // slots in use, in any order
  Key* listed_ids = nullptr;             // their ids
  std::int32_t* count = nullptr;         // their number
  std::int32_t slots = 0;                // power of two
  std::int32_t shift = 0;                // 64 - log2(slots / 8)

  // Slot of `id`, taken where it is new. There is one: a table has a slot for every block.
  SPARSECONV_DEVICE std::int32_t insert(Key id) const {
    std::int32_t slot = static_cast<std::int32_t>(detail::home_slot(id, shift));
    for (;;) {
      const Key before = compare_and_swap(&ids[slot], kFreeSlot, id);
      if (before == kFreeSlot) {
        const std::int32_t number = next_number(count);
        list[number] = slot;
        listed_ids[number] = id;
      }
      if (before == kFreeSlot || before == id) return slot;
      slot = next_slot(slot, slots);
    }
  }
  SPARSECONV_DEVICE std::int32_t find(Key id) const {
    std::int32_t slot = static_cast<std::int32_t>(detail::home_slot(id, shift));
    while (ids[slot] != id) slot = next_slot(slot, slots);
    return slot;
  }
  SPARSECONV_DEVICE void note_cells(std::int32_t slot, int block,
                                    std::int32_t cells_of_block) const {
    reinterpret_cast<std::uint8_t*>(block_cells)[std::int64_t{64} * slot + block] =
        static_cast<std::uint8_t>(cells_of_block);
  }
  // No cells in blocks that are not there: the counts of four are read together. A lane of a warp
  // looks after two.
  SPARSECONV_DEVICE void clear_absent(std::int32_t slot, int lane) const {
    const auto there = static_cast<std::uint32_t>(blocks[slot] >> (2 * lane) & 3);
    if ((there & 1) == 0) note_cells(slot, 2 * lane, 0);
    if ((there & 2) == 0) note_cells(slot, 2 * lane + 1, 0);
  }
  // Cells of the blocks before one in its group.
  SPARSECONV_DEVICE std::int32_t cells_before(std::int32_t slot, int block) const {
    const std::uint64_t earlier = blocks[slot] & ((std::uint64_t{1} << block) - 1);
    const std::uint32_t* const words = block_cells + std::int64_t{16} * slot;
    std::uint32_t sum = 0;  // two sums of 16 bits
    SPARSECONV_UNROLL
    for (int w = 0; w < 16; ++w) {
      const auto there = static_cast<std::uint32_t>(earlier >> (4 * w) & 15);
      const std::uint32_t bytes = words[w] & ((there * 0x00204081u) & 0x01010101u) * 0xffu;
      sum += (bytes & 0x00ff00ffu) + (bytes >> 8 & 0x00ff00ffu);
    }
    return static_cast<std::int32_t>((sum & 0xffffu) + (sum >> 16));
  }
};

// A set whose cells are marked, to be numbered by counting.
struct MarkedSet {
  CoordinateView set;
  GroupTable groups;
  const std::int32_t* full;  // the table could not take all blocks
};
using MarkedSets = JobList<MarkedSet>;

// Blocks are visited by the list of slots in use.
inline constexpr std::int32_t kBlocksAtOnce = 1 << 15;
inline std::int32_t block_capacity(const BlockTable& table) {
  return table.slots < kBlocksAtOnce ? table.slots : kBlocksAtOnce;
}
SPARSECONV_DEVICE inline std::int32_t blocks_at_once(const BlockTable& table) {
  return *table.used < kBlocksAtOnce ? *table.used : kBlocksAtOnce;
}

// The mask of a block whose cells are marked is inverted until here.
SPARSECONV_DEVICE inline BlockHead take_marks(BlockEntry& block) {
  BlockHead head = block.head;
  head.mask = ~head.mask;
  block.head.mask = head.mask;
  return head;
}

// Counts the cells of each block, group and of the set, whose count is 0 before.
struct GroupBlocks {
  MarkedSets sets;
  SPARSECONV_DEVICE std::int32_t jobs() const { return sets.count; }
  std::int32_t capacity(int job) const { return block_capacity(sets[job].set.table); }
  SPARSECONV_DEVICE std::int32_t size(int job) const { return blocks_at_once(sets[job].set.table); }
  SPARSECONV_DEVICE void operator()(int job, std::int32_t i, bool is_active) const {
    const BlockTable& table = sets[job].set.table;
    const GroupTable& groups = sets[job].groups;
    const std::int32_t used = is_active ? *table.used : 0;
    std::int32_t rows = 0;
    for (std::int32_t block = i; block < used; block += kBlocksAtOnce) {
      const BlockHead head = take_marks(table.entries[table.list[block]]);
      const std::int32_t cells = bit_count(head.mask);
      const int place = static_cast<int>(head.id & 63);
      const std::int32_t slot = groups.insert(head.id >> 6);
      atomic_or(&groups.blocks[slot], std::uint64_t{1} << place);
      groups.note_cells(slot, place, cells);
      atomic_add(&groups.cells[slot], cells);
      rows += cells;
    }
    warp_add(sets[job].set.count, rows);
  }
};

// First row of each group: a warp compares it with all others.
struct RankGroups {
  static constexpr std::int32_t kAtOnce = 4096;
  MarkedSets sets;
  SPARSECONV_DEVICE std::int32_t jobs() const { return sets.count; }
  std::int32_t capacity(int job) const {
    return (sets[job].groups.slots < kAtOnce ? sets[job].groups.slots : kAtOnce) * kWarp;
  }
  SPARSECONV_DEVICE std::int32_t size(int job) const {
    const std::int32_t count = *sets[job].groups.count;
    return (count < kAtOnce ? count : kAtOnce) * kWarp;
  }
  SPARSECONV_DEVICE void operator()(int job, std::int32_t i, bool) const {
    const GroupTable& groups = sets[job].groups;
    const std::int32_t count = *groups.count;
    for (std::int32_t group = i / kWarp; group < count; group += kAtOnce) {
      const Key id = groups.listed_ids[group];
      groups.clear_absent(groups.list[group], i % kWarp);
      std::int32_t before = 0;
      SPARSECONV_UNROLL_BY_8
      for (std::int32_t other = i % kWarp; other < count; other += kWarp)
        before += groups.listed_ids[other] < id ? groups.cells[groups.list[other]] : 0;
      warp_add(&groups.first[groups.list[group]], before);
    }
  }
};

// Writes the keys of a block from row `rank` on, a part of its cells a call; the block keeps those
// that have room.
inline constexpr int kExpandParts = 4;
SPARSECONV_DEVICE inline void expand(const CoordinateView& set, BlockEntry& block,
                                     std::int32_t rank, int part) {
  constexpr int kCells = 64 / kExpandParts;
  const BlockHead head = block.head;
  const std::uint64_t before = (std::uint64_t{1} << (kCells * part)) - 1;
  std::uint64_t left = head.mask >> (kCells * part) & ((std::uint64_t{1} << kCells) - 1);
  const Key first = head.id << kBlockBits | static_cast<Key>(kCells * part);
  for (std::int32_t to = rank + bit_count(head.mask & before); left != 0 && to < set.capacity;
       left &= left - 1)
    set.keys[to++] = first | static_cast<Key>(lowest_bit(left));
  if (part != 0) return;
  // Threads of other parts may read the mask before or after: what is kept has the same ranks.
  block.first = rank;
  const std::int32_t over = rank + bit_count(head.mask) - set.capacity;
  if (over <= 0) return;
  std::uint64_t kept = 0;
  for (left = head.mask; left != 0 && rank < set.capacity; left &= left - 1, ++rank)
    kept |= left & (~left + 1);
  block.head.mask = kept;
}

// Rows of each block, a few threads a block.
struct ExpandGroups {
  MarkedSets sets;
  SPARSECONV_DEVICE std::int32_t jobs() const { return sets.count; }
  std::int32_t capacity(int job) const {
    return block_capacity(sets[job].set.table) * kExpandParts;
  }
  SPARSECONV_DEVICE std::int32_t size(int job) const {
    return blocks_at_once(sets[job].set.table) * kExpandParts;
  }
  SPARSECONV_DEVICE void operator()(int job, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    const CoordinateView& set = sets[job].set;
    const GroupTable& groups = sets[job].groups;
    if (i == 0 && *sets[job].full != 0) *set.count = kTooMany;
    for (std::int32_t block = i / kExpandParts; block < *set.table.used; block += kBlocksAtOnce) {
      BlockEntry& entry = set.table.entries[set.table.list[block]];
      const Key id = entry.head.id;
      const std::int32_t group = groups.find(id >> 6);
      expand(set, entry,
             groups.first[group] + groups.cells_before(group, static_cast<int>(id & 63)),
             i % kExpandParts);
    }
  }
};

// The blocks of a set, to be sorted.
struct ListBlocks {
  SPARSECONV_DEVICE static constexpr std::int32_t jobs() { return 1; }
  std::int32_t capacity(int) const { return table.slots; }
  BlockTable table;
  Key* ids;
  std::int32_t* slots;
  SPARSECONV_DEVICE std::int32_t size(int) const { return *table.used; }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    slots[i] = table.list[i];
    ids[i] = take_marks(table.entries[slots[i]]).id;
  }
};

// Cells of the i-th block in the order of ids.
struct CountCells {
  BlockTable table;
  const std::int32_t* slots;
  SPARSECONV_DEVICE std::int32_t operator()(std::int32_t i) const {
    return i < *table.used ? bit_count(table.entries[slots[i]].head.mask) : 0;
  }
};

struct ExpandBlocks {
  SPARSECONV_DEVICE static constexpr std::int32_t jobs() { return 1; }
  std::int32_t capacity(int) const { return set.table.slots; }
  CoordinateView set;
  CountCells cells;
  const std::int32_t* sums;  // inclusive, of cells
  const std::int32_t* full;  // the table could not take all blocks
  SPARSECONV_DEVICE std::int32_t size(int) const { return *set.table.used; }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    BlockEntry& block = set.table.entries[cells.slots[i]];
    const std::int32_t rank = sums[i] - cells(i);
    for (int part = kExpandParts; part-- > 0;) expand(set, block, rank, part);
    if (i + 1 == *set.table.used) *set.count = *full != 0 ? kTooMany : sums[i];
  }
};

}  // namespace sparseconv::cuda
