// Tensor contractions against loops over all modes; gathered and scattered convolution by joint
// indices.
#include "gemm_core/device/contraction.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "gemm_core/base/numeric.hpp"

namespace {

using base::DType;
using gemm_core::Contraction;
using gemm_core::ContractionArguments;
using gemm_core::ContractionMode;
using gemm_core::GemmStatus;
using gemm_core::ModeKind;
using gemm_core::ModeStrides;

GemmStatus run(const ContractionArguments& g) {
  std::vector<std::uint8_t> workspace(Contraction::workspace_size(g));
  Contraction contraction;
  if (auto s = contraction.initialize(g, workspace.data(), workspace.size()); !s.ok()) return s;
  return contraction.run();
}

std::vector<float> random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& v : values) v = normal(random);
  return values;
}

// Every coordinate of all modes: offsets of A, B, C and D.
template <class Body>
void for_each_term(const std::vector<ContractionMode>& modes, std::size_t i, ModeStrides at,
                   const Body& body) {
  if (i == modes.size()) return body(at);
  for (std::int64_t x = 0; x < modes[i].extent; ++x) {
    const ModeStrides& s = modes[i].stride;
    for_each_term(modes, i + 1, {at.a + x * s.a, at.b + x * s.b, at.c + x * s.c, at.d + x * s.d},
                  body);
  }
}

TEST(Contraction, EqualsTheLoopsForRandomModesInRandomOrders) {
  std::mt19937 random(21);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<ContractionMode> modes;
    const int counts[] = {static_cast<int>(random() % 4), static_cast<int>(random() % 3),
                          static_cast<int>(random() % 4), static_cast<int>(random() % 2)};
    for (int kind = 0; kind < 4; ++kind) {
      for (int i = 0; i < counts[kind]; ++i)
        modes.push_back({.kind = static_cast<ModeKind>(kind),
                         .extent = static_cast<std::int64_t>(1 + random() % 5)});
    }
    // Each operand packs its modes in an order of its own.
    std::int64_t sizes[4];
    const auto pack = [&](std::int64_t ModeStrides::*member, auto has) {
      std::vector<std::size_t> order(modes.size());
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      std::int64_t stride = 1;
      for (const std::size_t i : order) {
        if (!has(modes[i].kind)) continue;
        modes[i].stride.*member = stride;
        stride *= modes[i].extent + static_cast<std::int64_t>(random() % 2);
      }
      return stride;
    };
    sizes[0] = pack(&ModeStrides::a, [](ModeKind k) { return k != ModeKind::n; });
    sizes[1] = pack(&ModeStrides::b, [](ModeKind k) { return k != ModeKind::m; });
    sizes[2] = pack(&ModeStrides::c, [](ModeKind k) { return k != ModeKind::k; });
    sizes[3] = pack(&ModeStrides::d, [](ModeKind k) { return k != ModeKind::k; });
    auto a = random_values(static_cast<std::size_t>(sizes[0]), 1),
         b = random_values(static_cast<std::size_t>(sizes[1]), 2),
         c = random_values(static_cast<std::size_t>(sizes[2]), 3),
         d = random_values(static_cast<std::size_t>(sizes[3]), 4);
    ContractionArguments g{.modes = modes,
                           .a = {a.data()},
                           .b = {b.data()},
                           .c = {c.data()},
                           .d = {d.data()},
                           .alpha = 0.5,
                           .beta = trial % 2 ? 2.0 : 0.0};
    std::vector<double> expected(d.begin(), d.end());
    for_each_term(modes, 0, {}, [&](const ModeStrides& at) {
      expected[static_cast<std::size_t>(at.d)] =
          g.beta * static_cast<double>(c[static_cast<std::size_t>(at.c)]);
    });
    for_each_term(modes, 0, {}, [&](const ModeStrides& at) {
      expected[static_cast<std::size_t>(at.d)] +=
          0.5 * static_cast<double>(a[static_cast<std::size_t>(at.a)]) *
          static_cast<double>(b[static_cast<std::size_t>(at.b)]);
    });
    const GemmStatus status = run(g);
    ASSERT_TRUE(status.ok()) << status.message;
    for (std::size_t i = 0; i < d.size(); ++i)
      ASSERT_NEAR(d[i], expected[i], 1e-4) << "trial " << trial << " at " << i;
  }
}

