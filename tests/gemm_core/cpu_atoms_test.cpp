// The atoms of every instruction set that this machine runs, against scalar definitions.
#include "gemm_core/atom/cpu_atoms.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "gemm_core/base/numeric.hpp"
#include "gemm_core/device/machine.hpp"

namespace {

using base::DType;
using gemm_core::Activation;
using gemm_core::CpuAtoms;

bool same_bits_or_nan(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof a) == 0;
}

TEST(CpuAtoms, WidenEveryHalfAndBfloat16Exactly) {
  for (const CpuAtoms* atoms : gemm_core::supported_cpu_atoms()) {
    std::vector<std::uint16_t> bits(65536 + 3);  // an odd count: whole vectors and single lanes
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
    std::vector<float> wide(bits.size());
    for (const DType type : {DType::f16, DType::bf16}) {
      const auto count = static_cast<std::int64_t>(bits.size());
      atoms->convert_rows({.base = bits.data(),
                           .dtype = type,
                           .pitch = count,
                           .rows = 1,
                           .columns = count,
                           .to = wide.data(),
                           .ldto = count});
      for (std::size_t i = 0; i < bits.size(); ++i) {
        const float expected = type == DType::f16 ? base::f16_bits_to_f32(bits[i])
                                                  : float(base::bf16_t::from_bits(bits[i]));
        ASSERT_TRUE(same_bits_or_nan(wide[i], expected))
            << atoms->name << " " << base::name(type) << " " << i;
      }
    }
  }
}

// Values around every rounding boundary of 16-bit types, ends of the ranges, subnormals, infinities
// and NaN.
std::vector<float> rounding_values() {
  std::vector<float> values{0.0f,     -0.0f,   INFINITY, -INFINITY, NAN,      65504.0f,   65519.9f,
                            65520.0f, 3.4e38f, -3.4e38f, 1e-45f,    2.98e-8f, 2.9803e-8f, 5.96e-8f};
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    const std::uint32_t high = static_cast<std::uint32_t>(random()) & 0xffffe000u;
    for (const std::uint32_t low : {0u, 0x0fffu, 0x1000u, 0x1001u, 0x1fffu})
      values.push_back(std::bit_cast<float>(high | low));
    for (const std::uint32_t low : {0x7fffu, 0x8000u, 0x8001u})
      values.push_back(std::bit_cast<float>((high & 0xffff0000u) | low));
  }
  return values;
}

TEST(CpuAtoms, RoundAsTheNumberTypesDo) {
  auto values = rounding_values();
  const auto count = static_cast<std::int64_t>(values.size());
  for (const CpuAtoms* atoms : gemm_core::supported_cpu_atoms()) {
    std::vector<float> rounded(values.size());
    std::vector<std::uint16_t> stored(values.size());
    for (const DType type : {DType::tf32, DType::f16, DType::bf16}) {
      atoms->convert_rows({.base = values.data(),
                           .pitch = count,
                           .rows = 1,
                           .columns = count,
                           .compute = type,
                           .to = rounded.data(),
                           .ldto = count});
      if (type != DType::tf32)
        atoms->store({values.data(), count, 1, count}, stored.data(), type, count);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float expected = type == DType::tf32  ? base::round_to_tf32(values[i])
                               : type == DType::f16 ? float(base::half_t(values[i]))
                                                    : float(base::bf16_t(values[i]));
        ASSERT_TRUE(same_bits_or_nan(rounded[i], expected))
            << atoms->name << " " << base::name(type) << " of " << values[i];
        if (type == DType::tf32 || std::isnan(expected)) continue;
        const std::uint16_t bits =
            type == DType::f16 ? base::half_t(values[i]).bits : base::bf16_t(values[i]).bits;
        ASSERT_EQ(stored[i], bits) << atoms->name << " " << base::name(type) << " of " << values[i];
      }
    }
  }
}

TEST(CpuAtoms, ListPresentRowsInOrder) {
  std::mt19937 random(5);
  for (const CpuAtoms* atoms : gemm_core::supported_cpu_atoms()) {
    for (std::int64_t rows = 0; rows < 70; ++rows) {
      std::vector<std::int32_t> neighbours, want_source, want_target;
      for (std::int64_t i = 0; i < rows; ++i) {
        neighbours.push_back(random() % 3 == 0 ? static_cast<std::int32_t>(random() % 0x7fffffffu)
                                               : -1);
        if (neighbours.back() < 0) continue;
        want_source.push_back(neighbours.back());
        want_target.push_back(static_cast<std::int32_t>(i));
      }
      std::vector<std::int32_t> source(static_cast<std::size_t>(rows + 16)), target(source);
      const auto count = static_cast<std::size_t>(
          atoms->list_present(neighbours.data(), rows, source.data(), target.data()));
      source.resize(count);
      target.resize(count);
      EXPECT_EQ(source, want_source) << atoms->name;
      EXPECT_EQ(target, want_target) << atoms->name;
    }
  }
}

double reference(Activation activation, double x, double slope) {
  switch (activation) {
    case Activation::relu:
      return x < 0 ? 0 : x;
    case Activation::leaky_relu:
      return x < 0 ? slope * x : x;
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::gelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    default:
      return x;
  }
}

TEST(CpuAtoms, ActivateWithinFourUnitsOfThePreciseValue) {
  std::vector<float> inputs{0.0f,   -0.0f,  1e-20f,  -1e-20f, 88.0f,
                            -88.0f, 100.0f, -100.0f, 1e30f,   -1e30f};
  for (int i = -3000; i <= 3000; ++i) inputs.push_back(static_cast<float>(i) * 0.01f);
  const auto count = static_cast<std::int64_t>(inputs.size());
  for (const CpuAtoms* atoms : gemm_core::supported_cpu_atoms()) {
    for (const Activation a :
         {Activation::identity, Activation::relu, Activation::leaky_relu, Activation::sigmoid,
          Activation::silu, Activation::tanh, Activation::gelu}) {
      auto values = inputs;
      atoms->activate({values.data(), count, 1, count}, a, 0.125f);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const double expected = reference(a, inputs[i], 0.125);
        // 2^-22 of the value: the vector exponential errs by 2 units, two roundings follow. The
        // absolute part is for tails far below every stored type's resolution beside values of
        // order 1.
        ASSERT_NEAR(values[i], expected, std::ldexp(std::fabs(expected), -21) + 1e-7)
            << atoms->name << " activation " << static_cast<int>(a) << " of " << inputs[i];
      }
      float nan = NAN;
      atoms->activate({&nan, 1, 1, 1}, a, 0.125f);
      EXPECT_TRUE(std::isnan(nan)) << atoms->name << " activation " << static_cast<int>(a);
    }
  }
}

TEST(Machine, MeasuresPositiveRates) {
  EXPECT_GT(gemm_core::measure_fma_peak(1), 1e8);
  EXPECT_GT(gemm_core::measure_copy_bandwidth(2), 1e8);
  EXPECT_STRNE(gemm_core::cpu_instruction_set(), "");
}

}  // namespace
