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

BlockSet::Finished BlockSet::finish() && {
  check_count(keys_);
  const auto& cache = slots_.get_allocator().cache();
  base::Buffer<std::uint64_t> ids(cache), slots(cache);
  ids.reserve(static_cast<std::size_t>(blocks_));
  slots.reserve(static_cast<std::size_t>(blocks_));
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].mask == 0) continue;
    ids.push_back(slots_[slot].id);
    slots.push_back(slot);
  }
  radix_sort(ids, slots);
  Finished finished{base::Buffer<Key>(cache), {}};
  finished.sorted_keys.reserve(static_cast<std::size_t>(keys_));
  HashMap& map = finished.map;
  map.first_ = base::Buffer<std::int32_t>(slots_.size(), cache);
  constexpr std::size_t kAhead = 16;  // blocks lie anywhere in the table
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i + kAhead < slots.size()) {
      __builtin_prefetch(&slots_[slots[i + kAhead]]);
      __builtin_prefetch(&map.first_[slots[i + kAhead]], 1);
    }
    map.first_[slots[i]] = static_cast<std::int32_t>(finished.sorted_keys.size());
    for (std::uint64_t mask = slots_[slots[i]].mask; mask != 0; mask &= mask - 1) {
      finished.sorted_keys.push_back(ids[i] << kBlockBits |
                                     static_cast<Key>(std::countr_zero(mask)));
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
