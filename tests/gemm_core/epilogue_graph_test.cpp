// Splits, graphs, gradients and masks, what epilogues refuse, and the order of visits.
#include "tests/gemm_core/epilogue_setting.hpp"

namespace {

using namespace epilogue_case;  // NOLINT: a test file

TEST(EpilogueVisitor, MasksHoldABitAnElementAndTheGradientReadsThem) {
  const Setting& s = setting();
  constexpr std::int64_t kPitch = (kN + 7) / 8 + 1;
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(kM * kPitch), 0xa5);
  const auto z = [&](auto i, auto, float acc) {
    return std::fma(2.0f, acc, s.column[static_cast<std::size_t>(i)]);
  };
  expect_values(linear_combination_row_bias_relu_mask(2.0f, 0.0f, {}, {s.column.data()},
                                                      {.data = mask.data(), .row_stride = kPitch}),
                [&](auto i, auto j, float acc) { return std::max(0.0f, z(i, j, acc)); });
  for (std::int64_t i = 0; i < kM; ++i) {
    for (std::int64_t j = 0; j < kN; ++j) {
      const bool bit = mask[static_cast<std::size_t>(i * kPitch + j / 8)] >> (j % 8) & 1;
      ASSERT_EQ(bit, z(i, j, s.plain[at(i, j)]) >= 0) << i << ", " << j;
    }
    ASSERT_EQ(mask[static_cast<std::size_t>(i * kPitch + kPitch - 1)], 0xa5)
        << "past the row " << i;
  }
  expect_values(linear_combination_relu_mask_gradient(1.0f, 0.0f, {},
                                                      {.data = mask.data(), .row_stride = kPitch}),
                [&](auto i, auto j, float acc) { return z(i, j, acc) >= 0 ? acc : 0.0f; });
  VisitorEpilogue refused(tree(MaskStore{.data = mask.data(), .row_stride = 3}, Accumulator{}));
  EXPECT_THROW(refused.check(kM, kN, 1), base::Error);
}

TEST(EpilogueVisitor, SplitGivesAllOutputsTheCommonValue) {
  const Setting& s = setting();
  std::vector<float> aux(static_cast<std::size_t>(kM * kN));
  AmaxAux out{.scale_d = 0.5f, .scale_aux = 2.0f};
  float amax_d = 0, amax_aux = 0;
  out.amax_d = {.reduction = Reduction::amax, .out = &amax_d};
  out.amax_aux = {.reduction = Reduction::amax, .out = &amax_aux};
  out.aux = {.data = aux.data(), .row_stride = kN};
  expect_values(scaled_linear_combination_row_bias_activation_amax_aux(
                    compute(ElementwiseOp::relu), 1.5f, 0.0f, {}, {s.column.data()}, out),
                [&](auto i, auto, float acc) {
                  return 0.5f *
                         std::max(0.0f, std::fma(1.5f, acc, s.column[static_cast<std::size_t>(i)]));
                });
  float want_d = 0, want_aux = 0;
  for (std::int64_t i = 0; i < kM; ++i) {
    for (std::int64_t j = 0; j < kN; ++j) {
      const float z = std::fma(1.5f, s.plain[at(i, j)], s.column[static_cast<std::size_t>(i)]);
      want_d = std::max(want_d, z);
      want_aux = std::max(want_aux, std::fabs(z));
      ASSERT_EQ(aux[at(i, j)], 2 * z);
    }
  }
  EXPECT_EQ(amax_d, want_d);
  EXPECT_EQ(amax_aux, want_aux);
}

TEST(EpilogueVisitor, GradientsAlsoGiveTheBiasGradient) {
  const Setting& s = setting();
  std::vector<float> sums(kM);
  expect_values(linear_combination_gradient_row_bias(compute(ElementwiseOp::d_relu), 1.0f, 0.0f, {},
                                                     s.auxiliary(), sums.data()),
                [&](auto i, auto j, float acc) { return s.aux[at(i, j)] > 0 ? acc : 0.0f; });
  for (std::int64_t i = 0; i < kM; ++i) {
    double sum = 0, magnitude = 0;
    for (std::int64_t j = 0; j < kN; ++j) {
      if (s.aux[at(i, j)] <= 0) continue;
      sum += s.plain[at(i, j)];
      magnitude += std::fabs(s.plain[at(i, j)]);
    }
    EXPECT_NEAR(sums[static_cast<std::size_t>(i)], sum, kN * std::ldexp(1.0, -24) * magnitude);
  }
}

