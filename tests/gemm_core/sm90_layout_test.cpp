// Host arithmetic of the Hopper kernels: where WGMMA operands stand in shared memory.
#include <gtest/gtest.h>

#include <set>

#include "gemm_core/atom/sm90_descriptor.hpp"
#include "gemm_core/layout/swizzle.hpp"

namespace gemm_core {
namespace {

template <int kSpanBytes>
void expect_offsets_follow_the_swizzle(const layout::Swizzle& swizzle) {
  std::set<std::uint32_t> seen;
  for (std::uint32_t row = 0; row < 128; ++row) {
    for (std::uint32_t chunk = 0; chunk < kSpanBytes / 16; ++chunk) {
      const std::uint32_t offset = swizzled_offset<kSpanBytes>(row, chunk);
      EXPECT_EQ(offset, swizzle(row * kSpanBytes + chunk * 16)) << row << ' ' << chunk;
      EXPECT_TRUE(seen.insert(offset).second);
    }
  }
}

TEST(WgmmaOperand, ChunksStandWhereTheHardwareSwizzlePutsThem) {
  expect_offsets_follow_the_swizzle<128>(layout::Swizzle{3, 4, 3});
  expect_offsets_follow_the_swizzle<64>(layout::Swizzle{2, 4, 3});
  expect_offsets_follow_the_swizzle<32>(layout::Swizzle{1, 4, 3});
}

TEST(WgmmaOperand, EightRowsOfOneChunkLieInDifferentBanks) {
  for (std::uint32_t chunk = 0; chunk < 8; ++chunk) {
    std::set<std::uint32_t> banks;
    for (std::uint32_t row = 0; row < 8; ++row) {
      banks.insert(swizzled_offset<128>(row, chunk) % 128 / 16);
    }
    EXPECT_EQ(banks.size(), 8u);
  }
}

TEST(WgmmaOperand, RowsOfALaneDifferByAnExclusiveOr) {
  // What the gather relies on: for a first row that is a multiple of the rows of a lane, the
  // permutation of row first + i is that of first, xor that of i.
  for (std::uint32_t first = 0; first < 128; first += 8) {
    for (std::uint32_t i = 0; i < 8; ++i) {
      for (std::uint32_t chunk = 0; chunk < 8; ++chunk) {
        EXPECT_EQ(swizzled_offset<128>(first + i, chunk),
                  (swizzled_offset<128>(first, chunk) ^ (swizzled_offset<128>(i, 0) - i * 128)) +
                      i * 128);
        if (chunk < 2) {
          EXPECT_EQ(
              swizzled_offset<32>(first + i, chunk),
              (swizzled_offset<32>(first, chunk) ^ (swizzled_offset<32>(i, 0) - i * 32)) + i * 32);
        }
        if (chunk < 4) {
          EXPECT_EQ(
              swizzled_offset<64>(first + i, chunk),
              (swizzled_offset<64>(first, chunk) ^ (swizzled_offset<64>(i, 0) - i * 64)) + i * 64);
        }
      }
    }
  }
}

TEST(WgmmaDescriptor, HoldsAddressStridesAndSwizzle) {
  const std::uint64_t d = wgmma_descriptor<128>(0x12400);
  EXPECT_EQ(d & 0x3fff, 0x1240u);
  EXPECT_EQ(d >> 16 & 0x3fff, 1u);
  EXPECT_EQ(d >> 32 & 0x3fff, 1024u / 16);
  EXPECT_EQ(d >> 62, 1u);
  EXPECT_EQ(wgmma_descriptor<64>(0) >> 62, 2u);
  EXPECT_EQ(wgmma_descriptor<64>(0) >> 32 & 0x3fff, 512u / 16);
  EXPECT_EQ(moved_descriptor(d, 6), wgmma_descriptor<128>(0x12400 + 96));
}

}  // namespace
}  // namespace gemm_core
