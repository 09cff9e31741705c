#include "sparseconv/hash_map.hpp"

#include <bit>
#include <limits>

#include "gemm_core/base/error.hpp"
#include "sparseconv/radix_sort.hpp"

namespace sparseconv {
namespace {

using detail::Block;
using detail::kBlockBits;

constexpr std::size_t kMinSlots = 16;

std::size_t slots_for(std::int64_t blocks) {
  return std::bit_ceil(std::max(kMinSlots, static_cast<std::size_t>(blocks) * 2));
}

int shift_for(std::size_t slots) { return 64 - std::countr_zero(slots / 8); }

void check_count(std::int64_t keys) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  ENSURE(keys <= kMax, "hash map: ", keys, " keys, at most ", kMax);
}

// The bits in which ids of blocks differ, in their order. Coordinates of both signs differ in every
// bit, but below the sign those far from the corners of the range of keys only repeat it; a sort
// that leaves such bits out takes half the passes.
struct IdBits {
  static constexpr int kBelowSigns = 3 * (kAxisBits - 1) - kBlockBits;
  int low = 0, high = 0;  // of those below the signs, and of signs and batch
  int count() const { return low + high; }
  std::uint64_t of(Key id) const {
    return (id >> kBelowSigns & ((std::uint64_t{1} << high) - 1)) << low |
           (id & ((std::uint64_t{1} << low) - 1));
  }
};

// Bits below the signs, those of an axis inverted where its sign is set.
Key below_signs(Key id) {
  static constexpr auto kInverted = [] {
    std::array<Key, 8> masks{};
    for (Key signs = 0; signs < masks.size(); ++signs) {
      for (int axis = 0; axis < 3; ++axis) {
        if ((signs >> axis & 1) != 0) masks[signs] |= axis_mask(axis) >> kBlockBits;
      }
      masks[signs] &= (Key{1} << IdBits::kBelowSigns) - 1;
    }
    return masks;
  }();
  return id ^ kInverted[id >> IdBits::kBelowSigns & 7];
}

IdBits differing_bits(const base::Buffer<Block>& slots,
                      const base::Buffer<std::uint32_t>& occupied) {
  if (occupied.empty()) return {};
  const Key first_id = slots[occupied[0]].id, first_low = below_signs(first_id);
  Key ids = 0, low = 0;
  for (const std::uint32_t slot : occupied) {
    ids |= slots[slot].id ^ first_id;
    low |= below_signs(slots[slot].id) ^ first_low;
  }
  low &= (Key{1} << IdBits::kBelowSigns) - 1;
  return {.low = static_cast<int>(std::bit_width(low)),
          .high = static_cast<int>(std::bit_width(ids >> IdBits::kBelowSigns))};
}

// The slot that holds `id`, or the free one where it would go.
std::size_t find_slot(const base::Buffer<Block>& slots, int shift, Key id) {
  std::size_t slot = detail::home_slot(id, shift);
  while (slots[slot].mask != 0 && slots[slot].id != id) slot = (slot + 1) & (slots.size() - 1);
  return slot;
}

}  // namespace

BlockSet::BlockSet(std::int64_t expected_blocks, const base::BlockCachePtr& cache)
    : slots_(slots_for(expected_blocks), cache), shift_(shift_for(slots_.size())) {}

std::size_t BlockSet::slot_of(Key id) const { return find_slot(slots_, shift_, id); }

bool BlockSet::insert(Key key) {
  const Key id = key >> kBlockBits;
  const std::uint64_t bit = std::uint64_t{1} << (key & 63);
  std::uint32_t& recent = recent_[id % detail::kCachedBlocks];
  std::size_t slot = recent;
  if (slot >= slots_.size() || slots_[slot].mask == 0 || slots_[slot].id != id) {
    slot = slot_of(id);
    if (slots_[slot].mask == 0) {
      if (static_cast<std::size_t>(blocks_ + 1) * 2 > slots_.size()) {
        grow();
        slot = slot_of(id);
      }
      ++blocks_;
      slots_[slot].id = id;
    }
    recent = static_cast<std::uint32_t>(slot);
  }
  last_slot_ = static_cast<std::uint32_t>(slot);
  if ((slots_[slot].mask & bit) != 0) return false;
  slots_[slot].mask |= bit;
  ++keys_;
  return true;
}

void BlockSet::insert_all(std::span<const Key> keys, std::uint32_t* slots) {
  constexpr std::size_t kChunk = 64;  // keys whose places are asked for together
  std::array<std::uint32_t, kChunk> homes;
  for (std::size_t begin = 0; begin < keys.size(); begin += kChunk, slots += kChunk) {
    const auto chunk = keys.subspan(begin, std::min(kChunk, keys.size() - begin));
    while ((static_cast<std::size_t>(blocks_) + chunk.size()) * 2 > slots_.size()) grow();
    Block* const table = slots_.data();
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      homes[i] = static_cast<std::uint32_t>(detail::home_slot(chunk[i] >> kBlockBits, shift_));
      __builtin_prefetch(&table[homes[i]], 1);
    }
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      slots[i] = 0;
      if (chunk[i] == kNoKey) continue;
      const Key id = chunk[i] >> kBlockBits;
      std::size_t slot = homes[i];
      if (table[slot].mask != 0 && table[slot].id != id) [[unlikely]]
        slot = slot_of(id);
      // Whether the block or the cell is new is as good as random: no branch asks.
      const std::uint64_t bit = std::uint64_t{1} << (chunk[i] & 63), mask = table[slot].mask;
      blocks_ += mask == 0;
      keys_ += (mask & bit) == 0;
      table[slot] = {id, mask | bit};
      slots[i] = static_cast<std::uint32_t>(slot);
    }
  }
}