TEST(EpilogueVisitor, GraphsShareVerticesAtCompileTimeAndAtRunTime) {
  const Setting& s = setting();
  // d = relu(acc + row) * (acc + row)
  const auto expected = [&](auto, auto j, float acc) {
    const float x = acc + s.row[static_cast<std::size_t>(j)];
    return (x < 0 ? 0.0f : x) * x;
  };
  expect_values(
      graph(vertex(Accumulator{}), vertex(RowLoad{s.row.data()}),
            vertex<0, 1>(compute(ElementwiseOp::plus)), vertex<2>(compute(ElementwiseOp::relu)),
            vertex<3, 2>(compute(ElementwiseOp::multiplies))),
      expected);
  RuntimeGraph built;
  const int acc = built.add(Accumulator{});
  const int row = built.add(RowLoad{s.row.data()});
  const int sum = built.add(compute(ElementwiseOp::plus), {acc, row});
  const int positive = built.add(compute(ElementwiseOp::relu), {sum});
  built.add(compute(ElementwiseOp::multiplies), {positive, sum});
  expect_values(built, expected);
  EXPECT_THROW(built.add(compute(ElementwiseOp::plus), {acc}), base::Error);
  EXPECT_THROW(built.add(compute(ElementwiseOp::relu), {99}), base::Error);
}

TEST(EpilogueVisitor, GraphsBuiltAtRunTimeStoreAndLoadMasks) {
  const Setting& s = setting();
  constexpr std::int64_t kPitch = (kN + 7) / 8 + 1;
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(kM * kPitch), 0xa5);
  const auto z = [&](auto j, float acc) { return acc + s.row[static_cast<std::size_t>(j)]; };
  RuntimeGraph forward;
  const int acc = forward.add(Accumulator{});
  const int row = forward.add(RowLoad{s.row.data()});
  const int sum = forward.add(compute(ElementwiseOp::plus), {acc, row});
  const int kept = forward.add(MaskStore{.data = mask.data(), .row_stride = kPitch}, {sum});
  forward.add(compute(ElementwiseOp::relu), {kept});
  expect_values(forward, [&](auto, auto j, float a) { return std::max(0.0f, z(j, a)); });
  std::int64_t set = 0;
  for (std::int64_t i = 0; i < kM; ++i) {
    for (std::int64_t j = 0; j < kN; ++j) {
      const bool bit = mask[static_cast<std::size_t>(i * kPitch + j / 8)] >> (j % 8) & 1;
      ASSERT_EQ(bit, z(j, s.plain[at(i, j)]) >= 0) << i << ", " << j;
      set += bit;
    }
  }
  EXPECT_GT(set, 0);
  EXPECT_LT(set, kM * kN);
  RuntimeGraph backward;
  const int gradient = backward.add(Accumulator{});
  const int bits = backward.add(MaskLoad{.data = mask.data(), .row_stride = kPitch});
  backward.add(compute(ElementwiseOp::d_relu), {gradient, bits});
  expect_values(backward, [&](auto, auto j, float a) { return z(j, a) >= 0 ? a : 0.0f; });
  // Without a mask the load gives its default, and the store does nothing.
  RuntimeGraph bare;
  const int value = bare.add(MaskStore{}, {bare.add(Accumulator{})});
  const int ones = bare.add(MaskLoad{.null_default = 1});
  bare.add(compute(ElementwiseOp::d_relu), {value, ones});
  expect_values(bare, [](auto, auto, float a) { return a; });
  EXPECT_THROW(bare.add(MaskStore{}), base::Error);
  EXPECT_THROW(bare.add(MaskLoad{}, {value}), base::Error);
  RuntimeGraph narrow;
  narrow.add(MaskStore{.name = "signs", .data = mask.data(), .row_stride = 3},
             {narrow.add(Accumulator{})});
  std::vector<float> d(static_cast<std::size_t>(kM * kN), 5.0f);
  VisitorEpilogue refused(narrow);
  const GemmStatus status = Gemm::can_implement(s.arguments(d, &refused));
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message.find("node signs"), std::string::npos) << status.message;
}

