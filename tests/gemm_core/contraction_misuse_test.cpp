// Contractions that must be refused: what meets what, lists that write twice, extents past every
// number. Refused ones leave D alone.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include "gemm_core/base/sanitizers.hpp"
#include "gemm_core/device/contraction.hpp"

namespace {

using base::DType;
using gemm_core::Contraction;
using gemm_core::ContractionArguments;
using gemm_core::GemmStatus;
using gemm_core::ModeKind;
using Code = GemmStatus::Code;

GemmStatus run(const ContractionArguments& g) {
  std::vector<std::uint8_t> workspace(Contraction::workspace_size(g));
  Contraction contraction;
  if (auto s = contraction.initialize(g, workspace.data(), workspace.size()); !s.ok()) return s;
  return contraction.run();
}

// D[to[i], j] = sum over k of A[from[i], k] B[k, j], 3 x 5 x 4, in one buffer each.
struct Problem {
  static constexpr std::int64_t kM = 3, kN = 5, kK = 4, kRows = 8;
  std::vector<float> a = std::vector<float>(kRows * kK), b = std::vector<float>(kK * kN),
                     c = std::vector<float>(kRows * kN), d = std::vector<float>(2 * kRows * kN);
  std::vector<std::int32_t> from{7, -1, 2, 0}, to{4, 0, 6, 0};
  Problem() {
    std::iota(a.begin(), a.end(), 1.0f);
    std::iota(b.begin(), b.end(), -3.0f);
    std::iota(c.begin(), c.end(), 0.5f);
    std::fill(d.begin(), d.end(), -77.0f);
  }
  ContractionArguments arguments() {
    ContractionArguments g{.modes = {{ModeKind::m, kM, {}, {.a = 1, .c = 1, .d = 1}},
                                     {ModeKind::n, kN, {.b = 1, .c = 1, .d = 1}},
                                     {ModeKind::k, kK, {.a = 1, .b = kN}}}};
    g.a = {a.data(), DType::f32, {from.data()}, kK, kRows};
    g.b = {b.data()};
    g.c = {c.data(), DType::f32, {to.data()}, kN, kRows};
    g.d = {d.data(), DType::f32, {to.data()}, kN, kRows};
    return g;
  }
};

TEST(ContractionMisuse, TheProblemItselfIsComputed) {
  Problem p;
  ContractionArguments g = p.arguments();
  g.beta = 2;
  const auto status = run(g);
  ASSERT_TRUE(status.ok()) << status.message;
  std::vector<float> expected(p.d.size(), -77.0f);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 5; ++j) {
      float sum = 2 * p.c[static_cast<std::size_t>(p.to[i]) * 5 + j];
      for (std::size_t k = 0; k < 4 && p.from[i] >= 0; ++k)
        sum += p.a[static_cast<std::size_t>(p.from[i]) * 4 + k] * p.b[k * 5 + j];
      expected[static_cast<std::size_t>(p.to[i]) * 5 + j] = sum;
    }
  }
  EXPECT_EQ(p.d, expected);
}

struct Refusal {
  Code code;
  std::vector<const char*> words;
  std::function<void(ContractionArguments&, Problem&)> spoil;
};

float* floats(void* data) { return static_cast<float*>(data); }

