// Grouped products, and what a product refuses.
#include <functional>

#include "gemm_core/device/typed_gemm.hpp"
#include "tests/gemm_core/gemm_case.hpp"

namespace {

using namespace gemm_case;  // NOLINT: a test file

using gemm_core::GroupedGemm;

TEST(GroupedGemm, EqualsSeparateProductsBitForBit) {
  std::vector<Problem> together, apart;
  for (const std::int64_t m : {0, 1, 7, 200}) {
    for (const std::int64_t k : {0, 5, 300}) {
      const Case c{.m = m, .n = 3 * m + 2, .k = k, .alpha = 0.5, .beta = m == 7 ? 2.0 : 0.0};
      together.emplace_back(c);
      apart.emplace_back(c);
    }
  }
  std::vector<GemmArguments> groups;
  for (auto& p : together) groups.push_back(p.arguments());
  std::vector<std::uint8_t> workspace(GroupedGemm::workspace_size(groups));
  GroupedGemm grouped;
  ASSERT_TRUE(grouped.initialize(groups, workspace.data(), workspace.size()).ok());
  for (int repeat = 0; repeat < 2; ++repeat) {
    ASSERT_TRUE(grouped.run().ok());
    for (std::size_t i = 0; i < apart.size(); ++i) {
      ASSERT_TRUE(run(apart[i].arguments()).ok());
      EXPECT_EQ(together[i].d.bytes, apart[i].d.bytes) << describe(apart[i].s);
    }
  }
  EXPECT_TRUE(GroupedGemm().initialize({}, nullptr, 0).ok());
}

struct Refusal {
  GemmStatus::Code code;
  std::vector<std::string> words;
  std::function<void(GemmArguments&)> spoil;
};

TEST(Gemm, RefusesMisuseByNameAndLeavesTheOutputAlone) {
  using Code = GemmStatus::Code;
  const std::vector<Refusal> refusals{
      {Code::invalid_extent, {"m -1", "negative"}, [](auto& g) { g.m = -1; }},
      {Code::invalid_extent, {"batch -3"}, [](auto& g) { g.batch = -3; }},
      {Code::invalid_extent,
       {"m 4611686018427387904", "2^63"},
       [](auto& g) { g.m = std::int64_t{1} << 62; }},
      {Code::invalid_extent, {"k ", "2^63"}, [](auto& g) { g.k = std::int64_t{1} << 60; }},
      {Code::invalid_extent,
       {"operand A", "strides"},
       [](auto& g) { g.a.row_stride = std::int64_t{1} << 59; }},
      {Code::null_operand, {"operand A"}, [](auto& g) { g.a.data = nullptr; }},
      {Code::null_operand, {"operand D"}, [](auto& g) { g.d.data = nullptr; }},
      {Code::null_operand, {"operand C", "beta is 2"}, [](auto& g) { g.beta = 2; }},
      {Code::misaligned,
       {"operand B", "4 bytes"},
       [](auto& g) { g.b.data = static_cast<const char*>(g.b.data) + 1; }},
      {Code::unsupported, {"float32", "float64"}, [](auto& g) { g.b.dtype = DType::f64; }},
      {Code::unsupported, {"int16"}, [](auto& g) { g.a.dtype = DType::i16; }},
      {Code::unsupported, {"D", "overlaps itself"}, [](auto& g) { g.d.row_stride = 5; }},
      {Code::unsupported,
       {"x 2", "batch stride 0", "overlaps itself"},
       [](auto& g) {
         g.batch = 2;
         g.d.batch_stride = 0;
       }},
      {Code::overlap, {"D overlaps operand A"}, [](auto& g) { g.a.data = g.d.data; }},
      {Code::overlap,
       {"D overlaps operand B"},
       [](auto& g) { g.b.data = static_cast<float*>(g.d.data) + 1; }},
      {Code::overlap,
       {"operand C"},
       [](auto& g) {
         g.beta = 1;
         g.c = {static_cast<float*>(g.d.data) + 1, DType::f32, g.d.row_stride};
       }},
      {Code::overlap,
       {"D overlaps epilogue node 0 (add)"},
       [](auto& g) {
         g.epilogue.add(
             {static_cast<float*>(g.d.data) + 1, DType::f32, {}, {g.m, g.n}, {g.d.row_stride, 1}});
       }},
      {Code::overlap,
       {"D overlaps epilogue node 0 (scale_shift)"},
       [](auto& g) { g.epilogue.scale_shift(nullptr, static_cast<float*>(g.d.data)); }},
      {Code::misaligned,
       {"epilogue node 1 (scale_shift)", "4 bytes"},
       [](auto& g) {
         g.epilogue.activate(gemm_core::Activation::relu)
             .scale_shift(reinterpret_cast<const float*>(static_cast<char*>(g.d.data) + 1),
                          nullptr);
       }},
      {Code::overlap,
       {"D overlaps scales of operand B"},
       [](auto& g) { g.b.scale = {.data = g.d.data}; }},
      {Code::misaligned,
       {"zero points of operand A", "4 bytes"},
       [](auto& g) { g.a.zero = {.data = static_cast<const char*>(g.a.data) + 2}; }},
      {Code::misaligned,
       {"row indices of operand A", "4 bytes"},
       [](auto& g) {
         g.a.rows = {{static_cast<const char*>(g.b.data) + 1}, g.m};
       }},
      {Code::bad_index,
       {"row indices of operand D", "limit 2"},
       [](auto& g) {
         g.d.rows = {{g.b.data}, 2};
       }},
  };
  for (const Refusal& refusal : refusals) {
    Problem p({});
    const auto before = p.d.bytes;
    GemmArguments g = p.arguments();
    refusal.spoil(g);
    std::vector<std::uint8_t> workspace(1 << 20);
    Gemm gemm;
    const GemmStatus status = gemm.initialize(g, workspace.data(), workspace.size());
    EXPECT_EQ(status.code, refusal.code) << status.message;
    for (const auto& word : refusal.words)
      EXPECT_NE(status.message.find(word), std::string::npos) << status.message;
    EXPECT_EQ(gemm.run().code, Code::not_initialized);
    EXPECT_EQ(p.d.bytes, before);
    EXPECT_EQ(Gemm::workspace_size(g), 0u);
  }
}

// A limit says how large a buffer may be, so it may be far beyond the list; nothing may throw.
TEST(Gemm, TellsRepeatedRowsOfDApartBelowAnyLimit) {
  for (const std::int64_t limit :
       {std::int64_t{64}, std::int64_t{1} << 40, std::int64_t{1} << 62}) {
    Problem p({});
    GemmArguments g = p.arguments();
    std::vector<std::int64_t> rows(static_cast<std::size_t>(g.m));
    for (std::int64_t i = 0; i < g.m; ++i) rows[static_cast<std::size_t>(i)] = i;
    g.d.rows = {{rows.data(), DType::i64}, limit};
    const GemmStatus distinct = Gemm::can_implement(g);
    EXPECT_NE(distinct.code, GemmStatus::Code::bad_index) << distinct.message;
    rows.back() = rows.front();
    const GemmStatus repeated = Gemm::can_implement(g);
    EXPECT_EQ(repeated.code, GemmStatus::Code::bad_index) << limit;
    EXPECT_NE(repeated.message.find("once more"), std::string::npos) << repeated.message;
  }
}

TEST(Gemm, AddsAResidualThatIsItsResult) {
  const Case c{.m = 70, .n = 40, .k = 300};
  Problem apart(c), in_place(c);
  GemmArguments g = apart.arguments();
  const std::vector<std::uint8_t> residual = apart.d.bytes;
  const auto add = [](GemmArguments& to, const void* data) {
    to.epilogue.add({data, DType::f32, {}, {to.m, to.n}, {to.d.row_stride, 1}});
  };
  const auto offset = static_cast<std::uint8_t*>(g.d.data) - apart.d.bytes.data();
  add(g, residual.data() + offset);
  ASSERT_TRUE(run(g).ok());
  GemmArguments h = in_place.arguments();
  add(h, h.d.data);
  const GemmStatus status = run(h);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(in_place.d.bytes, apart.d.bytes);
}

TEST(Gemm, RefusesASmallWorkspace) {
  Problem p({});
  const GemmArguments g = p.arguments();
  std::vector<std::uint8_t> workspace(Gemm::workspace_size(g) - 1);
  Gemm gemm;
  EXPECT_EQ(gemm.initialize(g, workspace.data(), workspace.size()).code,
            GemmStatus::Code::small_workspace);
}

TEST(Gemm, UpdatesItsOperandsInTheSameWorkspace) {
  Problem first({.m = 30, .n = 20, .k = 40}), second({.m = 10, .n = 17, .k = 33, .alpha = 2});
  const GemmArguments g = first.arguments();
  std::vector<std::uint8_t> workspace(Gemm::workspace_size(g));
  Gemm gemm;
  EXPECT_EQ(gemm.update(g).code, GemmStatus::Code::not_initialized);
  ASSERT_TRUE(gemm.initialize(g, workspace.data(), workspace.size()).ok());
  ASSERT_TRUE(gemm.update(second.arguments()).ok());
  ASSERT_TRUE(gemm.run().ok());
  expect_equal_to_oracle(second, second.s);
  Problem large({.m = 30, .n = 500, .k = 40});
  EXPECT_EQ(gemm.update(large.arguments()).code, GemmStatus::Code::small_workspace);
  EXPECT_EQ(gemm.run().code, GemmStatus::Code::not_initialized);
}

// The compiler's table and the run-time checks agree on every combination of types.
TEST(TypedGemm, AcceptsWhatTheRunTimeChecksAccept) {
  for (int a = 0; a <= static_cast<int>(DType::c128); ++a) {
    for (int b = 0; b <= static_cast<int>(DType::c128); ++b) {
      for (int d = 0; d <= static_cast<int>(DType::c128); ++d) {
        for (int compute = 0; compute <= static_cast<int>(DType::c128); ++compute) {
          GemmArguments g{.compute = static_cast<DType>(compute)};
          g.a.dtype = static_cast<DType>(a);
          g.b.dtype = static_cast<DType>(b);
          g.d.dtype = static_cast<DType>(d);
          ASSERT_EQ(Gemm::can_implement(g).ok(),
                    gemm_core::has_mainloop(g.a.dtype, g.b.dtype, g.d.dtype, g.compute))
              << base::name(g.a.dtype) << " " << base::name(g.b.dtype) << " "
              << base::name(g.d.dtype) << " " << base::name(g.compute);
        }
      }
    }
  }
}

}  // namespace
