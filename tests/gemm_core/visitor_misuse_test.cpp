// Visitor trees whose nodes are misaligned, or write where something else is read or written, or
// read where D is written: refused by node, with the output left alone.
#include <cstring>

#include "gemm_core/epilogue/visitor_tree.hpp"
#include "tests/gemm_core/gemm_case.hpp"

namespace {

using namespace gemm_core::visitor;  // NOLINT: a test file
using base::DType;
using gemm_case::Case;
using gemm_case::Problem;
using gemm_core::ElementwiseOp;
using gemm_core::Gemm;
using gemm_core::GemmArguments;
using gemm_core::GemmStatus;
using Code = GemmStatus::Code;

GemmStatus run(const GemmArguments& g) {
  std::vector<std::uint8_t> workspace(Gemm::workspace_size(g));
  Gemm gemm;
  if (auto s = gemm.initialize(g, workspace.data(), workspace.size()); !s.ok()) return s;
  return gemm.run();
}

constexpr std::int64_t kM = 33, kN = 20, kBatch = 3;

struct Buffers {
  std::vector<float> matrix = std::vector<float>(kBatch * kM * kN + 64),
                     vector = std::vector<float>(kBatch * (kM + kN));
  float* odd() { return reinterpret_cast<float*>(reinterpret_cast<char*>(vector.data()) + 2); }
};

// The product with `root` behind it must be refused, by every word.
template <class Root>
void expect_refused(Problem& p, const GemmArguments& arguments, Root root, Code code,
                    const std::vector<const char*>& words) {
  VisitorEpilogue epilogue(std::move(root));
  GemmArguments g = arguments;
  g.visitor = &epilogue;
  const std::vector<std::uint8_t> a = p.a.bytes, b = p.b.bytes, c = p.c.bytes, d = p.d.bytes;
  const GemmStatus can = Gemm::can_implement(g), ran = run(g);
  EXPECT_EQ(can.code, code) << words[0] << ": " << can.message;
  EXPECT_EQ(ran.code, code) << ran.message;
  for (const char* word : words)
    EXPECT_NE(can.message.find(word), std::string::npos) << word << ": " << can.message;
  EXPECT_TRUE(p.a.bytes == a && p.b.bytes == b && p.c.bytes == c && p.d.bytes == d) << words[0];
}

float* floats(void* data) { return static_cast<float*>(data); }
Compute plus() { return {.op = ElementwiseOp::plus}; }

TEST(VisitorMisuse, MisalignedNodesAreRefusedByName) {
  Problem p({.m = kM, .n = kN});
  const GemmArguments g = p.arguments();
  Buffers x;
  float* const odd = x.odd();
  const auto expect = [&](auto node, const char* name) {
    expect_refused(p, g, tree(plus(), Accumulator{}, node), Code::misaligned,
                   {"epilogue node 1", name, "4 bytes"});
  };
  expect(MatrixLoad{.name = "skip", .matrix = {odd, DType::f32, kN, 1}}, "(skip)");
  expect(RowLoad{odd}, "(row)");
  expect(ColumnLoad{odd}, "(column)");
  expect(Scalar({{1.0f, odd, 0}}), "(scalar)");
  expect_refused(p, g, tree(MatrixStore{.data = odd, .row_stride = kN}, Accumulator{}),
                 Code::misaligned, {"(aux store)"});
  expect_refused(p, g, tree(Reduce{.out = odd}, Accumulator{}), Code::misaligned, {"(reduce)"});
  expect_refused(p, g, tree(Quantise{.scale = Scalar({{1.0f, odd, 0}})}, Accumulator{}),
                 Code::misaligned, {"(scalar)"});
  const auto source = [&](Scalar beta, const void* c) {
    return tree(AddScaledSource{.beta = std::move(beta),
                                .source = {.name = "C", .matrix = {c, DType::f32, kN, 1}}},
                Accumulator{});
  };
  expect_refused(p, g, source(Scalar({{1.0f, odd, 0}}), x.matrix.data()), Code::misaligned,
                 {"(scalar)"});
  expect_refused(p, g, source(2.0f, odd), Code::misaligned, {"(C)"});
  // Where beta is 0, C is not read: it may be anything.
  VisitorEpilogue unread(source(0.0f, odd));
  GemmArguments h = g;
  h.visitor = &unread;
  EXPECT_TRUE(run(h).ok());
}

TEST(VisitorMisuse, NodesThatReadAnotherPartOfDAreRefused) {
  Problem p({.m = kM, .n = kN});
  const GemmArguments g = p.arguments();
  float* const d = floats(g.d.data);
  const std::int64_t pitch = g.d.row_stride;
  const auto expect = [&](auto node, const char* name) {
    expect_refused(p, g, tree(plus(), Accumulator{}, node), Code::overlap,
                   {"operand D overlaps epilogue node 1", name});
  };
  expect(MatrixLoad{.matrix = {d + 1, DType::f32, pitch, 1}}, "(aux)");
  expect(MatrixLoad{.matrix = {d, DType::f32, pitch + 1, 1}}, "(aux)");
  expect(MatrixLoad{.matrix = {d, DType::f16, pitch, 1}}, "(aux)");
  expect(RowLoad{d}, "(row)");
  expect(ColumnLoad{d + (kM - 1) * pitch + kN - kM}, "(column)");
  expect(Scalar({{1.0f, d + 7, 0}}), "(scalar)");
  expect(MaskLoad{.data = reinterpret_cast<const std::uint8_t*>(d), .row_stride = 3}, "(mask)");
  // Through a list of rows.
  std::vector<std::int32_t> rows(kM, 0);
  rows[5] = 2;
  gemm_core::OperandAccess access;
  access.row_index = {rows.data()};
  expect(MatrixLoad{.matrix = {d - 2 * pitch, DType::f32, pitch, 1, &access}}, "(aux)");
  Buffers x;
  access.row_index = {};
  rows[5] = 0;
  access.row_index = {rows.data()};
  VisitorEpilogue apart(tree(plus(), Accumulator{},
                             MatrixLoad{.matrix = {x.matrix.data(), DType::f32, kN, 1, &access}}));
  GemmArguments h = g;
  h.visitor = &apart;
  EXPECT_TRUE(run(h).ok());
}

TEST(VisitorMisuse, ANodeThatReadsDItselfSeesWhatWasThere) {
  Problem apart({.m = 150, .n = 70, .k = 300}), same({.m = 150, .n = 70, .k = 300});
  const std::vector<std::uint8_t> before = apart.d.bytes;
  const auto run_with = [](Problem& p, const void* data) {
    VisitorEpilogue epilogue(
        tree(plus(), Accumulator{},
             MatrixLoad{.matrix = {data, DType::f32, p.d.row_stride, p.d.column_stride}}));
    GemmArguments g = p.arguments();
    g.visitor = &epilogue;
    const GemmStatus status = run(g);
    EXPECT_TRUE(status.ok()) << status.message;
  };
  const auto offset = static_cast<std::uint8_t*>(apart.arguments().d.data) - apart.d.bytes.data();
  run_with(apart, before.data() + offset);
  run_with(same, same.arguments().d.data);
  EXPECT_EQ(apart.d.bytes, same.d.bytes);
}

TEST(VisitorMisuse, NodesThatWriteOverOperandsAreRefused) {
  // What a node stores, M x N, stays within each operand: beyond it may lie another one.
  Problem p({.m = kM, .n = kN, .k = 40});
  GemmArguments g = p.arguments();
  g.beta = 1;
  g.c = p.c.operand();
  std::vector<float> scale(kM * kN);
  g.a.scale = {.data = scale.data(), .row_stride = 1, .column_group = 1 << 20};
  const auto expect = [&](void* data, const char* operand) {
    const std::vector<const char*> words{operand, "overlaps epilogue node"};
    expect_refused(p, g, tree(MatrixStore{.data = data, .row_stride = kN}, Accumulator{}),
                   Code::overlap, words);
    expect_refused(p, g, tree(Reduce{.out = floats(data)}, Accumulator{}), Code::overlap, words);
    expect_refused(
        p, g,
        tree(MaskStore{.data = static_cast<std::uint8_t*>(data), .row_stride = 4}, Accumulator{}),
        Code::overlap, words);
  };
  expect(g.d.data, "operand D");
  expect(const_cast<void*>(g.a.data), "operand A");
  expect(const_cast<void*>(g.b.data), "operand B");
  expect(const_cast<void*>(g.c.data), "operand C");
  expect(scale.data(), "scales of operand A");
}

TEST(VisitorMisuse, NodesThatWriteOverEachOtherAreRefused) {
  Problem p({.m = kM, .n = kN});
  const GemmArguments g = p.arguments();
  Buffers x;
  float* const m = x.matrix.data();
  const auto store = [&](float* data) { return MatrixStore{.data = data, .row_stride = kN}; };
  expect_refused(p, g, tree(store(m + 1), tree(store(m), Accumulator{})), Code::overlap,
                 {"node 1 (aux store) overlaps epilogue node 2 (aux store)"});
  expect_refused(p, g, tree(store(m), tree(store(m), Accumulator{})), Code::overlap,
                 {"(aux store)"});
  expect_refused(p, g,
                 tree(Reduce{.axis = ReductionAxis::rows, .out = m}, tree(store(m), Accumulator{})),
                 Code::overlap, {"(aux store)", "(reduce)"});
  const auto load = [&](float* data) { return MatrixLoad{.matrix = {data, DType::f32, kN, 1}}; };
  expect_refused(p, g, tree(store(m), tree(plus(), Accumulator{}, load(m + kN))), Code::overlap,
                 {"(aux store) overlaps", "(aux)"});
  // The same matrix, read and written element by element, is an update in place.
  std::vector<float> before = x.matrix;
  VisitorEpilogue update(tree(store(m), tree(plus(), Accumulator{}, load(m))));
  GemmArguments h = g;
  h.visitor = &update;
  ASSERT_TRUE(run(h).ok());
  for (std::int64_t i = 0; i < kM; ++i) {
    for (std::int64_t j = 0; j < kN; ++j) EXPECT_EQ(m[i * kN + j], static_cast<float>(p.d(i, j)));
  }
}

TEST(VisitorMisuse, BatchesThatShareAStoreAndStridesPastEveryNumberAreRefused) {
  Problem p({.m = kM, .n = kN, .batch = kBatch});
  const GemmArguments g = p.arguments();
  Buffers x;
  float* const m = x.matrix.data();
  constexpr std::int64_t kFar = std::int64_t{1} << 60,
                         kLeast = std::numeric_limits<std::int64_t>::min();
  expect_refused(p, g, tree(MatrixStore{.data = m, .row_stride = kN}, Accumulator{}),
                 Code::unsupported, {"aux store", "batch stride 0", "overlap itself"});
  expect_refused(p, g,
                 tree(MatrixStore{.data = m, .row_stride = kN, .batch_stride = kN}, Accumulator{}),
                 Code::unsupported, {"aux store", "batch stride 20"});
  auto* const bytes = reinterpret_cast<std::uint8_t*>(m);
  expect_refused(p, g, tree(MaskStore{.data = bytes, .row_stride = 3}, Accumulator{}),
                 Code::unsupported, {"mask store", "batch stride 0"});
  expect_refused(
      p, g,
      tree(Reduce{.axis = ReductionAxis::columns, .out = m, .batch_stride = kM - 1}, Accumulator{}),
      Code::unsupported, {"reduce", "batch stride 32", "33 values"});
  expect_refused(p, g, tree(MatrixStore{.data = m, .row_stride = kFar}, Accumulator{}),
                 Code::invalid_extent, {"aux store", "2^59"});
  expect_refused(p, g, tree(MatrixStore{.data = m, .row_stride = kLeast}, Accumulator{}),
                 Code::invalid_extent, {"aux store", "2^59"});
  expect_refused(p, g, tree(plus(), Accumulator{}, RowLoad{m, kFar}), Code::invalid_extent,
                 {"(row)", "2^59"});
}

}  // namespace