const Refusal kRefusals[] = {
    {Code::misaligned,
     {"index buffer of operand D", "4 bytes"},
     [](auto& g, auto& p) { g.d.slots.data = reinterpret_cast<const char*>(p.to.data()) + 2; }},
    {Code::misaligned,
     {"index buffer of operand A", "8 bytes"},
     [](auto& g, auto& p) {
       g.a.slots = {reinterpret_cast<const char*>(p.from.data()) + 4, DType::i64};
     }},
    {Code::misaligned,
     {"operand C", "4 bytes"},
     [](auto& g, auto& p) {
       g.beta = 1;
       g.c.data = reinterpret_cast<char*>(p.c.data()) + 1;
     }},
    {Code::unsupported,
     {"index buffer of operand A", "float32"},
     [](auto& g, auto&) { g.a.slots.dtype = DType::f32; }},
    {Code::bad_index,
     {"D [15 elements] is written twice", "index 1 is 4 once more"},
     [](auto&, auto& p) { p.to[1] = 4; }},
    {Code::bad_index,
     {"written twice", "entries reach each other's elements"},
     [](auto& g, auto&) { g.d.slot_pitch = 2; }},
    {Code::bad_index,
     {"written twice", "entries reach each other's elements"},
     [](auto& g, auto&) { g.modes[0].slot.d = 0, g.modes[1].slot.d = 0, g.modes[1].stride.d = 1; }},
    {Code::bad_index,
     {"index 2 of operand D is 6", "limit is 6"},
     [](auto& g, auto&) { g.d.slot_limit = 6; }},
    {Code::bad_index, {"index 1 of operand D is -1"}, [](auto&, auto& p) { p.to[1] = -1; }},
    {Code::overlap, {"D overlaps operand A"}, [](auto& g, auto&) { g.a.data = g.d.data; }},
    {Code::overlap,
     {"D overlaps operand B"},
     [](auto& g, auto& p) { g.b.data = p.d.data() + 6 * 5 + 4; }},
    {Code::overlap,
     {"D overlaps operand C without being the same tensor"},
     [](auto& g, auto&) {
       g.beta = 1;
       g.c.data = floats(g.d.data) + 1;
     }},
    // At D's own address, but by other rows.
    {Code::overlap,
     {"D overlaps operand C without being the same tensor"},
     [](auto& g, auto& p) {
       g.beta = 1;
       g.c.data = g.d.data;
       g.c.slots.data = p.from.data();
     }},
    {Code::overlap,
     {"D overlaps operand C without being the same tensor"},
     [](auto& g, auto&) {
       g.beta = 1;
       g.c.data = g.d.data;
       g.c.slots = {};
       g.modes[0].stride.c = 5;
     }},
    {Code::overlap,
     {"D overlaps the index buffer of operand A"},
     [](auto& g, auto& p) {
       std::memcpy(p.d.data() + 10, p.from.data(), 4 * sizeof(std::int32_t));
       g.a.slots.data = p.d.data() + 10;
     }},
    {Code::overlap,
     {"D overlaps the index buffer of operand D"},
     [](auto& g, auto& p) {
       std::memcpy(p.d.data() + 10, p.to.data(), 4 * sizeof(std::int32_t));
       g.d.slots.data = p.d.data() + 10;
     }},
    {Code::null_operand,
     {"operand C is null", "beta is 3"},
     [](auto& g, auto&) {
       g.beta = 3;
       g.c.data = nullptr;
     }},
    {Code::invalid_extent,
     {"operand D spans more than"},
     [](auto& g, auto&) { g.d.slot_pitch = std::numeric_limits<std::int64_t>::max(); }},
    {Code::invalid_extent,
     {"operand A spans more than"},
     [](auto& g, auto&) { g.a.slot_pitch = std::numeric_limits<std::int64_t>::min(); }},
    {Code::invalid_extent, {"slots of operand A"}, [](auto& g, auto&) { g.modes[0].slot.a = -1; }},
    {Code::invalid_extent,
     {"extents of A multiply to more than 2^59"},
     [](auto& g, auto&) {
       g.modes[2].extent = std::int64_t{1} << 59;
       g.modes[2].stride = {};
     }},
    {Code::invalid_extent,
     {"extents of B multiply to more than 2^59"},
     [](auto& g, auto&) {
       g.modes[0].extent = 1;
       g.modes[2].extent = std::int64_t{1} << 58;
       g.modes[2].stride = {};
     }},
    {Code::unsupported,
     {"mode 1 has a stride in the operand"},
     [](auto& g, auto&) { g.modes[1].slot.a = 1; }},
    {Code::unsupported,
     {"mode 2 is summed over", "in C"},
     [](auto& g, auto&) { g.beta = 1, g.modes[2].stride.c = 1; }},
    {Code::invalid_extent, {"schedule", "0 splits"}, [](auto& g, auto&) { g.schedule.splits = 0; }},
};

TEST(ContractionMisuse, IsRefusedByNameAndLeavesTheOutputAlone) {
  for (const Refusal& refusal : kRefusals) {
    Problem p;
    ContractionArguments g = p.arguments();
    refusal.spoil(g, p);
    const std::vector<float> before = p.d;
    const GemmStatus can = Contraction::can_implement(g), ran = run(g);
    EXPECT_EQ(can.code, refusal.code) << refusal.words[0] << ": " << can.message;
    EXPECT_EQ(ran.code, refusal.code) << ran.message;
    EXPECT_EQ(Contraction::workspace_size(g), 0u);
    for (const char* word : refusal.words)
      EXPECT_NE(can.message.find(word), std::string::npos) << word << ": " << can.message;
    EXPECT_EQ(std::memcmp(p.d.data(), before.data(), before.size() * sizeof(float)), 0);
  }
}

// A limit says how large a buffer may be: it may be the largest number there is.
TEST(ContractionMisuse, AnyLimitTellsRepeatedEntriesOfDApart) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t limit : {std::int64_t{7}, std::int64_t{1} << 40, kMost}) {
    Problem p;
    ContractionArguments g = p.arguments();
    g.a.slot_limit = g.d.slot_limit = limit;
    if (limit < 8) p.from[0] = 1;
    EXPECT_TRUE(Contraction::can_implement(g).ok()) << Contraction::can_implement(g).message;
    p.to[2] = p.to[0];
    EXPECT_EQ(Contraction::can_implement(g).code, Code::bad_index) << limit;
  }
  // Entries that reach past every address.
  Problem p;
  ContractionArguments g = p.arguments();
  std::vector<std::int64_t> far{0, 1, kMost - 1, 0};
  g.d.slots = {far.data(), DType::i64};
  g.d.slot_limit = kMost;
  EXPECT_EQ(Contraction::can_implement(g).code, Code::invalid_extent);
}

