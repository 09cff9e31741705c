// Arguments that no caller means: numbers at the ends of their types, results that meet in one
// call, features that do not go together. Every answer is a status.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "gemm_core/device/contraction.hpp"
#include "gemm_core/device/conv.hpp"
#include "gemm_core/device/reduction.hpp"
#include "gemm_core/device/sparse_gemm.hpp"
#include "gemm_core/epilogue/visitor_tree.hpp"
#include "tests/gemm_core/gemm_case.hpp"

namespace {

using base::DType;
using gemm_case::Problem;
using gemm_core::Contraction;
using gemm_core::ContractionArguments;
using gemm_core::Conv;
using gemm_core::ConvArguments;
using gemm_core::ConvOperation;
using gemm_core::Gemm;
using gemm_core::GemmArguments;
using gemm_core::GemmStatus;
using gemm_core::GroupedGemm;
using gemm_core::Reduction;
using gemm_core::ReductionArguments;
using Code = GemmStatus::Code;

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min(),
                       kMost = std::numeric_limits<std::int64_t>::max();

// A number that is as likely small as at an end.
std::int64_t wild(std::mt19937& random) {
  constexpr std::int64_t kNumbers[] = {kLeast,
                                       kLeast + 1,
                                       -(std::int64_t{1} << 40),
                                       -3,
                                       -1,
                                       0,
                                       0,
                                       1,
                                       1,
                                       2,
                                       5,
                                       16,
                                       std::int64_t{1} << 31,
                                       std::int64_t{1} << 40,
                                       std::int64_t{1} << 53,
                                       std::int64_t{1} << 59,
                                       std::int64_t{1} << 62,
                                       kMost};
  return kNumbers[random() % std::size(kNumbers)];
}

void expect(const GemmStatus& status, Code code, const std::vector<const char*>& words) {
  EXPECT_EQ(status.code, code) << words[0] << ": " << status.message;
  for (const char* word : words)
    EXPECT_NE(status.message.find(word), std::string::npos) << word << ": " << status.message;
}

// Whatever the numbers are, the answer is a status, and a workspace that can be had or none.
template <class Operation, class Arguments>
void expect_answer(const Arguments& g, int& accepted) {
  const GemmStatus status = Operation::can_implement(g);
  EXPECT_EQ(status.ok(), status.message.empty());
  if (!status.ok()) return;
  ++accepted;
  if constexpr (requires { Operation::workspace_size(g); }) {
    EXPECT_LT(Operation::workspace_size(g), std::size_t{1} << 62);
  }
}

TEST(Hostile, GemmAnswersToAnyNumbers) {
  std::mt19937 random(1);
  alignas(16) static std::uint8_t a[64], b[64], c[64], d[64];
  constexpr DType kTypes[] = {DType::f32, DType::f16,  DType::i8, DType::i4,
                              DType::f64, DType::c128, DType::b1};
  int accepted = 0;
  for (int trial = 0; trial < 200000; ++trial) {
    GemmArguments g;
    const auto number = [&] { return random() % 3 == 0 ? wild(random) : 1 + random() % 5; };
    g.m = static_cast<std::int64_t>(number()), g.n = static_cast<std::int64_t>(number());
    g.k = static_cast<std::int64_t>(number()), g.batch = random() % 2 ? 1 : wild(random);
    const DType type = kTypes[random() % std::size(kTypes)];
    g.compute = type == DType::i4 || type == DType::b1 ? DType::f32 : type;
    g.a = {a, type, wild(random), wild(random), wild(random)};
    g.b = {b, type, wild(random), wild(random), wild(random)};
    const DType result = type == DType::i8                        ? DType::i32
                         : type == DType::i4 || type == DType::b1 ? DType::f32
                                                                  : type;
    g.c = {c, result, wild(random), wild(random), wild(random)};
    g.d = {d, result, wild(random), wild(random), wild(random)};
    g.beta = random() % 2 ? 1 : 0;
    if (random() % 4 == 0) g.schedule.splits = wild(random);
    if (random() % 4 == 0) g.schedule.processors = wild(random);
    if (random() % 4 == 0) g.schedule.decomposition = kernel::Decomposition::split_k;
    if (random() % 8 == 0) g.tiling.tile_m = wild(random);
    if (random() % 8 == 0) g.tiling.tile_n = wild(random);
    if (random() % 8 == 0)
      g.a.scale = {.data = c,
                   .row_stride = wild(random),
                   .column_stride = wild(random),
                   .row_group = wild(random),
                   .column_group = wild(random)};
    if (random() % 16 == 0) g.a.metadata = c, g.a.metadata_pitch = wild(random);
    expect_answer<Gemm>(g, accepted);
  }
  EXPECT_GT(accepted, 100);
}

TEST(Hostile, ContractionAnswersToAnyNumbers) {
  std::mt19937 random(2);
  static float a[16], b[16], c[16], d[16];
  std::vector<std::int32_t> list(64);
  std::iota(list.begin(), list.end(), 0);
  int accepted = 0;
  for (int trial = 0; trial < 100000; ++trial) {
    ContractionArguments g;
    for (std::size_t i = random() % 4; i > 0; --i) {
      g.modes.push_back({static_cast<gemm_core::ModeKind>(random() % 4),
                         random() % 2 ? static_cast<std::int64_t>(1 + random() % 3) : wild(random),
                         {wild(random), wild(random), wild(random), wild(random)}});
      auto& mode = g.modes.back();
      if (mode.kind == gemm_core::ModeKind::m) mode.stride.b = 0;
      if (mode.kind == gemm_core::ModeKind::n) mode.stride.a = 0;
      if (mode.kind == gemm_core::ModeKind::k) mode.stride.d = mode.stride.c = 0;
    }
    g.a = {a}, g.b = {b}, g.c = {c}, g.d = {d};
    g.beta = random() % 2 ? 1 : 0;
    const bool is_small = std::all_of(g.modes.begin(), g.modes.end(),
                                      [](const auto& mode) { return mode.extent < 8; });
    if (is_small && random() % 2) {
      for (auto* o : {&g.a, &g.d}) {
        o->slots = {list.data()};
        o->slot_pitch = wild(random);
        o->slot_limit = random() % 2 ? 64 : wild(random);
      }
      for (auto& mode : g.modes) {
        if (mode.kind != gemm_core::ModeKind::n) mode.slot.a = random() % 3;
        if (mode.kind != gemm_core::ModeKind::k) mode.slot.d = random() % 3;
      }
    }
    expect_answer<Contraction>(g, accepted);
  }
  EXPECT_GT(accepted, 100);
}

TEST(Hostile, ConvolutionAnswersToAnyNumbers) {
  std::mt19937 random(3);
  static float a[16], b[16], c[16], d[16];
  int accepted = 0;
  for (int trial = 0; trial < 100000; ++trial) {
    ConvArguments g;
    g.operation = static_cast<ConvOperation>(random() % 3);
    auto& p = g.problem;
    const auto number = [&]() -> std::int64_t {
      const auto which = random() % 8;
      return which == 0   ? wild(random)
             : which == 1 ? std::int64_t{1} << (random() % 30)
                          : 1 + which % 3;
    };
    p.axes = random() % 16 == 0 ? static_cast<int>(wild(random)) : 3;
    p.batch = number(), p.channels = number(), p.filters = number(),
    p.groups = random() % 4 ? 1 : number();
    for (std::size_t i = 0; i < 3; ++i) {
      p.input[i] = number(), p.kernel[i] = number(), p.lower[i] = number();
      p.upper[i] = number(), p.stride[i] = number(), p.dilation[i] = number();
    }
    g.a = {a}, g.b = {b}, g.c = {c}, g.d = {d};
    for (auto* t : {&g.a, &g.b, &g.c, &g.d}) {
      if (random() % 4) continue;
      *t = {t->data,
            DType::f32,
            wild(random),
            {wild(random), wild(random), wild(random)},
            wild(random)};
    }
    g.beta = random() % 2 ? 1 : 0;
    g.path = random() % 2 ? ConvArguments::Path::general : ConvArguments::Path::automatic;
    expect_answer<Conv>(g, accepted);
  }
  EXPECT_GT(accepted, 100);
}

TEST(Hostile, ReductionAnswersToAnyNumbers) {
  std::mt19937 random(4);
  static double in[16], out[16];
  constexpr DType kTypes[] = {DType::f32, DType::f64, DType::i32};
  int accepted = 0;
  for (int trial = 0; trial < 100000; ++trial) {
    ReductionArguments g;
    for (std::size_t i = random() % 4; i > 0; --i) {
      g.modes.push_back({random() % 2 ? static_cast<std::int64_t>(random() % 3) : wild(random),
                         wild(random), wild(random), random() % 2 == 0});
      if (!g.modes.back().kept) g.modes.back().out = 0;
    }
    const DType type = kTypes[random() % 3];
    g.input = {in, type};
    g.output = {out, type};
    expect_answer<Reduction>(g, accepted);
  }
  EXPECT_GT(accepted, 100);
}

TEST(Hostile, ReductionsOfWrappedAndEmptyExtents) {
  float in[4] = {1, 2, 3, 4}, out[4] = {9, 9, 9, 9};
  constexpr std::int64_t kHalf = std::int64_t{1} << 32;
  ReductionArguments g{.modes = {{kHalf, 0, 0, true}, {kHalf, 0, 0, true}}};
  g.input = {in}, g.output = {out};
  expect(Reduction::can_implement(g), Code::invalid_extent, {"mode 1", "2^59"});
  g.modes = {{0, 1, 1, true}, {-2, 1, 0, false}};
  expect(Reduction::can_implement(g), Code::invalid_extent, {"mode 1 has extent -2"});
  // Nothing to reduce: the input is not there, and the result is the identity.
  g.modes = {{0, 1, 0, false}, {3, 1, 1, true}};
  g.input.data = nullptr;
  Reduction reduction;
  const GemmStatus status = reduction.initialize(g);
  ASSERT_TRUE(status.ok()) << status.message;
  ASSERT_TRUE(reduction.run().ok());
  EXPECT_EQ(std::vector<float>(out, out + 4), (std::vector<float>{0, 0, 0, 9}));
}

TEST(Hostile, GemmRefusesWhatItsMainloopDoesNotRead) {
  Problem p({.m = 8, .n = 8, .k = 8});
  const GemmArguments plain = p.arguments();
  std::vector<std::uint8_t> metadata(64, 0x44);
  std::vector<std::int32_t> list{0, 1, 2, 3, 4, 5, 6, 7};
  GemmArguments g = plain;
  g.a.metadata = metadata.data();
  g.a.metadata_pitch = 1;
  EXPECT_TRUE(Gemm::can_implement(g).ok()) << Gemm::can_implement(g).message;
  g.a.rows = {{list.data()}, 8};
  expect(Gemm::can_implement(g), Code::unsupported, {"structured sparse A", "row or column"});
  g.a.rows = {};
  g.a.columns = {{list.data()}, 8};
  expect(Gemm::can_implement(g), Code::unsupported, {"structured sparse A", "row or column"});
  g.a.columns = {};
  g.a.metadata_pitch = kMost;
  expect(Gemm::can_implement(g), Code::invalid_extent, {"metadata of operand A", "2^59"});
  // B with metadata, at A's address.
  g = plain;
  g.b.data = g.a.data;
  g.b.metadata = metadata.data();
  g.b.metadata_pitch = 8;
  expect(Gemm::can_implement(g), Code::unsupported, {"operand B has metadata"});
  // Operands of few bytes whose packed form no memory holds.
  float one = 1;
  g = plain;
  g.m = g.n = 1, g.k = std::int64_t{1} << 57;
  g.a = {&one, DType::f32, 0, 0};
  g.b = {&one, DType::f32, 0, 0};
  expect(Gemm::can_implement(g), Code::invalid_extent, {"packed exceeds 2^62 bytes"});
}

TEST(Hostile, ResultsOfPointerArraysMayInterleaveButNotMeet) {
  constexpr std::int64_t kM = 6, kN = 4, kK = 5, kHeads = 3, kPitch = kN * kHeads;
  std::vector<float> a(kM * kK, 1), b(kK * kN, 2), d(kM * kPitch, -1);
  const void* as[kHeads] = {a.data(), a.data(), a.data()};
  const void* bs[kHeads] = {b.data(), b.data(), b.data()};
  void* ds[kHeads] = {d.data(), d.data() + kN, d.data() + 2 * kN};
  GemmArguments g{.m = kM, .n = kN, .k = kK, .batch = kHeads};
  g.a = {nullptr, DType::f32, kK};
  g.b = {nullptr, DType::f32, kN};
  g.d = {nullptr, DType::f32, kPitch};
  g.a.pointers = as, g.b.pointers = bs, g.d.pointers = ds;
  std::vector<std::uint8_t> workspace(Gemm::workspace_size(g));
  Gemm gemm;
  const GemmStatus status = gemm.initialize(g, workspace.data(), workspace.size());
  ASSERT_TRUE(status.ok()) << status.message;
  ASSERT_TRUE(gemm.run().ok());
  EXPECT_EQ(d, std::vector<float>(kM * kPitch, 10));
  ds[2] = d.data() + 2 * kN - 1;
  expect(Gemm::can_implement(g), Code::overlap, {"operand D of batch 1 overlaps that of batch 2"});
  ds[2] = d.data();
  expect(Gemm::can_implement(g), Code::overlap, {"batch 0", "batch 2"});
}

// Against every element: two results in one buffer, of any size and place.
TEST(Hostile, ResultsOfGroupsAreRefusedWhereTheyMeetAndNowhereElse) {
  std::mt19937 random(6);
  constexpr std::int64_t kK = 2;
  std::vector<float> a(64), b(64), d(400);
  int refused = 0, accepted = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const auto pitch = static_cast<std::int64_t>(3 + random() % 12);
    const bool is_turned = random() % 2;
    std::vector<GemmArguments> groups(2 + random() % 2);
    std::vector<int> writes(d.size());
    bool meets = false;
    for (GemmArguments& g : groups) {
      g.m = static_cast<std::int64_t>(1 + random() % 6);
      g.n = static_cast<std::int64_t>(1 + random() % 3), g.k = kK;
      if (random() % 4 == 0) g.m = 1, g.n = static_cast<std::int64_t>(1 + random() % 20);
      if (is_turned) std::swap(g.m, g.n);
      g.a = {a.data(), DType::f32, kK};
      g.b = {b.data(), DType::f32, g.n};
      const std::int64_t at = random() % 200;
      g.d = {d.data() + at, DType::f32, is_turned ? 1 : pitch, is_turned ? pitch : 1};
      for (std::int64_t i = 0; i < g.m; ++i) {
        for (std::int64_t j = 0; j < g.n; ++j)
          meets |=
              writes[static_cast<std::size_t>(at + i * g.d.row_stride + j * g.d.column_stride)]++ >
              0;
      }
    }
    const GemmStatus status = GroupedGemm::can_implement(groups);
    ASSERT_EQ(status.code, meets ? Code::overlap : Code::success)
        << "trial " << trial << ": " << status.message;
    ++(meets ? refused : accepted);
  }
  EXPECT_GT(refused, 300);
  EXPECT_GT(accepted, 300);
}

