// Memory that is used again: what comes back is handed out, no more is kept than the bound says.
#include "gemm_core/base/block_cache.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "gemm_core/base/tensor.hpp"

namespace {

using base::BlockCache;
using base::Buffer;

TEST(BlockCache, HandsOutWhatCameBack) {
  BlockCache cache;
  void* const first = cache.allocate(1000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0u);
  std::memset(first, 1, 1000);
  cache.release(first);
  EXPECT_EQ(cache.idle_bytes(), 1024);
  EXPECT_EQ(cache.allocate(1024), first);
  EXPECT_EQ(cache.idle_bytes(), 0);
  void* const second = cache.allocate(1000);
  EXPECT_NE(second, first);
  cache.release(first);
  cache.release(second);
  cache.release(nullptr);
}

TEST(BlockCache, TakesTheSmallestThatFitsAndNoneOfMoreThanTwiceTheSize) {
  BlockCache cache;
  void* const blocks[] = {cache.allocate(6400), cache.allocate(640), cache.allocate(1280)};
  for (void* block : blocks) cache.release(block);
  void* const again[] = {cache.allocate(1000), cache.allocate(576), cache.allocate(1000),
                         cache.allocate(3200)};
  EXPECT_EQ(again[0], blocks[2]);
  EXPECT_EQ(again[1], blocks[1]);
  EXPECT_NE(again[2], blocks[0]);
  EXPECT_EQ(again[3], blocks[0]);
  for (void* block : again) cache.release(block);
}

TEST(BlockCache, GrowingRequestsDoNotPileUp) {
  BlockCache cache;
  for (std::size_t bytes = 64; bytes < 1000000; bytes += 64 + bytes / 8) {
    cache.release(cache.allocate(bytes));
    EXPECT_LE(cache.idle_bytes(), static_cast<std::int64_t>(bytes + bytes / 2 + 64));
  }
  for (std::size_t bytes = 1000000; bytes > 64; bytes -= 64 + bytes / 8) {
    cache.release(cache.allocate(bytes));
    EXPECT_LE(cache.idle_bytes(), 1500000);
  }
}

TEST(BlockCache, ServesSeveralThreads) {
  BlockCache cache;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, t] {
      for (std::size_t i = 0; i < 2000; ++i) {
        const std::size_t bytes = 64 + i * 37 % 5000;
        void* const block = cache.allocate(bytes);
        std::memset(block, t, bytes);
        for (std::size_t b = 0; b < bytes; b += 61) ASSERT_EQ(static_cast<char*>(block)[b], t);
        cache.release(block);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(Buffer, GivesItsMemoryBackAndMayOutliveWhoMadeTheCache) {
  auto cache = std::make_shared<BlockCache>();
  Buffer<float> kept(100, 1.5f, cache);
  {
    const Buffer<int> other(100, 7, cache);
    Buffer<float> moved = std::move(kept);
    kept = std::move(moved);
  }
  EXPECT_EQ(cache->idle_bytes(), 448);  // 400 up to whole cache lines
  cache.reset();
  kept.resize(1000, 2.0f);
  EXPECT_EQ(kept[99], 1.5f);
  EXPECT_EQ(kept[999], 2.0f);
}

TEST(Buffer, EqualsAVectorOfEqualElements) {
  const Buffer<int> buffer({1, 2, 3}, std::make_shared<BlockCache>());
  EXPECT_EQ(buffer, (std::vector<int>{1, 2, 3}));
  EXPECT_FALSE(buffer == (std::vector<int>{1, 2}));
  EXPECT_EQ(buffer, (Buffer<int>{1, 2, 3}));
}

TEST(Tensor, GoesBackToItsCacheWithTheLastThatSharesIt) {
  const auto cache = std::make_shared<BlockCache>();
  base::Tensor shared;
  {
    const auto tensor = base::Tensor::empty({16, 4}, base::DType::f32, cache);
    shared = tensor.reshaped({64});
  }
  EXPECT_EQ(cache->idle_bytes(), 0);
  shared = {};
  EXPECT_EQ(cache->idle_bytes(), 256);
  EXPECT_EQ(base::Tensor::empty({0, 4}, base::DType::f32, cache).numel(), 0);
}

}  // namespace
