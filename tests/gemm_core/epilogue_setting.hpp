// A product with residue tiles, and what epilogues on it are compared with.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "gemm_core/base/convert.hpp"
#include "gemm_core/base/error.hpp"
#include "gemm_core/base/parallel.hpp"
#include "gemm_core/device/gather_conv.hpp"
#include "gemm_core/device/gemm.hpp"
#include "gemm_core/epilogue/visitor_aliases.hpp"
#include "gemm_core/epilogue/visitor_description.hpp"
#include "gemm_core/epilogue/visitor_graph.hpp"

namespace epilogue_case {

using namespace gemm_core::visitor;
using base::DType;
using gemm_core::ElementwiseOp;
using gemm_core::Gemm;
using gemm_core::GemmArguments;
using gemm_core::GemmStatus;

// Residue tiles in both directions.
constexpr std::int64_t kM = 301, kN = 401, kK = 37;

inline std::vector<float> random_values(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& v : values) v = normal(random);
  return values;
}

struct Setting {
  std::vector<float> a = random_values(kM * kK, 1), b = random_values(kK * kN, 2),
                     c = random_values(kM * kN, 3);
  std::vector<float> aux = random_values(kM * kN, 4), row = random_values(kN, 5),
                     column = random_values(kM, 6);
  std::vector<float> column2 = random_values(kM, 7), column3 = random_values(kM, 8);
  std::vector<float> plain = run(nullptr);

  GemmArguments arguments(std::vector<float>& d, gemm_core::TileEpilogue* visitor) const {
    GemmArguments g{.m = kM, .n = kN, .k = kK};
    g.a = {a.data(), DType::f32, kK};
    g.b = {b.data(), DType::f32, kN};
    g.d = {d.data(), DType::f32, kN};
    g.visitor = visitor;
    return g;
  }
  std::vector<float> run(gemm_core::TileEpilogue* visitor) const {
    std::vector<float> d(static_cast<std::size_t>(kM * kN), -77.0f);
    const GemmArguments g = arguments(d, visitor);
    std::vector<std::uint8_t> workspace(Gemm::workspace_size(g));
    Gemm gemm;
    const GemmStatus status = gemm.initialize(g, workspace.data(), workspace.size());
    EXPECT_TRUE(status.ok()) << status.message;
    EXPECT_TRUE(gemm.run().ok());
    return d;
  }
  MatrixLoad source() const { return {.name = "C", .matrix = {c.data(), DType::f32, kN, 1}}; }
  MatrixLoad auxiliary() const { return {.matrix = {aux.data(), DType::f32, kN, 1}}; }
};

inline const Setting& setting() {
  static const Setting made;
  return made;
}

inline std::size_t at(std::int64_t i, std::int64_t j) {
  return static_cast<std::size_t>(i * kN + j);
}

using Expected =
    std::function<float(std::int64_t, std::int64_t, float)>;  // row, column, accumulator

// Bit for bit unless a tolerance is given.
template <class Root>
void expect_values(Root root, const Expected& expected, float tolerance = 0) {
  VisitorEpilogue<Root> epilogue(std::move(root));
  const auto d = setting().run(&epilogue);
  for (std::int64_t i = 0; i < kM; ++i) {
    for (std::int64_t j = 0; j < kN; ++j) {
      const float want = expected(i, j, setting().plain[at(i, j)]);
      const float got = d[at(i, j)];
      if (std::isnan(want) && std::isnan(got)) continue;
      ASSERT_LE(std::fabs(got - want), tolerance * (1 + std::fabs(want)))
          << i << ", " << j << ": " << got << " " << want;
    }
  }
}

inline Compute compute(ElementwiseOp op, float first = 0, float second = 0) {
  return {.op = op, .parameters = {first, second}};
}

}  // namespace epilogue_case