bool BlockSet::contains(Key key) const {
  const Block& block = slots_[slot_of(key >> kBlockBits)];
  return (block.mask >> (key & 63) & 1) != 0;
}

void BlockSet::grow() {
  ++growths_;
  base::Buffer<Block> old(slots_.size() * 2, slots_.get_allocator());
  old.swap(slots_);
  shift_ = shift_for(slots_.size());
  for (const Block& block : old) {
    if (block.mask != 0) slots_[slot_of(block.id)] = block;
  }
}

// Slots of all blocks, ascending by id.
base::Buffer<std::uint32_t> BlockSet::slots_by_id() const {
  const auto& cache = slots_.get_allocator().cache();
  const auto blocks = static_cast<std::size_t>(blocks_);
  base::Buffer<std::uint32_t> order(blocks + 1, cache);  // one more for a free slot's entry
  for (std::size_t slot = 0, i = 0; slot < slots_.size(); ++slot) {
    order[i] = static_cast<std::uint32_t>(slot);
    i += slots_[slot].mask != 0;
  }
  order.resize(blocks);
  const IdBits bits = differing_bits(slots_, order);
  const int slot_bits = std::countr_zero(slots_.size());
  base::Buffer<std::uint64_t> ids(blocks, cache);
  if (bits.count() + slot_bits <= 64) {
    for (std::size_t i = 0; i < blocks; ++i) {
      ids[i] = bits.of(slots_[order[i]].id) << slot_bits | order[i];
    }
    radix_sort(ids, slot_bits, bits.count());
    const std::uint64_t slot_mask = slots_.size() - 1;
    for (std::size_t i = 0; i < blocks; ++i) {
      order[i] = static_cast<std::uint32_t>(ids[i] & slot_mask);
    }
  } else {
    for (std::size_t i = 0; i < blocks; ++i) ids[i] = bits.of(slots_[order[i]].id);
    radix_sort(ids, order, bits.count());
  }
  return order;
}

BlockSet::Finished BlockSet::finish() && {
  check_count(keys_);
  const auto& cache = slots_.get_allocator().cache();
  const base::Buffer<std::uint32_t> order = slots_by_id();
  Finished finished{base::Buffer<Key>(static_cast<std::size_t>(keys_), cache), {}};
  HashMap& map = finished.map;
  map.first_ = base::Buffer<std::int32_t>(slots_.size(), cache);
  constexpr std::size_t kAhead = 16;  // blocks lie anywhere in the table
  const Key* const begin = finished.sorted_keys.data();
  Key* to = finished.sorted_keys.data();
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i + kAhead < order.size()) {
      __builtin_prefetch(&slots_[order[i + kAhead]]);
      __builtin_prefetch(&map.first_[order[i + kAhead]], 1);
    }
    const Block& block = slots_[order[i]];
    map.first_[order[i]] = static_cast<std::int32_t>(to - begin);
    for (std::uint64_t mask = block.mask; mask != 0; mask &= mask - 1) {
      *to++ = block.id << kBlockBits | static_cast<Key>(std::countr_zero(mask));
    }
  }
  map.slots_ = std::move(slots_);
  map.shift_ = shift_;
  *this = BlockSet();
  return finished;
}

HashMap::HashMap(std::span<const Key> sorted_keys, const base::BlockCachePtr& cache)
    : slots_(cache), first_(cache), rows_(cache) {
  check_count(static_cast<std::int64_t>(sorted_keys.size()));
  std::int64_t blocks = 0;
  for (std::size_t i = 0; i < sorted_keys.size(); ++i) {
    blocks += i == 0 || sorted_keys[i] >> kBlockBits != sorted_keys[i - 1] >> kBlockBits;
  }
  slots_.resize(slots_for(blocks));
  first_.resize(slots_.size());
  shift_ = shift_for(slots_.size());
  for (std::size_t i = 0; i < sorted_keys.size();) {
    const Key id = sorted_keys[i] >> kBlockBits;
    const std::size_t slot = find_slot(slots_, shift_, id);
    first_[slot] = static_cast<std::int32_t>(i);
    std::uint64_t mask = 0;
    for (; i < sorted_keys.size() && sorted_keys[i] >> kBlockBits == id; ++i) {
      mask |= std::uint64_t{1} << (sorted_keys[i] & 63);
    }
    slots_[slot] = {id, mask};
  }
}

void HashMap::set_rows(base::Buffer<std::int32_t> rows) { rows_ = std::move(rows); }

HashMap::Cursor::Entry HashMap::lookup(Key id) const {
  if (slots_.empty()) return {id, 0, 0};
  const std::size_t slot = find_slot(slots_, shift_, id);
  return {id, slots_[slot].mask, first_[slot]};
}

std::int32_t HashMap::find(Key key) const {
  const Cursor::Entry entry = lookup(key >> kBlockBits);
  const std::uint64_t bit = std::uint64_t{1} << (key & 63);
  if ((entry.mask & bit) == 0) return -1;
  return row(entry.first + detail::count_bits(entry.mask & (bit - 1)));
}

std::int64_t HashMap::nbytes() const {
  return static_cast<std::int64_t>(slots_.size() * sizeof(Block) +
                                   (first_.size() + rows_.size()) * sizeof(std::int32_t));
}

}  // namespace sparseconv
