// Each instruction wrapper alone, against loops on the host: matrix instructions, through the
// atoms' thread-value layouts. Copies and barriers: instructions_copy_test.cpp.
#include "tests/cuda/instructions.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "gemm_core/atom/cuda_mma_traits.hpp"
#include "gemm_core/atom/mma_atom.hpp"
#include "gemm_core/atom/sm90_descriptor.hpp"
#include "tests/cuda/on_device.hpp"
#include "tests/cuda/require_device.hpp"

namespace cuda_tests {
namespace {

using base::bf16_t;
using base::e4m3_t;
using base::e5m2_t;
using base::half_t;
using base::tf32_t;

// Rows of whole numbers that every type holds.
struct Numbers {
  int rows, columns;
  std::vector<int> values;

  Numbers(int r, int c, unsigned seed) : rows(r), columns(c) {
    std::mt19937 random(seed);
    for (int i = 0; i < r * c; ++i) values.push_back(static_cast<int>(random() % 7) - 3);
  }
  int& at(int r, int c) { return values[static_cast<std::size_t>(r * columns + c)]; }
};

int product(Numbers& a, Numbers& b, int m, int n) {
  int sum = 0;
  for (int k = 0; k < a.columns; ++k) sum += a.at(m, k) * b.at(n, k);
  return sum;
}

template <class T>
T number(int value) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<T>(value);
  else
    return T(static_cast<float>(value));
}

// The values of an operand as the threads hold them, [thread][value]. Layouts count column by
// column.
template <class T, class Layout>
std::vector<T> fragments(Numbers& matrix, const Layout& layout) {
  std::vector<T> held;
  for (int t = 0; t < layout::size<0>(layout); ++t) {
    for (int v = 0; v < layout::size<1>(layout); ++v) {
      const int index = static_cast<int>(layout(t, v));
      held.push_back(number<T>(matrix.at(index % matrix.rows, index / matrix.rows)));
    }
  }
  return held;
}

constexpr int start(int index) { return index % 5 - 2; }  // of sums

template <class Sum, class Layout>
std::vector<Sum> first_sums(const Layout& layout) {
  std::vector<Sum> sums;
  for (int t = 0; t < layout::size<0>(layout); ++t) {
    for (int v = 0; v < layout::size<1>(layout); ++v)
      sums.push_back(static_cast<Sum>(start(static_cast<int>(layout(t, v)))));
  }
  return sums;
}

template <class Sum, class Layout>
void expect_products(const std::vector<Sum>& sums, const Layout& layout, Numbers& a, Numbers& b,
                     bool accumulate) {
  std::size_t i = 0, wrong = 0;
  for (int t = 0; t < layout::size<0>(layout); ++t) {
    for (int v = 0; v < layout::size<1>(layout); ++v) {
      const int index = static_cast<int>(layout(t, v));
      const int expected =
          product(a, b, index % a.rows, index / a.rows) + (accumulate ? start(index) : 0);
      wrong += sums[i++] != static_cast<Sum>(expected);
    }
  }
  EXPECT_EQ(wrong, 0u) << "of " << i << " sums";
}

template <class Traits>
void check_warp_mma() {
  using T = typename Traits::A;
  SCOPED_TRACE(base::name(base::dtype_of<T>::value));
  Numbers a(Traits::kM, Traits::kK, 1), b(Traits::kN, Traits::kK, 2);
  OnDevice<T> held_a(fragments<T>(a, typename Traits::ALayout{}));
  OnDevice<T> held_b(fragments<T>(b, typename Traits::BLayout{}));
  OnDevice<typename Traits::C> d(first_sums<typename Traits::C>(typename Traits::CLayout{}));
  run_warp_mma<T>(held_a.data(), held_b.data(), d.data());
  expect_products(d.values(), typename Traits::CLayout{}, a, b, true);
}

TEST(Instructions, MultiplyByWarps) {
  REQUIRE_HOPPER();
  check_warp_mma<gemm_core::Sm80Mma16x8x16<half_t>>();
  check_warp_mma<gemm_core::Sm80Mma16x8x16<bf16_t>>();
  check_warp_mma<gemm_core::Sm80Mma16x8x8Tf32>();
  check_warp_mma<gemm_core::Sm80Mma16x8x32<std::int8_t, std::int8_t, std::int32_t>>();
}

// The wrapper's fp64 instruction is 16 x 8 x 8, four of the atom's 8 x 8 x 4: register 2 k + r of A
// is the atom's value of rows 8 r and columns 4 k on.
TEST(Instructions, MultiplyDoublesByWarps) {
  REQUIRE_HOPPER();
  Numbers a(16, 8, 3), b(8, 8, 4);
  std::vector<double> held_a, held_b, sums;
  for (int t = 0; t < 32; ++t) {
    for (int r = 0; r < 4; ++r) held_a.push_back(a.at(t / 4 + r % 2 * 8, t % 4 + r / 2 * 4));
    for (int r = 0; r < 2; ++r) held_b.push_back(b.at(t / 4, t % 4 + r * 4));
    for (int v = 0; v < 4; ++v) sums.push_back(start(t + v));
  }
  OnDevice<double> device_a(held_a), device_b(held_b), d(sums);
  run_warp_mma<double>(device_a.data(), device_b.data(), d.data());
  const auto result = d.values();
  for (int t = 0; t < 32; ++t) {
    for (int v = 0; v < 4; ++v) {
      const int expected = product(a, b, t / 4 + v / 2 * 8, t % 4 * 2 + v % 2) + start(t + v);
      EXPECT_EQ(result[static_cast<std::size_t>(4 * t + v)], expected) << t << " " << v;
    }
  }
}

// What shared memory shall hold: spans of 128 bytes of K, all rows of a span, then the next span.
template <class T>
std::vector<T> k_major_image(Numbers& matrix) {
  constexpr int kSpan = static_cast<int>(128 / sizeof(T)), kChunk = kSpan / 8;
  std::vector<T> image(static_cast<std::size_t>(matrix.rows * matrix.columns));
  for (int r = 0; r < matrix.rows; ++r) {
    for (int k = 0; k < matrix.columns; ++k) {
      const int in_span = k % kSpan;
      const auto offset = gemm_core::swizzled_offset<128>(
          static_cast<std::uint32_t>(r), static_cast<std::uint32_t>(in_span / kChunk));
      image[static_cast<std::size_t>(k / kSpan * matrix.rows * kSpan + in_span % kChunk) +
            offset / sizeof(T)] = number<T>(matrix.at(r, k));
    }
  }
  return image;
}

// Rows of K of 64 elements; spans of 64 rows of the matrix follow each other.
template <class T>
std::vector<T> mn_major_image(Numbers& matrix) {
  Numbers turned(matrix.columns, matrix.rows, 0);
  for (int r = 0; r < matrix.rows; ++r) {
    for (int k = 0; k < matrix.columns; ++k) turned.at(k, r) = matrix.at(r, k);
  }
  return k_major_image<T>(turned);
}

template <class T, bool kKMajor>
std::vector<T> image_of(Numbers& matrix) {
  if constexpr (kKMajor)
    return k_major_image<T>(matrix);
  else
    return mn_major_image<T>(matrix);
}

template <class T, int kN, bool kKMajorA, bool kKMajorB, class Run>
void check_wgmma(const Run& run) {
  using Traits = gemm_core::Sm90Wgmma64<T, kN>;
  using Sum = std::conditional_t<std::is_same_v<T, std::int8_t>, std::int32_t, float>;
  SCOPED_TRACE(testing::Message() << base::name(base::dtype_of<T>::value) << " n " << kN
                                  << (kKMajorA ? " k" : " m") << (kKMajorB ? "k" : "n"));
  constexpr int kSteps = 4;
  Numbers a(64, kSteps * Traits::kK, 5), b(kN, kSteps * Traits::kK, 6);
  const auto image_a = image_of<T, kKMajorA>(a), image_b = image_of<T, kKMajorB>(b);
  OnDevice<T> device_a(image_a), device_b(image_b);
  const auto bytes = [](const auto& image) {
    return static_cast<std::uint32_t>(image.size() * sizeof(T));
  };
  for (const int accumulate : {0, 1}) {
    OnDevice<Sum> d(first_sums<Sum>(typename Traits::CLayout{}));
    run(WgmmaOperands{device_a.data(), device_b.data(), bytes(image_a), bytes(image_b), kSteps,
                      accumulate},
        d.data());
    expect_products(d.values(), typename Traits::CLayout{}, a, b, accumulate == 1);
  }
}

template <class T, int... kN>
void check_gathered_wgmma() {
  (check_wgmma<T, kN, true, true>(run_wgmma<T, kN, false>), ...);
}

template <class T, int... kN>
void check_dense_wgmma() {
  (check_wgmma<T, kN, true, true>(run_dense_wgmma<T, kN, true, true>), ...);
}

template <class T, int... kN>
void check_majors() {
  (check_wgmma<T, kN, true, false>(run_dense_wgmma<T, kN, true, false>), ...);
  (check_wgmma<T, kN, false, true>(run_dense_wgmma<T, kN, false, true>), ...);
  (check_wgmma<T, kN, false, false>(run_dense_wgmma<T, kN, false, false>), ...);
}

TEST(Instructions, MultiplyByWarpgroups) {
  REQUIRE_HOPPER();
  check_gathered_wgmma<half_t, 32, 64, 96, 128, 256>();
  check_gathered_wgmma<bf16_t, 32, 64, 96, 128, 256>();
  check_gathered_wgmma<tf32_t, 32, 64, 96, 128, 256>();
  check_wgmma<half_t, 64, false, false>(run_wgmma<half_t, 64, true>);
  check_wgmma<half_t, 128, false, false>(run_wgmma<half_t, 128, true>);
  check_wgmma<bf16_t, 256, false, false>(run_wgmma<bf16_t, 256, true>);
}

TEST(Instructions, MultiplyByWarpgroupsInEveryTypeAndMajor) {
  REQUIRE_HOPPER();
  check_dense_wgmma<half_t, 64, 128, 256>();
  check_dense_wgmma<bf16_t, 64, 128, 256>();
  check_dense_wgmma<tf32_t, 64, 128, 256>();
  check_dense_wgmma<e4m3_t, 64, 128, 256>();
  check_dense_wgmma<e5m2_t, 64, 128, 256>();
  check_dense_wgmma<std::int8_t, 64, 128, 256>();
  check_majors<half_t, 64, 128, 256>();
  check_majors<bf16_t, 64, 128, 256>();
}

// Registers of A are those of mma.sync's 16 x 16 tile, a warp to 16 rows.
template <class T, int kN>
void check_register_wgmma() {
  using Traits = gemm_core::Sm90Wgmma64<T, kN>;
  SCOPED_TRACE(testing::Message() << base::name(base::dtype_of<T>::value) << " n " << kN);
  constexpr int kSteps = 4;
  Numbers a(64, kSteps * 16, 7), b(kN, kSteps * 16, 8);
  const typename gemm_core::Sm80Mma16x8x16<T>::ALayout layout;
  std::vector<T> held;
  for (int s = 0; s < kSteps; ++s) {
    for (int t = 0; t < 128; ++t) {
      for (int v = 0; v < 8; ++v) {
        const int index = static_cast<int>(layout(t % 32, v));
        held.push_back(number<T>(a.at(t / 32 * 16 + index % 16, s * 16 + index / 16)));
      }
    }
  }
  const auto image = k_major_image<T>(b);
  OnDevice<T> device_a(held), device_b(image);
  OnDevice<float> d(first_sums<float>(typename Traits::CLayout{}));
  run_register_wgmma<T, kN>({device_a.data(), device_b.data(), 0,
                             static_cast<std::uint32_t>(image.size() * 2), kSteps, 1},
                            d.data());
  expect_products(d.values(), typename Traits::CLayout{}, a, b, true);
}

TEST(Instructions, MultiplyRegistersByWarpgroups) {
  REQUIRE_HOPPER();
  check_register_wgmma<half_t, 32>();
  check_register_wgmma<half_t, 64>();
  check_register_wgmma<half_t, 256>();
  check_register_wgmma<bf16_t, 32>();
  check_register_wgmma<bf16_t, 64>();
  check_register_wgmma<bf16_t, 256>();
}

template <class T>
void check_sparse_wgmma() {
  using Traits = gemm_core::Sm90Wgmma64<T, 128>;
  constexpr int kSteps = 4, kK = 32 * kSteps;
  Numbers a(64, kK, 9), b(128, kK, 10), stored(64, kK / 2, 0);
  std::mt19937 random(11);
  std::vector<std::uint32_t> metadata(kSteps * 128);
  for (int m = 0; m < 64; ++m) {
    for (int group = 0; group < kK / 4; ++group) {
      const int low = static_cast<int>(random() % 3),
                high = low + 1 + static_cast<int>(random() % static_cast<unsigned>(3 - low));
      for (int i = 0; i < 4; ++i) {
        if (i != low && i != high) a.at(m, group * 4 + i) = 0;
      }
      stored.at(m, group * 2) = a.at(m, group * 4 + low);
      stored.at(m, group * 2 + 1) = a.at(m, group * 4 + high);
      const int step = group / 8, half = group % 8 / 4;  // 16 columns a thread
      const int thread = m / 16 * 32 + m % 8 * 4 + half;
      metadata[static_cast<std::size_t>(step * 128 + thread)] |=
          static_cast<std::uint32_t>(high * 4 + low) << (m % 16 / 8 * 16 + group % 4 * 4);
    }
  }
  const auto image_a = k_major_image<T>(stored), image_b = k_major_image<T>(b);
  OnDevice<T> device_a(image_a), device_b(image_b);
  OnDevice<std::uint32_t> device_metadata(metadata);
  for (const int accumulate : {0, 1}) {
    OnDevice<float> d(first_sums<float>(typename Traits::CLayout{}));
    run_sparse_wgmma<T>(
        {device_a.data(), device_b.data(), 64 * kK, 128 * kK * 2, kSteps, accumulate},
        device_metadata.data(), d.data());
    expect_products(d.values(), typename Traits::CLayout{}, a, b, accumulate == 1);
  }
}

TEST(Instructions, MultiplySparseRowsByWarpgroups) {
  REQUIRE_HOPPER();
  check_sparse_wgmma<half_t>();
  check_sparse_wgmma<bf16_t>();
}

}  // namespace
}  // namespace cuda_tests