// Against every element: whatever the modes do, a D that is written twice is refused, another one
// is not.
TEST(ContractionMisuse, RefusesExactlyTheListsThatWriteTwice) {
  std::mt19937 random(9);
  int refused = 0, accepted = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<std::int32_t> list(12);
    std::iota(list.begin(), list.end(), 0);
    std::shuffle(list.begin(), list.end(), random);
    if (random() % 3 == 0) list[random() % 4] = list[4 + random() % 4];
    std::vector<float> a(64), b(64), d(4096);
    ContractionArguments g;
    g.a = {a.data()};
    g.b = {b.data()};
    g.d = {d.data(), DType::f32, {list.data()}, static_cast<std::int64_t>(1 + random() % 9), 12};
    std::int64_t slot = 1, stride = 1;
    for (const ModeKind kind : {ModeKind::m, ModeKind::n, ModeKind::batch}) {
      gemm_core::ContractionMode mode{.kind = kind,
                                      .extent = static_cast<std::int64_t>(1 + random() % 3)};
      const std::int64_t shrunk = random() % 4 == 0 ? 1 : 0;
      if (random() % 2 == 0 && (slot - shrunk) * (mode.extent - 1) < 8) {
        mode.slot.d = std::max<std::int64_t>(0, slot - shrunk);
        slot *= mode.extent;
      }
      if (mode.slot.d == 0 || random() % 3 == 0) {
        mode.stride.d = std::max<std::int64_t>(0, stride - shrunk);
        stride *= mode.extent;
      }
      g.modes.push_back(mode);
    }
    std::int64_t high = 0;
    for (const auto& mode : g.modes) high += (mode.extent - 1) * mode.slot.d;
    if (high >= 12) continue;
    std::vector<int> writes(d.size());
    const auto &x = g.modes[0], &y = g.modes[1], &z = g.modes[2];
    bool twice = false;
    for (std::int64_t i = 0; i < x.extent; ++i) {
      for (std::int64_t j = 0; j < y.extent; ++j) {
        for (std::int64_t l = 0; l < z.extent; ++l) {
          const std::int64_t at =
              list[static_cast<std::size_t>(i * x.slot.d + j * y.slot.d + l * z.slot.d)] *
                  g.d.slot_pitch +
              i * x.stride.d + j * y.stride.d + l * z.stride.d;
          twice |= writes[static_cast<std::size_t>(at)]++ > 0;
        }
      }
    }
    const GemmStatus status = Contraction::can_implement(g);
    ASSERT_EQ(status.code, twice ? Code::bad_index : Code::success)
        << "trial " << trial << ": " << status.message;
    ++(twice ? refused : accepted);
  }
  EXPECT_GT(refused, 200);
  EXPECT_GT(accepted, 200);
}

TEST(ContractionMisuse, UpdatesCInPlaceThroughTheSameList) {
  Problem apart, same;
  ContractionArguments g = apart.arguments(), h = same.arguments();
  std::copy(apart.c.begin(), apart.c.end(), same.d.begin());
  g.beta = h.beta = 3;
  h.c.data = h.d.data;
  ASSERT_TRUE(run(g).ok());
  const GemmStatus status = run(h);
  ASSERT_TRUE(status.ok()) << status.message;
  for (const std::int32_t row : {4, 0, 6}) {
    for (std::int32_t j = 0; j < 5; ++j)
      EXPECT_EQ(same.d[static_cast<std::size_t>(row * 5 + j)],
                apart.d[static_cast<std::size_t>(row * 5 + j)]);
  }
}

TEST(ContractionMisuse, TablesBeyondMemoryAreAStatus) {
  if (base::kIsSanitized) GTEST_SKIP() << "a sanitizer ends programs that ask for so much";
  float values[3] = {1, 1, 0};  // D reaches away from A and B
  // Allowed by every limit: 2^44 rows that would need tables of 2^47 bytes.
  ContractionArguments g{.modes = {{ModeKind::m, std::int64_t{1} << 44, {.d = 1}}},
                         .a = {&values[0]},
                         .b = {&values[1]},
                         .d = {&values[2]}};
  const GemmStatus can = Contraction::can_implement(g);
  ASSERT_TRUE(can.ok()) << can.message;
  std::vector<std::uint8_t> workspace(Contraction::workspace_size(g));
  Contraction contraction;
  const GemmStatus status = contraction.initialize(g, workspace.data(), workspace.size());
  EXPECT_EQ(status.code, Code::unsupported);
  EXPECT_NE(status.message.find("no memory for tables of m 17592186044416"), std::string::npos)
      << status.message;
  EXPECT_EQ(contraction.run().code, Code::not_initialized);
}

}  // namespace
