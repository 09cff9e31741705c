// From graphs to the programs that kernels run: arithmetic of the host, which needs no device.
#include "gemm_core/device/cuda/visitor/visitor_lowering.hpp"

#include <gtest/gtest.h>

#include "gemm_core/epilogue/visitor_aliases.hpp"
#include "gemm_core/epilogue/visitor_description.hpp"

namespace {

using namespace gemm_core::visitor;  // NOLINT: a test file
using base::DType;
using gemm_core::ElementwiseOp;
using gemm_core::GemmArguments;
using gemm_core::GemmStatus;
using gemm_core::VisitorKind;
using gemm_core::cuda::common_epilogue_of;
using gemm_core::cuda::lower_visitor;
using gemm_core::cuda::LoweredVisitor;

constexpr std::int64_t kM = 64, kN = 128;
alignas(16) float numbers[kM * kN];  // pointers that nobody follows

Compute compute(ElementwiseOp op) { return {.op = op}; }
GemmArguments arguments() { return {.m = kM, .n = kN, .k = 32}; }

LoweredVisitor lowered(const GemmArguments& g, const RuntimeGraph& graph) {
  LoweredVisitor to;
  const GemmStatus status = lower_visitor(g, graph, to);
  EXPECT_TRUE(status.ok()) << status.message;
  return to;
}
template <class Root>
LoweredVisitor lowered(const Root& root) {
  return lowered(arguments(), describe(root));
}

TEST(CudaVisitorLowering, FindsTheCommonForms) {
  const RowLoad row{numbers}, other{numbers + kN};
  const MatrixLoad residual{.matrix = {numbers, DType::f32, kN, 1}};
  float amax = 0;
  const auto biased = tree(compute(ElementwiseOp::plus), row, Accumulator{});
  const auto active = tree(compute(ElementwiseOp::silu), biased);
  for (const bool residual_first : {false, true}) {
    const auto sum = residual_first
                         ? describe(tree(compute(ElementwiseOp::plus), residual, active))
                         : describe(tree(compute(ElementwiseOp::plus), active, residual));
    const LoweredVisitor l = lowered(arguments(), sum);
    const auto c = common_epilogue_of(l.program, 1);
    ASSERT_TRUE(c.has_value());
    EXPECT_EQ(c->shift->data, numbers);
    EXPECT_EQ(c->scale, nullptr);
    EXPECT_EQ(c->activation, ElementwiseOp::silu);
    ASSERT_NE(c->residual, nullptr);
    EXPECT_EQ(c->residual->kind, VisitorKind::matrix);
    EXPECT_EQ(c->amax, nullptr);
  }
  const LoweredVisitor l =
      lowered(tree(Reduce{.reduction = Reduction::amax, .out = &amax},
                   tree(compute(ElementwiseOp::relu),
                        tree(compute(ElementwiseOp::multiply_add), Accumulator{}, row, other))));
  const auto c = common_epilogue_of(l.program, 1);
  ASSERT_TRUE(c.has_value());
  EXPECT_EQ(c->scale->data, numbers);
  EXPECT_EQ(c->shift->data, numbers + kN);
  EXPECT_EQ(c->amax, &amax);
  const auto scaled = common_epilogue_of(lowered(scaled_accumulator(1.5f)).program, 1);
  ASSERT_TRUE(scaled.has_value());
  EXPECT_EQ(scaled->alpha.value, 1.5f);
  EXPECT_TRUE(common_epilogue_of(lowered(tree(Accumulator{})).program, 1).has_value());
}

TEST(CudaVisitorLowering, LeavesOtherFormsToTheInterpreter) {
  const RowLoad row{numbers};
  const ColumnLoad column{numbers};
  const MatrixLoad residual{.matrix = {numbers, DType::f32, kN, 1}};
  float amax[4] = {};
  const Reduce reduce{.reduction = Reduction::amax, .out = amax};
  const auto plus = compute(ElementwiseOp::plus);
  const auto is_common = [](const auto& root, std::int64_t batch = 1) {
    return common_epilogue_of(lowered(root).program, batch).has_value();
  };
  EXPECT_FALSE(is_common(tree(plus, Accumulator{}, column)));
  // What is stored on the way, a magnitude taken before the residual, a sum instead of a magnitude.
  EXPECT_FALSE(is_common(tree(MatrixStore{.data = numbers, .row_stride = kN}, Accumulator{})));
  EXPECT_FALSE(is_common(tree(plus, tree(reduce, Accumulator{}), residual)));
  EXPECT_FALSE(is_common(tree(Reduce{.out = amax}, Accumulator{})));
  EXPECT_FALSE(is_common(
      tree(Compute{.op = ElementwiseOp::plus, .output = DType::bf16}, Accumulator{}, row)));
  EXPECT_FALSE(is_common(tree(compute(ElementwiseOp::minus), Accumulator{}, row)));
  EXPECT_FALSE(is_common(tree(plus, Accumulator{}, Accumulator{})));
  // Batches with magnitudes of their own.
  const auto own =
      tree(Reduce{.reduction = Reduction::amax, .out = amax, .batch_stride = 1}, Accumulator{});
  EXPECT_TRUE(is_common(own, 1));
  EXPECT_FALSE(is_common(own, 4));
}

TEST(CudaVisitorLowering, NullLoadsAreNumbersAndNullStoresAreNothing) {
  const LoweredVisitor l =
      lowered(tree(compute(ElementwiseOp::plus),
                   tree(MatrixStore{}, tree(Reduce{}, tree(MaskStore{}, Accumulator{}))),
                   MatrixLoad{.null_default = 2.5f}));
  ASSERT_EQ(l.program.count, 3);
  EXPECT_EQ(l.program.nodes[0].kind, VisitorKind::accumulator);
  EXPECT_EQ(l.program.nodes[1].kind, VisitorKind::scalar);
  EXPECT_EQ(l.program.factor[l.program.nodes[1].first_factor].value, 2.5f);
  EXPECT_EQ(l.program.nodes[2].kind, VisitorKind::compute);
  EXPECT_EQ(l.program.reductions, 0);
  EXPECT_EQ(l.program.result, 2);
}

TEST(CudaVisitorLowering, PutsAlphaBetaAndCFirst) {
  GemmArguments g = arguments();
  g.alpha = 2;
  g.beta = 3;
  g.c = {numbers, DType::f32, kN, 1};
  const LoweredVisitor l = lowered(g, describe(tree(compute(ElementwiseOp::relu), Accumulator{})));
  ASSERT_EQ(l.program.count, 5);
  const VisitorKind kinds[] = {VisitorKind::accumulator, VisitorKind::scalar, VisitorKind::compute,
                               VisitorKind::add_source, VisitorKind::compute};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(l.program.nodes[i].kind, kinds[i]) << i;
  EXPECT_EQ(l.program.nodes[2].op, ElementwiseOp::multiplies);
  EXPECT_EQ(l.program.nodes[3].inputs[0], 2);
  EXPECT_TRUE(l.program.nodes[3].pairs);
  EXPECT_EQ(l.program.nodes[4].inputs[0], 3);
  EXPECT_FALSE(common_epilogue_of(l.program, 1).has_value());
}

TEST(CudaVisitorLowering, KeepsValuesThatAreReadLater) {
  // d = relu(x) * x: x is read by the next step and by the one after; relu(x) only by the next.
  const LoweredVisitor l = lowered(graph(
      vertex(Accumulator{}), vertex(RowLoad{numbers}), vertex<0, 1>(compute(ElementwiseOp::plus)),
      vertex<2>(compute(ElementwiseOp::relu)), vertex<3, 2>(compute(ElementwiseOp::multiplies))));
  ASSERT_EQ(l.program.count, 5);
  EXPECT_TRUE(l.program.nodes[2].keeps);
  EXPECT_FALSE(l.program.nodes[3].keeps);
  EXPECT_FALSE(l.program.nodes[4].keeps);
}

TEST(CudaVisitorLowering, ReadsPairsOnlyWhereTheyAreAligned) {
  const auto pairs = [](const void* data, DType type, std::int64_t row_stride, std::int64_t n) {
    GemmArguments g = arguments();
    g.n = n;
    const RuntimeGraph graph = describe(tree(MatrixLoad{.matrix = {data, type, row_stride, 1}}));
    const LoweredVisitor l = lowered(g, graph);
    return l.program.nodes[l.program.count - 1].pairs;
  };
  EXPECT_TRUE(pairs(numbers, DType::f32, kN, kN));
  EXPECT_TRUE(pairs(numbers, DType::f16, kN, kN));
  EXPECT_FALSE(pairs(numbers + 1, DType::f32, kN, kN));
  EXPECT_TRUE(pairs(numbers + 1, DType::f16, kN, kN)) << "4 bytes are a pair of 16 bits";
  EXPECT_FALSE(pairs(numbers, DType::f32, kN + 1, kN));
  EXPECT_FALSE(pairs(numbers, DType::f32, kN, kN - 1)) << "the last column has no neighbour";
}

TEST(CudaVisitorLowering, RefusesByNodeName) {
  const auto message_of = [](const RuntimeGraph& graph) {
    LoweredVisitor to;
    const GemmStatus status = lower_visitor(arguments(), graph, to);
    EXPECT_FALSE(status.ok());
    return status.message;
  };
  const auto expect = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(message_of(describe(linear_combination(1.0f, 2.0f, {.name = "C"}))),
         "node C (3): null, but beta is 2");
  expect(message_of(describe(
             linear_combination(1.0f, Scalar({{.value = 1, .pointer = numbers}}), {.name = "C"}))),
         "null, but beta is in device memory");
  expect(message_of(
             describe(tree(MatrixLoad{.name = "mask", .matrix = {numbers, DType::i32, kN, 1}}))),
         "node mask");
  expect(message_of(describe(tree(
             MaskLoad{.data = reinterpret_cast<const std::uint8_t*>(numbers), .row_stride = 3}))),
         "rows of 128 bits need 16 bytes");
  RuntimeGraph many;
  int value = many.add(Accumulator{});
  for (int i = 0; i < 8; ++i) value = many.add(Reduce{.out = numbers}, {value});
  expect(message_of(many), "more than 6 reductions");
  expect(message_of(RuntimeGraph{}), "has no nodes");
}

}  // namespace
