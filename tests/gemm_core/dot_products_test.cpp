// The dot-product and matrix instructions, each against plain loops where the machine has it; and
// the same loops in the place of the instructions, so that what feeds them is tested on every
// machine.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "gemm_core/atom/x86_dot_products.hpp"
#include "gemm_core/base/numeric.hpp"
#include "gemm_core/collective/cpu_dense_mainloop.hpp"

namespace {

using gemm_core::PanelProduct;
using Quads = PanelProduct<std::int32_t>;
using Bf16Pairs = PanelProduct<std::uint32_t, float>;

constexpr std::int64_t kPanel = 64;

std::int32_t dot(std::int32_t a, std::int32_t b, std::int32_t sum) {
  std::uint32_t total = static_cast<std::uint32_t>(sum);
  for (int q = 0; q < 4; ++q) {
    const auto x = static_cast<std::uint8_t>(static_cast<std::uint32_t>(a) >> (8 * q));
    const auto y = static_cast<std::int8_t>(static_cast<std::uint32_t>(b) >> (8 * q));
    total += static_cast<std::uint32_t>(x * y);
  }
  return static_cast<std::int32_t>(total);
}

float half(std::uint32_t word, int which) {
  return base::bit_cast<float>(which ? word & 0xffff0000u : word << 16);
}
float dot(std::uint32_t a, std::uint32_t b, float sum) {
  sum = std::fma(half(a, 0), half(b, 0), sum);
  return std::fma(half(a, 1), half(b, 1), sum);
}

// What the instructions compute, in the layout of panels that they read.
template <class Product>
void emulate(const Product& p) {
  for (std::int64_t i = 0; i < p.rows; ++i) {
    const auto* a = p.base + (p.source ? p.source[i] : i) * p.pitch;
    auto* c = p.c + (p.target ? p.target[i] : i) * p.ldc;
    for (std::int64_t j = 0; j < p.columns; ++j) {
      const std::int64_t first = j / kPanel * kPanel, width = std::min(kPanel, p.columns - first);
      std::remove_reference_t<decltype(*c)> sum{};
      for (std::int64_t k = 0; k < p.k; ++k)
        sum = dot(a[k], p.b[first * p.k + k * width + j - first], sum);
      c[j] = p.accumulate ? c[j] + sum : sum;
    }
  }
}

template <class Word>
std::vector<Word> random_words(std::size_t count) {
  std::mt19937 random(5);
  std::vector<Word> words(count + 16);
  for (auto& w : words) {
    w = static_cast<Word>(random());
    if constexpr (std::is_same_v<Word, std::uint32_t>)
      w = (w & 0x807f807fu) | 0x3f003f00u;  // 0.5 to 2
  }
  return words;
}

template <class Product, class Word, class Sum>
void expect_equals_loops(void (*instruction)(const Product&), double tolerance) {
  for (const std::int64_t rows : {1, 5, 6, 7, 16, 31, 32, 33, 70}) {
    for (const std::int64_t columns : {16, 32, 48, 64, 80, 160}) {
      for (const std::int64_t k : {1, 15, 16, 17, 64}) {
        for (const bool gathered : {false, true}) {
          const auto a = random_words<Word>(static_cast<std::size_t>(rows * (k + 3)));
          const auto b = random_words<Word>(static_cast<std::size_t>(k * columns));
          std::vector<Sum> got(static_cast<std::size_t>(rows * (columns + 5)), Sum(3)), want(got);
          std::vector<std::int32_t> order(static_cast<std::size_t>(rows));
          for (std::int64_t i = 0; i < rows; ++i)
            order[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(rows - 1 - i);
          Product p{.base = a.data(),
                    .pitch = k + 3,
                    .rows = rows,
                    .k = k,
                    .columns = columns,
                    .b = b.data(),
                    .ldc = columns + 5,
                    .accumulate = !gathered};
          if (gathered) p.source = p.target = order.data();
          p.c = got.data();
          instruction(p);
          p.c = want.data();
          emulate(p);
          for (std::size_t i = 0; i < want.size(); ++i)
            ASSERT_NEAR(got[i], want[i], tolerance * double(k))
                << rows << " x " << columns << " x " << k << " at " << i;
        }
      }
    }
  }
}

TEST(DotProducts, VnniEqualsLoops) {
  if (!gemm_core::x86::features().avx512_vnni) GTEST_SKIP() << "no AVX-512-VNNI here";
  expect_equals_loops<Quads, std::int32_t, std::int32_t>(gemm_core::x86::vnni_product(), 0);
}
TEST(DotProducts, Avx512Bf16EqualsLoops) {
  if (!gemm_core::x86::features().avx512_bf16) GTEST_SKIP() << "no AVX-512-BF16 here";
  expect_equals_loops<Bf16Pairs, std::uint32_t, float>(gemm_core::x86::avx512_bf16_product(), 1e-5);
}
TEST(DotProducts, AmxInt8EqualsLoops) {
  if (!gemm_core::x86::features().amx_int8) GTEST_SKIP() << "no AMX-INT8 here";
  expect_equals_loops<Quads, std::int32_t, std::int32_t>(gemm_core::x86::amx_int8_product(), 0);
}
TEST(DotProducts, AmxBf16EqualsLoops) {
  if (!gemm_core::x86::features().amx_bf16) GTEST_SKIP() << "no AMX-BF16 here";
  expect_equals_loops<Bf16Pairs, std::uint32_t, float>(gemm_core::x86::amx_bf16_product(), 1e-5);
}

// The mainloop with loops in the place of the instructions.
gemm_core::CpuAtoms emulating_atoms() {
  gemm_core::CpuAtoms atoms = gemm_core::cpu_atoms();
  atoms.lanes = 16;
  atoms.panel_vectors = 4;
  atoms.multiply_u8i8 = &emulate<Quads>;
  atoms.multiply_bf16 = &emulate<Bf16Pairs>;
  return atoms;
}

template <class T>
std::vector<T> random_values(std::int64_t count) {
  std::mt19937 random(6);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (auto& v : values) v = T(static_cast<float>(static_cast<int>(random() % 255) - 127));
  return values;
}

template <class T, class D>
std::vector<D> product(const gemm_core::CpuAtoms& atoms, base::DType compute, std::int64_t m,
                       std::int64_t n, std::int64_t k) {
  const auto a = random_values<T>(m * k), b = random_values<T>(k * n);
  std::vector<D> d(static_cast<std::size_t>(m * n));
  gemm_core::DenseProblem p{.m = m, .n = n, .k = k};
  p.a = {a.data(), base::dtype_v<T>, k, 1};
  p.b = {b.data(), base::dtype_v<T>, 1, k};
  p.d = d.data();
  p.d_dtype = base::dtype_v<D>;
  p.d_row_stride = n;
  p.compute = compute;
  std::vector<std::uint8_t> packed(static_cast<std::size_t>(gemm_core::packed_bytes(atoms, p)) +
                                   64);
  auto* aligned =
      reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(packed.data()) + 63) / 64 * 64);
  for (std::int64_t i = 0; i < gemm_core::pack_units(atoms, p); ++i)
    gemm_core::pack_unit(atoms, p, aligned, i);
  for (std::int64_t i = 0; i < gemm_core::dense_tiles(atoms, p); ++i)
    gemm_core::run_dense_tile(atoms, p, aligned, i);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t x = 0; x < k; ++x)
        sum += static_cast<double>(static_cast<float>(a[static_cast<std::size_t>(i * k + x)])) *
               static_cast<double>(static_cast<float>(b[static_cast<std::size_t>(j * k + x)]));
      const double tolerance = std::is_same<D, float>::value ? 1e-6 * 16129 * double(k) : 0;
      EXPECT_NEAR(static_cast<double>(d[static_cast<std::size_t>(i * n + j)]), sum, tolerance)
          << m << " x " << n << " x " << k << " at " << i << ", " << j;
    }
  }
  return d;
}

TEST(DotProducts, TheMainloopFeedsThemRightOnEveryMachine) {
  const gemm_core::CpuAtoms atoms = emulating_atoms();
  for (const std::int64_t m : {1, 40, 100}) {
    for (const std::int64_t n : {1, 16, 65}) {
      for (const std::int64_t k : {1, 3, 4, 255, 700, 1030}) {
        product<std::int8_t, std::int32_t>(atoms, base::DType::i8, m, n, k);
        product<base::bf16_t, float>(atoms, base::DType::bf16, m, n, k);
      }
    }
  }
}

}  // namespace