TEST(Contraction, ASumOverNothingIsBetaTimesC) {
  std::vector<float> a(6), b(6), c{1, 2, 3, 4, 5, 6}, d(6);
  ContractionArguments g{.modes = {{ModeKind::m, 2, {.a = 1, .c = 3, .d = 3}},
                                   {ModeKind::n, 3, {.b = 1, .c = 1, .d = 1}},
                                   {ModeKind::k, 0, {.a = 2, .b = 3}}},
                         .a = {a.data()},
                         .b = {b.data()},
                         .c = {c.data()},
                         .d = {d.data()},
                         .beta = 2};
  ASSERT_TRUE(run(g).ok());
  EXPECT_EQ(d, (std::vector<float>{2, 4, 6, 8, 10, 12}));
}

// The sizes of the well-known gather and scatter convolution example: DHW 6x4x4, TRS 3x3x3, ZPQ
// 4x2x2, C 64, K 128, tf32 in, fp32 out; the filter is operand A, the activations B. The
// activation's cell is chosen by an index buffer over all of (n, d, h, w), the output's by another
// over (n, z, p, q).
struct Example {
  static constexpr std::int64_t N = 4, D = 6, H = 4, W = 4, T = 3, R = 3, S = 3, Z = 4, P = 2,
                                Q = 2, C = 64, K = 128;
  std::vector<float> filter = random_values(K * T * R * S * C, 1),
                     activation = random_values(N * D * H * W * C, 2),
                     output = std::vector<float>(N * Z * P * Q * K);
  ContractionArguments arguments() {
    constexpr std::int64_t trs = T * R * S, hw = H * W;
    ContractionArguments g;
    g.compute = DType::tf32;
    g.modes = {{ModeKind::m, K, {.a = trs * C, .d = 1}},
               {ModeKind::n, Q, {}, {.b = 1, .d = 1}},
               {ModeKind::n, P, {}, {.b = W, .d = Q}},
               {ModeKind::n, Z, {}, {.b = hw, .d = P * Q}},
               {ModeKind::n, N, {}, {.b = D * hw, .d = Z * P * Q}},
               {ModeKind::k, C, {.a = 1, .b = 1}},
               {ModeKind::k, S, {.a = C}, {.b = 1}},
               {ModeKind::k, R, {.a = S * C}, {.b = W}},
               {ModeKind::k, T, {.a = R * S * C}, {.b = hw}}};
    g.a = {filter.data()};
    g.b = {activation.data(), DType::f32, {}, C, N * D * hw};
    g.d = {output.data(), DType::f32, {}, K, N * Z * P * Q};
    return g;
  }
  double expected(std::int64_t n, std::int64_t z, std::int64_t p, std::int64_t q, std::int64_t k,
                  const std::vector<std::int64_t>& cells) const {
    double sum = 0;
    for (std::int64_t t = 0; t < T; ++t)
      for (std::int64_t r = 0; r < R; ++r)
        for (std::int64_t s = 0; s < S; ++s) {
          const std::int64_t cell =
              cells[static_cast<std::size_t>(((n * D + z + t) * H + p + r) * W + q + s)];
          if (cell < 0) continue;
          for (std::int64_t c = 0; c < C; ++c)
            sum += static_cast<double>(
                       base::round_to_tf32(activation[static_cast<std::size_t>(cell * C + c)])) *
                   static_cast<double>(base::round_to_tf32(
                       filter[static_cast<std::size_t>((((k * T + t) * R + r) * S + s) * C + c)]));
        }
    return sum;
  }
};

