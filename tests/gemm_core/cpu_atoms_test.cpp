// The atoms of every instruction set that this machine runs, against scalar definitions.
#include "gemm_core/atom/cpu_atoms.hpp"
#include "gemm_core/atom/cpu_ahead.hpp"

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

TEST(CpuAtoms, TransposeEveryShapeAndTouchNothingElse) {
  for (const auto* atoms : gemm_core::supported_cpu_atoms()) {
    for (const std::int64_t rows : {1, 3, 4, 7, 16, 33}) {
      for (const std::int64_t columns : {1, 2, 4, 5, 16, 19, 40}) {
        const std::int64_t pitch = columns + 3, ldto = rows + 2;
        std::vector<float> from(static_cast<std::size_t>(rows * pitch)),
            to(static_cast<std::size_t>(columns * ldto), -1.0f);
        for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
        atoms->transpose({from.data(), pitch, rows, columns, to.data(), ldto});
        for (std::int64_t j = 0; j < columns; ++j) {
          for (std::int64_t i = 0; i < ldto; ++i) {
            const float want = i < rows ? static_cast<float>(i * pitch + j) : -1.0f;
            ASSERT_EQ(to[static_cast<std::size_t>(j * ldto + i)], want)
                << atoms->name << ": " << rows << " x " << columns << " at " << i << ", " << j;
          }
        }
      }
    }
  }
}

// What a product asks for meanwhile: every line of every row, each once, in order, and as late as
// the steps allow.
TEST(CpuAtoms, AskForEveryLineOfTheRowsAheadOnce) {
  using gemm_core::detail::AheadCursor;
  using gemm_core::detail::Meanwhile;
  alignas(64) static char memory[64 * 64];
  gemm_core::Ahead ahead;
  ahead.add({memory, 320, 5, 256});            // 4 lines of every 5
  ahead.add({nullptr, 64, 9, 64});             // dropped
  ahead.add({memory + 2048 + 60, 128, 3, 8});  // 8 bytes over two lines
  std::vector<std::uintptr_t> wanted, got;
  const auto line = [](const char* at) { return reinterpret_cast<std::uintptr_t>(at) / 64; };
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 4; ++j) wanted.push_back(line(memory + 320 * i + 64 * j));
  }
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 2; ++j) wanted.push_back(line(memory + 2048 + 128 * i + 64 * j));
  }
  char idle = 0;
  constexpr int kCalls = 40, kSteps = 2;
  AheadCursor cursor(&ahead, kCalls * kSteps, &idle);
  for (int call = 0; call < kCalls; ++call) {
    Meanwhile& m = cursor.next(kSteps);
    for (int step = 0; step < kSteps; ++step) {
      if (m.line != reinterpret_cast<std::uintptr_t>(&idle)) got.push_back(m.line / 64);
      if (m.line == reinterpret_cast<std::uintptr_t>(&idle)) {
        EXPECT_TRUE(got.empty() || got.size() == wanted.size());
      }
      m.step();
    }
  }
  EXPECT_EQ(got, wanted);
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

TEST(CpuAtoms, FinishInOnePassWithTheBitsOfItsSteps) {
  using gemm_core::Activation;
  constexpr std::int64_t kRows = 5, kColumns = 37, kPitch = 41;
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  std::vector<float> values(kRows * kPitch), scale(kColumns), shift(kColumns), aux(kRows * kPitch);
  for (auto* all : {&values, &scale, &shift, &aux}) {
    for (float& v : *all) v = normal(random);
  }
  values[3] = std::nanf("");
  std::vector<std::uint16_t> halves(aux.size()), brains(aux.size());
  const DType types[] = {DType::f32, DType::f16, DType::bf16};
  for (const auto* atoms : gemm_core::supported_cpu_atoms()) {
    const gemm_core::Block as_block{aux.data(), kPitch, kRows, kPitch};
    atoms->store(as_block, halves.data(), DType::f16, kPitch);
    atoms->store(as_block, brains.data(), DType::bf16, kPitch);
    for (int bits = 0; bits < 8; ++bits) {
      for (const auto activation :
           {Activation::identity, Activation::relu, Activation::leaky_relu}) {
        for (const DType aux_type : types) {
          for (const DType type : types) {
            gemm_core::RowFinish f{.scale = bits & 1 ? scale.data() : nullptr,
                                   .shift = bits & 2 ? shift.data() : nullptr,
                                   .aux_dtype = aux_type,
                                   .aux_pitch = kPitch,
                                   .activation = activation,
                                   .slope = 0.25f,
                                   .dtype = type,
                                   .pitch = kPitch};
            if (bits & 4) {
              f.aux = aux_type == DType::f16    ? static_cast<const void*>(halves.data())
                      : aux_type == DType::bf16 ? static_cast<const void*>(brains.data())
                                                : aux.data();
            }
            std::vector<float> got(values.size(), 7.0f), want(got), steps = values, kept = values;
            const gemm_core::Block block{steps.data(), kPitch, kRows, kColumns};
            if (bits & 3) atoms->scale_shift(block, f.scale, f.shift);
            if (f.aux) atoms->add(block, f.aux, aux_type, kPitch);
            atoms->activate(block, activation, f.slope);
            atoms->store(block, want.data(), type, kPitch);
            f.to = got.data();
            atoms->finish({kept.data(), kPitch, kRows, kColumns}, f);
            ASSERT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0)
                << atoms->name << " " << bits << " " << static_cast<int>(activation);
            ASSERT_EQ(std::memcmp(kept.data(), values.data(), kept.size() * sizeof(float)), 0);
          }
        }
      }
    }
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