TEST(Hostile, GroupsThatReadWhatOthersWriteAreRefused) {
  Problem first({}), second({});
  std::vector<GemmArguments> groups{first.arguments(), second.arguments()};
  const auto refusal = [&](auto spoil, const std::vector<const char*>& words) {
    std::vector<GemmArguments> bad = groups;
    spoil(bad[1]);
    expect(GroupedGemm::can_implement(bad),
           words[0] == std::string("visitor") ? Code::unsupported : Code::overlap, words);
  };
  ASSERT_TRUE(GroupedGemm::can_implement(groups).ok());
  void* const d = groups[0].d.data;
  refusal([&](auto& g) { g.a.data = d; }, {"D of group 0 overlaps operand A of group 1"});
  refusal([&](auto& g) { g.b.data = d; }, {"D of group 0 overlaps operand B of group 1"});
  refusal([&](auto& g) { g.d.data = d; }, {"D of group 0 overlaps operand D of group 1"});
  refusal(
      [&](auto& g) {
        g.beta = 1, g.c = {d, DType::f32, g.d.row_stride};
      },
      {"D of group 0 overlaps operand C of group 1"});
  using namespace gemm_core::visitor;  // NOLINT: a test file
  VisitorEpilogue one(tree(Accumulator{}));
  groups[0].visitor = &one;
  refusal([&](auto& g) { g.visitor = &one; }, {"visitor", "group 1", "another group"});
}

