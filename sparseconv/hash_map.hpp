// Key -> row. Keys are grouped in blocks of 4x4x4 cells (the low six Morton bits); an
// open-addressing table holds, for each occupied block, a mask of its cells and the rank of its
// first key. A row is that rank plus a count of mask bits, so neighbours of one block cost no
// further memory access. Building is O(n) from sorted keys.
//
//   BlockSet set;  for (Key key : keys) set.insert(key);         // any order
//   const auto [sorted_keys, map] = std::move(set).finish();
//   HashMap::Cursor cursor(map);  row = cursor.find(key);        // -1 where absent; one cursor a
//   thread
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "gemm_core/base/block_cache.hpp"
#include "sparseconv/coord.hpp"

namespace sparseconv {

namespace detail {

inline constexpr int kBlockBits = 6;
inline constexpr int kCachedBlocks =
    64;  // a cube of 4x4x4 neighbouring blocks maps to distinct entries

struct Block {
  Key id = 0;              // key >> kBlockBits
  std::uint64_t mask = 0;  // bit i: cell i is there; 0: free slot
};

// Baseline x86-64 has no popcnt instruction and std::popcount would call a library routine.
constexpr int count_bits(std::uint64_t v) {
  v -= (v >> 1) & 0x5555555555555555ull;
  v = (v & 0x3333333333333333ull) + ((v >> 2) & 0x3333333333333333ull);
  v = (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0full;
  return static_cast<int>((v * 0x0101010101010101ull) >> 56);
}

// First place to look for a block. Eight neighbouring blocks (2x2x2) share two cache lines.
constexpr std::size_t home_slot(Key id, int shift) {
  const Key group = id >> 3;
  return static_cast<std::size_t>((group ^ group >> 29) * 0x9e3779b97f4a7c15ull >> shift) * 8 +
         (id & 7);
}

}  // namespace detail

class HashMap;

// A set of keys that can grow. The map that it becomes takes its memory from the same cache.
class BlockSet {
 public:
  explicit BlockSet(std::int64_t expected_blocks = 0, const base::BlockCachePtr& cache = nullptr);
  bool insert(Key key);  // true when the key was not there
  // The same for many keys; kNoKey is passed over. slots[i] is where the block of keys[i] stands,
  // until the set grows.
  void insert_all(std::span<const Key> keys, std::uint32_t* slots);
  // Where the block of the key inserted last stands, until the set grows.
  std::uint32_t last_slot() const { return last_slot_; }
  std::int64_t growths() const { return growths_; }
  bool contains(Key key) const;
  std::int64_t size() const { return keys_; }
  // The keys ascending, and the map from key to rank. Leaves the set empty.
  struct Finished;
  Finished finish() &&;

 private:
  std::size_t slot_of(Key id) const;
  void grow();
  base::Buffer<std::uint32_t> slots_by_id() const;
  base::Buffer<detail::Block> slots_;  // power of two, at most half full
  std::array<std::uint32_t, detail::kCachedBlocks> recent_{};
  int shift_ = 0;
  std::int64_t blocks_ = 0, keys_ = 0, growths_ = 0;
  std::uint32_t last_slot_ = 0;
};

class HashMap {
 public:
  HashMap() = default;  // of no keys
  // Ascending and distinct; row = rank.
  explicit HashMap(std::span<const Key> sorted_keys, const base::BlockCachePtr& cache = nullptr);
  void set_rows(base::Buffer<std::int32_t> rows);  // row of each rank, as many as keys
  std::int32_t find(Key key) const;                // row or -1
  // find() for who kept BlockSet::last_slot() of the key's block.
  std::int32_t find_in_slot(std::uint32_t slot, Key key) const {
    const std::uint64_t mask = slots_[slot].mask, bit = std::uint64_t{1} << (key & 63);
    if ((mask & bit) == 0) return -1;
    return row(first_[slot] + detail::count_bits(mask & (bit - 1)));
  }
  void prefetch_slot(std::uint32_t slot) const {
    __builtin_prefetch(&slots_[slot]);
    __builtin_prefetch(&first_[slot]);
  }
  std::int64_t nbytes() const;

  // find() that remembers the blocks it met: for queries that are near each other.
  class Cursor {
   public:
    explicit Cursor(const HashMap& map) : map_(&map) { entries_.fill({~Key{0}, 0, 0}); }
    std::int32_t find(Key key) {
      const Key id = key >> detail::kBlockBits;
      Entry& entry = entries_[id % detail::kCachedBlocks];
      if (entry.id != id) [[unlikely]]
        entry = map_->lookup(id);
      const std::uint64_t bit = std::uint64_t{1} << (key & 63);
      if ((entry.mask & bit) == 0) return -1;
      return map_->row(entry.first + detail::count_bits(entry.mask & (bit - 1)));
    }

   private:
    friend class HashMap;
    struct Entry {
      Key id;
      std::uint64_t mask;
      std::int32_t first;
    };
    const HashMap* map_;
    std::array<Entry, detail::kCachedBlocks> entries_;
  };

 private:
  friend class BlockSet;
  Cursor::Entry lookup(Key id) const;  // mask 0 where the block is absent
  std::int32_t row(std::int32_t rank) const {
    return rows_.empty() ? rank : rows_[static_cast<std::size_t>(rank)];
  }
  base::Buffer<detail::Block> slots_;
  base::Buffer<std::int32_t> first_;  // rank of the slot's first key; undefined where it is free
  base::Buffer<std::int32_t> rows_;
  int shift_ = 0;
};

struct BlockSet::Finished {
  base::Buffer<Key> sorted_keys;
  HashMap map;
};

}  // namespace sparseconv