TEST(EpilogueVisitor, TheRunTimeProgramIsOneOfItsGraphs) {
  const Setting& s = setting();
  gemm_core::Epilogue program;
  program.scale_shift(s.row.data(), s.row.data())
      .add({s.aux.data(), DType::f32, {}, {kM, kN}, {kN, 1}});
  program.scale_shift(s.row.data(), nullptr).activate(gemm_core::Activation::leaky_relu, 0.2f);
  program.scale_shift(nullptr, s.row.data()).activate(gemm_core::Activation::silu);
  std::vector<float> direct(static_cast<std::size_t>(kM * kN));
  GemmArguments g = s.arguments(direct, nullptr);
  g.epilogue = program;
  std::vector<std::uint8_t> workspace(Gemm::workspace_size(g));
  Gemm gemm;
  ASSERT_TRUE(gemm.initialize(g, workspace.data(), workspace.size()).ok());
  ASSERT_TRUE(gemm.run().ok());
  VisitorEpilogue epilogue(graph_of(program));
  EXPECT_EQ(s.run(&epilogue), direct);
}

// The run-time description of a tree gives the tree's bits.
TEST(EpilogueVisitor, TreesSplitsAndGraphsHaveARunTimeDescription) {
  const Setting& s = setting();
  const auto expect_same = [&](const auto& root) {
    VisitorEpilogue composed(root);
    VisitorEpilogue described(describe(root));
    EXPECT_EQ(s.run(&described), s.run(&composed));
  };
  const ColumnLoad bias{s.column.data()};
  expect_same(tree(Accumulator{}));
  expect_same(tree(s.source()));
  expect_same(linear_combination_row_bias_activation(compute(ElementwiseOp::silu), 1.5f, 0.5f,
                                                     s.source(), bias));
  expect_same(per_row_linear_combination_row_bias_activation(
      compute(ElementwiseOp::relu), {s.column2.data()}, {s.column3.data()}, s.source(), bias));
  expect_same(graph(vertex(Accumulator{}), vertex(RowLoad{s.row.data()}),
                    vertex<0, 1>(compute(ElementwiseOp::plus)),
                    vertex<2>(compute(ElementwiseOp::relu)),
                    vertex<3, 2>(compute(ElementwiseOp::multiplies))));
  std::vector<float> aux(static_cast<std::size_t>(kM * kN)), again(aux);
  float amax[4] = {};
  const auto split_into = [&](std::vector<float>& to, float* most) {
    AmaxAux out{.scale_d = 0.5f, .scale_aux = 2.0f};
    out.amax_d = {.reduction = Reduction::amax, .out = most};
    out.amax_aux = {.reduction = Reduction::amax, .out = most + 1};
    out.aux = {.data = to.data(), .row_stride = kN};
    return scaled_linear_combination_row_bias_activation_amax_aux(compute(ElementwiseOp::relu),
                                                                  1.5f, 0.0f, {}, bias, out);
  };
  VisitorEpilogue composed(split_into(aux, amax));
  VisitorEpilogue described(describe(split_into(again, amax + 2)));
  EXPECT_EQ(s.run(&described), s.run(&composed));
  EXPECT_EQ(aux, again);
  EXPECT_EQ(amax[0], amax[2]);
  EXPECT_EQ(amax[1], amax[3]);
}

