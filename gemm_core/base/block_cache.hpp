// Memory that is used again. A cache keeps the blocks that its users gave back and hands them to
// the next request of about their size, so that work which repeats (frame after frame) stops asking
// the system after the first rounds.
//   const auto cache = std::make_shared<base::BlockCache>();
//   base::Buffer<float> values(1000, base::CachedAllocator<float>(cache));   // goes back to the
//   cache at the end
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace base {

// May be used from several threads. A request takes a block of up to twice its size. Memory is
// bounded: a new block is made only while all blocks together are at most 3/2 of the most that was
// in use at one time; idle ones go first.
class BlockCache {
 public:
  BlockCache() = default;
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;
  ~BlockCache();
  // 64-byte aligned, contents undefined; std::bad_alloc where there is no memory.
  void* allocate(std::size_t bytes);
  void release(void* pointer) noexcept;
  std::int64_t idle_bytes() const;

 private:
  struct Header;
  static bool is_smaller(const Header* block, std::size_t bytes);
  void drop_idle_for(std::size_t bytes);
  mutable std::mutex mutex_;
  std::vector<Header*> idle_;  // ascending by size
  std::size_t blocks_ = 0;     // in use and idle
  std::size_t idle_bytes_ = 0, used_bytes_ = 0, peak_bytes_ = 0;
};
using BlockCachePtr = std::shared_ptr<BlockCache>;

// Without a cache: the global operator new. Elements that need no constructor are left undefined by
// resize().
template <class T>
class CachedAllocator {
 public:
  using value_type = T;
  using propagate_on_container_copy_assignment = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  CachedAllocator() = default;
  CachedAllocator(BlockCachePtr cache)
      : cache_(std::move(cache)) {}  // NOLINT: buffers are made from a cache
  template <class U>
  CachedAllocator(const CachedAllocator<U>& other) : cache_(other.cache()) {}

  T* allocate(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / 2 / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(cache_ ? cache_->allocate(count * sizeof(T))
                                  : ::operator new(count * sizeof(T)));
  }
  void deallocate(T* pointer, std::size_t) noexcept {
    if (cache_) {
      cache_->release(pointer);
    } else {
      ::operator delete(pointer);
    }
  }
  template <class U, class... Arguments>
  void construct(U* at, Arguments&&... arguments) {
    if constexpr (sizeof...(Arguments) == 0 && std::is_trivially_default_constructible_v<U>) {
      ::new (static_cast<void*>(at)) U;
    } else {
      ::new (static_cast<void*>(at)) U(std::forward<Arguments>(arguments)...);
    }
  }
  BlockCachePtr cache() const { return cache_; }
  friend bool operator==(const CachedAllocator& a, const CachedAllocator& b) {
    return a.cache_ == b.cache_;
  }

 private:
  BlockCachePtr cache_;
};

template <class T>
using Buffer = std::vector<T, CachedAllocator<T>>;

// Equal elements, whoever gave the memory.
template <class T>
bool operator==(const Buffer<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace base
