#include "gemm_core/base/block_cache.hpp"

namespace base {
namespace {

constexpr std::size_t kAlignment = 64;

}  // namespace

// Stands before the bytes that the user sees.
struct alignas(kAlignment) BlockCache::Header {
  std::size_t bytes = 0;  // of the user, a multiple of kAlignment
  static Header* of(void* pointer) { return static_cast<Header*>(pointer) - 1; }
  void* data() { return this + 1; }
  void free() { ::operator delete (this, std::align_val_t{kAlignment}); }
};

bool BlockCache::is_smaller(const Header* block, std::size_t bytes) { return block->bytes < bytes; }

BlockCache::~BlockCache() {
  for (Header* block : idle_) block->free();
}

void* BlockCache::allocate(std::size_t bytes) {
  bytes = std::max<std::size_t>(bytes, 1);
  if (bytes > static_cast<std::size_t>(-1) - 2 * kAlignment) throw std::bad_alloc();
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const std::lock_guard lock(mutex_);
  const auto fit = std::lower_bound(idle_.begin(), idle_.end(), bytes, is_smaller);
  if (fit != idle_.end() && (*fit)->bytes / 2 <= bytes) {
    Header* const block = *fit;
    idle_.erase(fit);
    idle_bytes_ -= block->bytes;
    used_bytes_ += block->bytes;
    peak_bytes_ = std::max(peak_bytes_, used_bytes_);
    return block->data();
  }
  drop_idle_for(bytes);
  if (idle_.capacity() <= blocks_) idle_.reserve(2 * blocks_ + 16);  // release() must not allocate
  void* const memory = ::operator new (sizeof(Header) + bytes, std::align_val_t{kAlignment});
  ++blocks_;
  used_bytes_ += bytes;
  return (::new (memory) Header{bytes})->data();
}

void BlockCache::release(void* pointer) noexcept {
  if (pointer == nullptr) return;
  Header* const block = Header::of(pointer);
  const std::lock_guard lock(mutex_);
  idle_.insert(std::lower_bound(idle_.begin(), idle_.end(), block->bytes, is_smaller), block);
  idle_bytes_ += block->bytes;
  used_bytes_ -= block->bytes;
}

std::int64_t BlockCache::idle_bytes() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(idle_bytes_);
}

// Idle blocks that are too small make room for one that is not; then the smallest that are too
// large.
void BlockCache::drop_idle_for(std::size_t bytes) {
  peak_bytes_ = std::max(peak_bytes_, used_bytes_ + bytes);
  while (!idle_.empty() && used_bytes_ + idle_bytes_ + bytes > peak_bytes_ / 2 * 3) {
    auto victim = std::lower_bound(idle_.begin(), idle_.end(), bytes, is_smaller);
    if (victim != idle_.begin()) --victim;
    idle_bytes_ -= (*victim)->bytes;
    (*victim)->free();
    idle_.erase(victim);
    --blocks_;
  }
}

}  // namespace base
