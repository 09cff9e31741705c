// Each copy and barrier instruction alone, byte by byte against loops on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "gemm_core/device/cuda/conv/im2col_map.hpp"
#include "gemm_core/device/cuda/tensor_map.hpp"
#include "tests/cuda/instructions.hpp"
#include "tests/cuda/on_device.hpp"
#include "tests/cuda/require_device.hpp"

namespace cuda_tests {
namespace {

std::vector<std::uint8_t> random_bytes(std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::vector<std::uint8_t> bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

std::vector<std::uint8_t> nothing(std::size_t count) {
  return std::vector<std::uint8_t>(count, 0xee);
}

TEST(Instructions, CopyLanesOrZeros) {
  REQUIRE_HOPPER();
  const auto source = random_bytes(40 * 16);
  OnDevice<std::uint8_t> from(source);
  std::vector<int> index, present, bytes;
  for (int lane = 0; lane < 32; ++lane) {
    index.push_back(lane % 3 == 1 ? -1 - lane : lane * 7 % 40);
    present.push_back(lane % 4 != 2);
    bytes.push_back(lane % 17);
  }
  std::vector<std::uint8_t> rows(512), words(128), parts(512);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    if (index[lane] >= 0)
      std::memcpy(&rows[lane * 16], &source[static_cast<std::size_t>(index[lane]) * 16], 16);
    if (present[lane] != 0) std::memcpy(&words[lane * 4], &source[lane * 4], 4);
    std::memcpy(&parts[lane * 16], &source[lane * 16], static_cast<std::size_t>(bytes[lane]));
  }
  OnDevice<int> device_index(index), device_present(present), device_bytes(bytes);
  OnDevice<std::uint8_t> to(nothing(512)), late(nothing(512)), four(nothing(128)),
      partly(nothing(512));
  run_copy_16_or_zero(from.data(), device_index.data(), to.data());
  EXPECT_EQ(to.values(), rows);
  run_copies_with_barrier(from.data(), device_index.data(), late.data());
  EXPECT_EQ(late.values(), rows);
  run_copy_4_or_zero(from.data(), device_present.data(), four.data());
  EXPECT_EQ(four.values(), words);
  run_copy_16_partly(from.data(), device_bytes.data(), partly.data());
  EXPECT_EQ(partly.values(), parts);
}

// Register i of lane l: elements 2 (l % 4) and the next of row l / 4 of matrix i.
TEST(Instructions, LoadAndStoreMatrices) {
  REQUIRE_HOPPER();
  const auto rows = random_bytes(32 * 16);
  std::vector<std::uint32_t> registers(128);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    for (std::size_t i = 0; i < 4; ++i)
      std::memcpy(&registers[lane * 4 + i], &rows[(i * 8 + lane / 4) * 16 + lane % 4 * 4], 4);
  }
  OnDevice<std::uint8_t> from(rows), back(nothing(512));
  OnDevice<std::uint32_t> loaded(std::vector<std::uint32_t>(128, 7)), given(registers);
  run_load_matrices(from.data(), loaded.data());
  EXPECT_EQ(loaded.values(), registers);
  run_store_matrices(given.data(), back.data());
  EXPECT_EQ(back.values(), rows);
}

// [2][20][40] of 2 bytes with strides of 96 and 2000 bytes.
constexpr int kBatch = 2, kRows = 20, kInner = 40, kRowBytes = 96, kBatchBytes = 2000;

struct Box {
  int inner, rows, line_bytes;
};

CUtensorMap map_of(const void* data, const Box& box) {
  const auto map = gemm_core::cuda::make_tensor_map({.data = data,
                                                     .element = base::DType::f16,
                                                     .inner = kInner,
                                                     .rows = kRows,
                                                     .batch = kBatch,
                                                     .row_stride = kRowBytes,
                                                     .batch_stride = kBatchBytes,
                                                     .box_inner = box.inner,
                                                     .box_rows = box.rows,
                                                     .line_bytes = box.line_bytes});
  EXPECT_TRUE(map.has_value());
  return map.value_or(CUtensorMap{});
}

// Calls use(byte of the box in shared memory, byte of the tensor or -1 beyond it).
template <class Use>
void for_each_byte(const Box& box, int c0, int c1, int c2, const Use& use) {
  const int line = box.inner * 2;
  for (int r = 0; r < box.rows; ++r) {
    for (int b = 0; b < line; ++b) {
      const int chunk = b / 16, swizzled = box.line_bytes == 128  ? chunk ^ (r & 7)
                                           : box.line_bytes == 64 ? chunk ^ (r >> 1 & 3)
                                                                  : chunk;
      const int inner = c0 + b / 2, row = c1 + r;
      const bool inside = inner >= 0 && inner < kInner && row >= 0 && row < kRows && c2 < kBatch;
      use(static_cast<std::size_t>(r * line + swizzled * 16 + b % 16),
          inside ? c2 * kBatchBytes + row * kRowBytes + inner * 2 + b % 2 : -1);
    }
  }
}

const Box kBoxes[] = {{32, 8, 64}, {64, 16, 128}, {8, 4, 16}};
const int kCorners[][3] = {{0, 0, 0}, {8, 5, 1}, {-8, -3, 0}, {32, 15, 1}, {48, 0, 0}, {0, 0, 2}};

TEST(Instructions, LoadBoxesOfTensors) {
  REQUIRE_HOPPER();
  const auto source = random_bytes(kBatch * kBatchBytes);
  OnDevice<std::uint8_t> from(source);
  for (const Box& box : kBoxes) {
    const CUtensorMap map = map_of(from.data(), box);
    const auto bytes = static_cast<std::size_t>(box.inner * 2 * box.rows);
    for (const auto& c : kCorners) {
      std::vector<std::uint8_t> expected(bytes);
      for_each_byte(box, c[0], c[1], c[2], [&](std::size_t at, int tensor) {
        expected[at] = tensor < 0 ? 0 : source[static_cast<std::size_t>(tensor)];
      });
      OnDevice<std::uint8_t> to(nothing(bytes));
      run_tma_load(map, static_cast<std::uint32_t>(bytes), c[0], c[1], c[2], to.data());
      EXPECT_EQ(to.values(), expected)
          << box.line_bytes << " at " << c[0] << " " << c[1] << " " << c[2];
    }
  }
}

TEST(Instructions, StoreBoxesOfTensorsAndNothingBeyond) {
  REQUIRE_HOPPER();
  for (const Box& box : kBoxes) {
    const auto bytes = static_cast<std::size_t>(box.inner * 2 * box.rows);
    const auto values = random_bytes(bytes);
    OnDevice<std::uint8_t> from(values);
    for (const auto& c : kCorners) {
      if (std::min({c[0], c[1], c[2]}) < 0) continue;  // illegal for stores
      auto expected = nothing(kBatch * kBatchBytes);
      for_each_byte(box, c[0], c[1], c[2], [&](std::size_t at, int tensor) {
        if (tensor >= 0) expected[static_cast<std::size_t>(tensor)] = values[at];
      });
      OnDevice<std::uint8_t> to(nothing(kBatch * kBatchBytes));
      run_tma_store(map_of(to.data(), box), static_cast<std::uint32_t>(bytes), from.data(), c[0],
                    c[1], c[2]);
      EXPECT_EQ(to.values(), expected)
          << box.line_bytes << " at " << c[0] << " " << c[1] << " " << c[2];
    }
  }
}

TEST(Instructions, MulticastBoxesToBothBlocksOfACluster) {
  REQUIRE_HOPPER();
  const auto source = random_bytes(kBatch * kBatchBytes);
  OnDevice<std::uint8_t> from(source);
  const Box box{32, 8, 64};
  constexpr std::size_t kBytes = 32 * 2 * 8;
  std::vector<std::uint8_t> expected(4 * kBytes);
  for (std::size_t block = 0; block < 2; ++block) {
    for (int half = 0; half < 2; ++half) {
      for_each_byte(box, 0, 0, half, [&](std::size_t at, int tensor) {
        expected[(block * 2 + static_cast<std::size_t>(half)) * kBytes + at] =
            source[static_cast<std::size_t>(tensor)];
      });
    }
  }
  OnDevice<std::uint8_t> to(nothing(4 * kBytes));
  run_tma_multicast(map_of(from.data(), box), kBytes, to.data());
  EXPECT_EQ(to.values(), expected);
}

// Pixels run along the last axis, then the one before, then the image, within the box of corners.
void check_im2col(int axes) {
  constexpr int kChannels = 64, kPixels = 24;
  constexpr int kExtent = 7, kImages = 2, kCorner = -1, kPositions = 4, kStep = 2, kOffset = 2;
  gemm_core::cuda::Im2colMapDesc desc;
  desc.axes = axes;
  desc.batch = kImages;
  desc.channels = kChannels;
  desc.box_channels = 64;
  desc.box_pixels = kPixels;
  std::int64_t stride = kChannels * 2;
  for (int axis = 2; axis > 2 - axes; --axis) {
    const auto at = static_cast<std::size_t>(axis);
    desc.extent[at] = kExtent;
    desc.axis_stride[at] = stride;
    desc.corner[at] = kCorner;
    desc.step[at] = kStep;
    desc.positions[at] = kPositions;
    desc.most_offset[at] = kOffset;
    stride *= kExtent;
  }
  desc.batch_stride = stride;
  const auto source = random_bytes(static_cast<std::size_t>(stride * kImages));
  OnDevice<std::uint8_t> from(source);
  desc.data = from.data();
  const auto map = gemm_core::cuda::make_im2col_map(desc);
  ASSERT_TRUE(map.has_value());
  for (const int tap : {0, 1, kOffset}) {
    std::vector<std::uint8_t> expected(kPixels * 128);
    int position[3] = {0, 0, 0}, image = 0, x[3] = {0, 0, 0}, offset[3] = {0, 0, 0};
    position[2] = 1;  // where the box begins
    for (int axis = 3 - axes; axis < 3; ++axis) {
      x[axis] = kCorner + position[axis] * kStep;
      offset[axis] = tap;
    }
    for (int pixel = 0; pixel < kPixels; ++pixel) {
      bool inside = image < kImages;
      std::int64_t at = image * desc.batch_stride;
      for (int axis = 3 - axes; axis < 3; ++axis) {
        const int here = kCorner + position[axis] * kStep + tap;
        inside = inside && here >= 0 && here < kExtent;
        at += here * desc.axis_stride[static_cast<std::size_t>(axis)];
      }
      for (int b = 0; b < 128 && inside; ++b)
        expected[static_cast<std::size_t>(pixel * 128 + ((b / 16) ^ (pixel & 7)) * 16 + b % 16)] =
            source[static_cast<std::size_t>(at + b)];
      int axis = 2;
      while (axis > 2 - axes && ++position[axis] == kPositions) position[axis--] = 0;
      image += axis == 2 - axes;
    }
    OnDevice<std::uint8_t> to(nothing(kPixels * 128));
    run_tma_load_im2col(*map, kPixels * 128, axes, 0, x, 0, offset, to.data());
    EXPECT_EQ(to.values(), expected) << axes << " axes, tap " << tap;
  }
}

TEST(Instructions, LoadPixelsOfImages) {
  REQUIRE_HOPPER();
  for (const int axes : {1, 2, 3}) check_im2col(axes);
}

TEST(Instructions, HandStagesOverByBarriers) {
  REQUIRE_HOPPER();
  for (const int stages : {1, 2, 3, 7}) {
    for (const int count : {1, stages, stages + 1, 100}) {
      std::vector<std::uint32_t> expected;
      for (int i = 0; i < count; ++i)
        expected.push_back(128 * (static_cast<std::uint32_t>(i) * 3 + 1));
      OnDevice<std::uint32_t> to(std::vector<std::uint32_t>(expected.size(), 0));
      run_pipeline(stages, count, to.data());
      EXPECT_EQ(to.values(), expected) << stages << " stages, " << count;
    }
  }
}

TEST(Instructions, ArriveAtBarriersOfTheOtherBlock) {
  REQUIRE_HOPPER();
  OnDevice<std::uint32_t> to(std::vector<std::uint32_t>(2, 0));
  run_cluster_arrivals(to.data());
  EXPECT_EQ(to.values(), (std::vector<std::uint32_t>{100, 101}));
}

TEST(Instructions, WaitForThePredecessor) {
  REQUIRE_HOPPER();
  OnDevice<std::uint32_t> value(std::vector<std::uint32_t>(1, 0));
  run_dependent_launches(1000, value.data());
  EXPECT_EQ(value.values()[0], 1000u);
}

}  // namespace
}  // namespace cuda_tests