TEST(Contraction, GathersAndScattersAConvolutionByEveryKindOfIndex) {
  enum Kind { kPlain, kReversed, kShuffled, kHoles };
  for (const Kind kind : {kPlain, kReversed, kShuffled, kHoles}) {
    for (const bool wide : {false, true}) {
      for (const bool scatter : {false, true}) {
        Example x;
        std::vector<std::int64_t> in(x.N * x.D * x.H * x.W), out(x.N * x.Z * x.P * x.Q);
        std::mt19937 random(5);
        for (auto* list : {&in, &out}) {
          std::iota(list->begin(), list->end(), 0);
          if (kind == kReversed) std::reverse(list->begin(), list->end());
          if (kind == kShuffled || kind == kHoles) std::shuffle(list->begin(), list->end(), random);
        }
        if (kind == kHoles) {
          for (std::size_t i = 0; i < in.size(); i += 2) in[i] = -1;
        }
        if (!scatter) std::iota(out.begin(), out.end(), 0);
        const std::vector<std::int32_t> in32(in.begin(), in.end()), out32(out.begin(), out.end());
        ContractionArguments g = x.arguments();
        g.b.slots = wide ? gemm_core::IndexRef{in.data(), DType::i64}
                         : gemm_core::IndexRef{in32.data(), DType::i32};
        g.d.slots = wide ? gemm_core::IndexRef{out.data(), DType::i64}
                         : gemm_core::IndexRef{out32.data(), DType::i32};
        const GemmStatus status = run(g);
        ASSERT_TRUE(status.ok()) << status.message;
        for (std::int64_t i = 0; i < x.N * x.Z * x.P * x.Q; ++i) {
          const std::int64_t q = i % x.Q, p = i / x.Q % x.P, z = i / (x.Q * x.P) % x.Z,
                             n = i / (x.Q * x.P * x.Z);
          for (std::int64_t k = 0; k < x.K; k += 5) {
            const double got =
                x.output[static_cast<std::size_t>(out[static_cast<std::size_t>(i)] * x.K + k)];
            ASSERT_NEAR(got, x.expected(n, z, p, q, k, in), 2e-3)
                << kind << " " << wide << " " << scatter << " at " << i;
          }
        }
      }
    }
  }
}

TEST(Contraction, RefusesWhatDoesNotFitAndNamesIt) {
  using Code = GemmStatus::Code;
  std::vector<float> a(12), b(12), d(12);
  std::vector<std::int32_t> slots{0, 1, 9};
  const auto expect = [&](Code code, const char* words, auto spoil) {
    ContractionArguments g{.modes = {{ModeKind::m, 3, {.a = 4, .d = 3}},
                                     {ModeKind::n, 3, {.b = 1, .d = 1}},
                                     {ModeKind::k, 4, {.a = 1, .b = 3}}},
                           .a = {a.data()},
                           .b = {b.data()},
                           .d = {d.data()}};
    ASSERT_TRUE(Contraction::can_implement(g).ok());
    spoil(g);
    const GemmStatus s = Contraction::can_implement(g);
    EXPECT_EQ(s.code, code) << s.message;
    EXPECT_NE(s.message.find(words), std::string::npos) << s.message;
    EXPECT_EQ(Contraction().run().code, Code::not_initialized);
  };
  expect(Code::invalid_extent, "mode 1 has extent -3", [](auto& g) { g.modes[1].extent = -3; });
  expect(Code::invalid_extent, "extents of D multiply to more than 2^59",
         [](auto& g) { g.modes[0].extent = g.modes[1].extent = std::int64_t{1} << 40; });
  expect(Code::invalid_extent, "operand A spans",
         [](auto& g) { g.modes[2].stride.a = std::int64_t{1} << 60; });
  expect(Code::unsupported, "mode 2 is summed over", [](auto& g) { g.modes[2].stride.d = 1; });
  expect(Code::unsupported, "D overlaps itself", [](auto& g) { g.modes[0].stride.d = 2; });
  expect(Code::null_operand, "operand B", [](auto& g) { g.b.data = nullptr; });
  expect(Code::overlap, "overlaps operand A", [](auto& g) { g.d.data = g.a.data; });
  expect(Code::bad_index, "index 2 of operand A is 9", [&](auto& g) {
    g.a.slots = {slots.data(), DType::i32}, g.a.slot_limit = 3, g.modes[0].slot.a = 1;
  });
}

}  // namespace