TEST(EpilogueVisitor, RefusesByNodeName) {
  std::vector<float> d(static_cast<std::size_t>(kM * kN), 5.0f), aux = d;
  const auto message_of = [&](auto root) {
    VisitorEpilogue epilogue(std::move(root));
    const GemmStatus status = Gemm::can_implement(setting().arguments(d, &epilogue));
    EXPECT_FALSE(status.ok());
    return status.message;
  };
  EXPECT_NE(
      message_of(linear_combination(1.0f, 2.0f, {.name = "C"})).find("node C: null, but beta is 2"),
      std::string::npos);
  EXPECT_NE(message_of(tree(MatrixLoad{.name = "mask", .matrix = {aux.data(), DType::i32, kN, 1}}))
                .find("node mask"),
            std::string::npos);
  EXPECT_NE(message_of(tree(MatrixStore{.name = "copy", .data = aux.data(), .row_stride = 3},
                            Accumulator{}))
                .find("node copy"),
            std::string::npos);
  EXPECT_NE(message_of(tree(Quantise{DType::i32, 1.0f}, Accumulator{})).find("quantise"),
            std::string::npos);
  EXPECT_EQ(d[0], 5.0f);
}

// Records the order of visits and how often each element was seen.
struct Recorder {
  std::vector<int>* seen;
  std::string* order;
  char name;
  Fragment visit(Piece& piece, Inputs inputs) const {
    order->push_back(name);
    for (std::int64_t i = 0; i < piece.rows; ++i) {
      for (std::int64_t j = 0; j < piece.columns; ++j)
        ++(*seen)[at(piece.place.m0 + i, piece.place.n0 + j)];
    }
    return inputs.empty() ? piece.accumulator : inputs[0];
  }
};

TEST(EpilogueVisitor, VisitsChildrenFirstLeftToRightAndEachElementOnce) {
  std::vector<int> seen(static_cast<std::size_t>(kM * kN)), other(seen), top(seen);
  std::string order;
  VisitorEpilogue epilogue(tree(Recorder{&top, &order, 'c'}, Recorder{&seen, &order, 'a'},
                                Recorder{&other, &order, 'b'}));
  base::Threads(1).run([&] { setting().run(&epilogue); });
  for (std::size_t i = 0; i < seen.size(); ++i) {
    ASSERT_EQ(seen[i], 1) << i;
    ASSERT_EQ(top[i], 1) << i;
  }
  for (std::size_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i], "abc"[i % 3]);
}

TEST(EpilogueVisitor, ServesTheGatheredConvolutionToo) {
  const std::int64_t rows = 1000, channels = 20, taps = 3;
  const auto x = random_values(rows * channels, 11), w = random_values(24 * taps * channels, 12);
  std::vector<std::int32_t> neighbours;
  for (std::int64_t i = 0; i < taps * rows; ++i)
    neighbours.push_back(i % 4 == 0 ? -1 : static_cast<std::int32_t>(i % rows));
  const auto weights =
      gemm_core::pack_conv_weights({.weight = w.data(), .cout = 24, .taps = taps, .cin = channels});
  std::vector<float> plain(static_cast<std::size_t>(rows * 24)), fused(plain), sums(24),
      sums_again(24);
  gemm_core::GatherConvArguments arguments{
      .input = {x.data(), DType::f32, {}, {rows, channels}, {channels, 1}},
      .neighbours = neighbours.data(),
      .rows = rows,
      .weights = &weights};
  arguments.output = {plain.data(), DType::f32, {}, {rows, 24}, {24, 1}};
  gemm_core::gather_conv(arguments);
  const auto run_fused = [&](std::vector<float>& out, int threads) {
    VisitorEpilogue epilogue(
        tree(compute(ElementwiseOp::relu),
             tree(Reduce{.axis = ReductionAxis::rows, .out = out.data()}, Accumulator{})));
    arguments.visitor = &epilogue;
    arguments.output.data = fused.data();
    base::Threads(threads).run([&] { gemm_core::gather_conv(arguments); });
  };
  run_fused(sums, 1);
  run_fused(sums_again, 4);
  EXPECT_EQ(sums, sums_again);
  std::vector<double> want(24, 0.0);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(fused[i], plain[i] < 0 ? 0.0f : plain[i]);
    want[i % 24] += plain[i];
  }
  for (std::size_t n = 0; n < 24; ++n) EXPECT_NEAR(sums[n], want[n], 1e-2);
}

}  // namespace