TEST(Hostile, ConvolutionsNearTheLimitsOfNumbersAreRefusedByName) {
  float values[64] = {};
  ConvArguments g;
  g.problem = {.axes = 2, .channels = 4, .filters = 4, .input = {1, 5, 5}, .kernel = {1, 3, 3}};
  g.a = {values}, g.b = {values}, g.d = {values};
  const auto refusal = [&](auto spoil, Code code, const std::vector<const char*>& words) {
    ConvArguments bad = g;
    spoil(bad);
    expect(Conv::can_implement(bad), code, words);
  };
  refusal([](auto& x) { x.problem.kernel[1] = kMost, x.problem.dilation[1] = kMost; },
          Code::invalid_extent, {"axis 1"});
  refusal([](auto& x) { x.problem.dilation[1] = kLeast; }, Code::invalid_extent, {"axis 1"});
  refusal([](auto& x) { x.problem.upper[2] = kMost, x.problem.lower[2] = kMost; },
          Code::invalid_extent, {"axis 2"});
  refusal(
      [](auto& x) {
        x.problem.channels = x.problem.filters = 1 << 29, x.problem.input = {1, 1 << 15, 1 << 15};
      },
      Code::invalid_extent, {"the activation", "2^50"});
  refusal(
      [](auto& x) {
        x.problem.input[1] = 1 << 29, x.problem.input[2] = 3, x.problem.channels = 1;
        x.a.outer_stride = x.a.channel_stride = 1;
        x.a.axis_strides = {0, std::int64_t{1} << 40, 0};
      },
      Code::invalid_extent, {"operand A spans more than 2^62 bytes"});
  // Without a batch, the gradient of a filter reads neither operand, and is zero.
  std::vector<float> filter(4 * 9 * 4, 7);
  ConvArguments empty = g;
  empty.operation = ConvOperation::filter_gradient;
  empty.problem.batch = 0;
  empty.a.data = empty.b.data = nullptr;
  empty.d = {filter.data()};
  std::vector<std::uint8_t> workspace(Conv::workspace_size(empty));
  Conv conv;
  const GemmStatus status = conv.initialize(empty, workspace.data(), workspace.size());
  ASSERT_TRUE(status.ok()) << status.message;
  ASSERT_TRUE(conv.run().ok());
  EXPECT_EQ(filter, std::vector<float>(filter.size(), 0));
}

TEST(Hostile, CompressingWhatIsNoMatrixIsAnError) {
  float values[8] = {1, 0, 0, 2, 0, 3, 4, 0};
  const auto compress = [&](gemm_core::DenseRows rows) { (void)gemm_core::compress_2to4(rows); };
  EXPECT_NO_THROW(compress({values, DType::f32, 2, 4, 4}));
  EXPECT_THROW(compress({values, DType::f32, kMost, 4, 4}), base::Error);
  EXPECT_THROW(compress({values, DType::f32, 2, 4, kMost}), base::Error);
  EXPECT_THROW(compress({values, DType::f32, 4, kMost - 3, 4}), base::Error);
  EXPECT_THROW(compress({reinterpret_cast<char*>(values) + 1, DType::f32, 2, 4, 4}), base::Error);
  EXPECT_THROW(compress({values, DType::f32, -1, 4, 4}), base::Error);
}

}  // namespace
