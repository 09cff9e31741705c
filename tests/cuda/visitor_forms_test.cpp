// Which kernel takes which visitor graph, batches, repeats, and what is refused.
#include "gemm_core/device/cuda/gemm/gemm.hpp"
#include "tests/cuda/own_tree.hpp"
#include "tests/cuda/require_device.hpp"
#include "tests/cuda/visitor_case.hpp"

namespace {

using namespace visitor_case;  // NOLINT: a test file

std::string kernel_of(Setting& s, const RuntimeGraph& graph) {
  std::string name;
  s.run(s.arguments(), graph, VisitorPath::fastest, &name);
  return name;
}

TEST(CudaVisitor, CommonFormsHaveKernelsOfTheirOwn) {
  REQUIRE_HOPPER();
  Setting s(408, DType::f16, DType::f16);
  const RowLoad bias{s.row.data()}, scale{s.row.data()};
  Both<float> amax({0.f}), alpha({1.5f});
  const auto n = [&](auto j) { return s.row.host[static_cast<std::size_t>(j)]; };
  const auto silu = [](float x) { return x / (1 + std::exp(-x)); };
  const auto plus = compute(ElementwiseOp::plus);
  const auto biased = tree(plus, Accumulator{}, bias);
  const auto with_residual = tree(plus, tree(compute(ElementwiseOp::silu), biased), s.residual());

  EXPECT_EQ(kernel_of(s, describe(biased)), "float16_tree_bias_128x128");
  expect_values(s, describe(biased), [&](auto, auto j, float acc) { return acc + n(j); });
  EXPECT_EQ(kernel_of(s, describe(tree(compute(ElementwiseOp::silu), biased))),
            "float16_tree_bias_silu_128x128");
  expect_values(
      s, describe(tree(compute(ElementwiseOp::silu), biased)),
      [&](auto, auto j, float acc) { return silu(acc + n(j)); }, 3e-6f);
  EXPECT_EQ(kernel_of(s, describe(with_residual)), "float16_tree_residual_silu_128x128");
  const auto value = [&](auto i, auto j, float acc) {
    return silu(acc + n(j)) + float(s.half.host[s.at(i, j)]);
  };
  expect_values(s, describe(with_residual), value, 3e-6f);
  const auto with_amax =
      tree(Reduce{.reduction = Reduction::amax, .out = amax.data()}, with_residual);
  EXPECT_EQ(kernel_of(s, describe(with_amax)), "float16_tree_residual_silu_128x128");
  expect_values(s, describe(with_amax), value, 3e-6f, [&] {
    amax.download();
    float want = 0;
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j)
        want = std::max(want, std::fabs(value(i, j, s.plain[s.at(i, j)])));
    }
    ASSERT_NEAR(amax.host[0], want, 3e-6f * want);
  });
  // Scale and shift of a batch normalisation; a factor in device memory.
  const auto scaled = tree(compute(ElementwiseOp::relu),
                           tree(compute(ElementwiseOp::multiply_add), Accumulator{}, scale, bias));
  EXPECT_EQ(kernel_of(s, describe(scaled)), "float16_tree_bias_128x128");
  expect_values(s, describe(scaled),
                [&](auto, auto j, float acc) { return std::max(0.0f, std::fma(acc, n(j), n(j))); });
  const auto pointed = tree(compute(ElementwiseOp::multiply_add), Scalar({{9.0f, alpha.data()}}),
                            Accumulator{}, bias);
  EXPECT_EQ(kernel_of(s, describe(pointed)), "float16_tree_bias_128x128");
  expect_values(s, describe(pointed),
                [&](auto, auto j, float acc) { return std::fma(1.5f, acc, n(j)); });
  // Others run in a launch of their own: a function that is none of the compiled ones, a bias by
  // rows, a residual whose rows no bulk copy takes.
  const auto is_separate = [](Setting& of, const RuntimeGraph& graph) {
    return kernel_of(of, graph).find("visitor_pass") != std::string::npos;
  };
  EXPECT_TRUE(is_separate(s, describe(tree(compute(ElementwiseOp::gelu), biased))));
  EXPECT_TRUE(is_separate(s, describe(tree(plus, Accumulator{}, ColumnLoad{s.column.data()}))));
  MatrixLoad odd{.matrix = {s.half.data(), DType::f16, s.n - 1, 1}};
  EXPECT_TRUE(is_separate(s, describe(tree(plus, Accumulator{}, odd))));
  Setting narrow(401, DType::f16, DType::f16);
  EXPECT_NE(kernel_of(narrow, describe(tree(Accumulator{}))).find("visitor_pass"),
            std::string::npos);
}

// The nodes of plain products take the same kernels.
TEST(CudaVisitor, NodesOfAGemmRunInATreeWhereThereIsOne) {
  REQUIRE_HOPPER();
  Setting s(408, DType::f16, DType::f16);
  GemmArguments g = s.arguments();
  g.alpha = 0.5;
  g.epilogue.scale_shift(nullptr, s.row.data())
      .activate(gemm_core::Activation::relu)
      .add({s.half.data(), DType::f16, {}, {s.m, s.n}, {s.n, 1}});
  const auto stream = base::cuda::Stream::create();
  gemm_core::cuda::Gemm gemm;
  ASSERT_TRUE(gemm.initialize(g, nullptr, 0, stream.get()).ok());
  ASSERT_TRUE(gemm.run(stream.get()).ok());
  stream.synchronize();
  s.d.download();
  // alpha and the vector are two roundings on the CPU: the older kernels follow it.
  EXPECT_EQ(gemm.kernel_name().find("tree"), std::string::npos) << gemm.kernel_name();
  g.alpha = 1;
  ASSERT_TRUE(gemm.initialize(g, nullptr, 0, stream.get()).ok());
  EXPECT_EQ(gemm.kernel_name(), "float16_tree_residual_128x128");
  ASSERT_TRUE(gemm.run(stream.get()).ok());
  stream.synchronize();
  s.d.download();
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      const float want =
          std::max(0.0f, s.plain[s.at(i, j)] + s.row.host[static_cast<std::size_t>(j)]) +
          float(s.half.host[s.at(i, j)]);
      ASSERT_EQ(s.result(i, j), float(base::half_t(want))) << i << ", " << j;
    }
  }
}

TEST(CudaVisitor, AlphaBetaAndCOfTheArgumentsComeFirst) {
  REQUIRE_DEVICE();
  for_each_setting([&](Setting& s) {
    for (const VisitorPath path : {VisitorPath::fastest, VisitorPath::separate}) {
      GemmArguments g = s.arguments();
      g.alpha = 0.5;
      g.beta = 2;
      g.c.data = s.c.data();
      g.c.row_stride = s.n;
      const auto root = tree(compute(ElementwiseOp::plus), Accumulator{}, RowLoad{s.row.data()});
      s.run(g, describe(root), path);
      for (std::int64_t i = 0; i < s.m; ++i) {
        for (std::int64_t j = 0; j < s.n; ++j) {
          const float want = std::fma(2.0f, s.c.host[s.at(i, j)], 0.5f * s.plain[s.at(i, j)]) +
                             s.row.host[static_cast<std::size_t>(j)];
          ASSERT_NEAR(s.result(i, j), want,
                      gemm_case::unit_roundoff(s.out) * (std::fabs(want) + 1e-3))
              << i << ", " << j;
        }
      }
    }
  });
}

TEST(CudaVisitor, WithBetaZeroNeverTouchesC) {
  REQUIRE_DEVICE();
  Both<float> zero({0.0f});
  for_each_setting([&](Setting& s) {
    std::fill(s.c.host.begin(), s.c.host.end(), std::nanf(""));
    s.c.upload();
    expect_values(s, describe(linear_combination(2.0f, Scalar({{1.0f, zero.data()}}), s.source())),
                  [](auto, auto, float acc) { return 2 * acc; });
    expect_values(s, describe(linear_combination(2.0f, 0.0f, {})),
                  [](auto, auto, float acc) { return 2 * acc; });
  });
}

TEST(CudaVisitor, BatchesHaveTheirOwnOrSharedOperandsAndReductions) {
  REQUIRE_DEVICE();
  Setting s(136, DType::f16, DType::f16, 3);
  Both<float> rows(std::vector<float>(static_cast<std::size_t>(3 * s.n))), total({0.f});
  Both<float> bias = random_both<float>(3 * s.n, 11);
  Both<base::half_t> aux = random_both<base::half_t>(3 * s.m * s.n, 12);
  RuntimeGraph graph;
  const int acc = graph.add(Accumulator{});
  const int own = graph.add(
      Reduce{.axis = ReductionAxis::rows, .out = rows.data(), .batch_stride = s.n}, {acc});
  const int shared = graph.add(Reduce{.out = total.data()}, {own});
  const int vector = graph.add(RowLoad{bias.data(), s.n});
  const int sum = graph.add(compute(ElementwiseOp::plus), {shared, vector});
  const int matrix =
      graph.add(MatrixLoad{.matrix = {aux.data(), DType::f16, s.n, 1}, .batch_stride = s.m * s.n});
  graph.add(compute(ElementwiseOp::plus), {sum, matrix});
  for (const VisitorPath path : {VisitorPath::fastest, VisitorPath::separate}) {
    s.run(s.arguments(), graph, path);
    rows.download();
    total.download();
    std::vector<float> want_rows(static_cast<std::size_t>(3 * s.n));
    float want_total = 0;
    for (std::int64_t l = 0; l < 3; ++l) {
      for (std::int64_t i = 0; i < s.m; ++i) {
        for (std::int64_t j = 0; j < s.n; ++j) {
          const float v = s.plain[s.at(i, j, l)];
          want_rows[static_cast<std::size_t>(l * s.n + j)] += v;
          want_total += v;
          const float want =
              v + bias.host[static_cast<std::size_t>(l * s.n + j)] + float(aux.host[s.at(i, j, l)]);
          ASSERT_EQ(s.result(i, j, l), float(base::half_t(want))) << l << ", " << i << ", " << j;
        }
      }
    }
    ASSERT_EQ(rows.host, want_rows);
    ASSERT_EQ(total.host[0], want_total);
  }
}

TEST(CudaVisitor, GivesTheSameBitsInRepeatsStreamsGraphsAndPaths) {
  REQUIRE_DEVICE();
  Setting s(1032, DType::f16, DType::f16);
  Both<float> rows(std::vector<float>(static_cast<std::size_t>(s.n))),
      columns(std::vector<float>(static_cast<std::size_t>(s.m))), all({0.f});
  // Products with random numbers: sums that depend on their order.
  const auto root =
      tree(Reduce{.axis = ReductionAxis::rows, .out = rows.data()},
           tree(Reduce{.axis = ReductionAxis::columns, .out = columns.data()},
                tree(Reduce{.out = all.data()},
                     tree(compute(ElementwiseOp::multiplies), Accumulator{}, s.auxiliary()))));
  const RuntimeGraph graph = describe(root);
  std::vector<float> first;
  for (const VisitorPath path : {VisitorPath::fastest, VisitorPath::separate}) {
    const auto stream = base::cuda::Stream::create(), other = base::cuda::Stream::create();
    const GemmArguments g = s.arguments();
    const std::size_t bytes = VisitorGemm::workspace_size(g, graph, path);
    base::cuda::Buffer<std::uint8_t> workspace(bytes);
    VisitorGemm gemm;
    ASSERT_TRUE(gemm.initialize(g, graph, workspace.data(), bytes, stream.get(), path).ok());
    stream.synchronize();
    const auto captured =
        base::cuda::Graph::capture(other.get(), [&] { ASSERT_TRUE(gemm.run(other.get()).ok()); });
    for (int round = 0; round < 30; ++round) {
      for (auto* x : {&rows, &columns, &all}) {
        std::fill(x->host.begin(), x->host.end(), -7.0f);
        x->upload();
      }
      if (round % 3 == 2)
        captured.launch(other.get());
      else
        ASSERT_TRUE(gemm.run(round % 3 == 0 ? stream.get() : other.get()).ok());
      stream.synchronize();
      other.synchronize();
      std::vector<float> now;
      for (auto* x : {&rows, &columns, &all}) {
        x->download();
        now.insert(now.end(), x->host.begin(), x->host.end());
      }
      if (first.empty()) first = now;
      ASSERT_EQ(now, first) << round;
    }
  }
}

TEST(CudaVisitor, AmaxIsReadyForTheNextRun) {
  REQUIRE_DEVICE();
  Setting s(408, DType::f16, DType::f16);
  Both<float> amax({0.f});
  const auto root = tree(Reduce{.reduction = Reduction::amax, .out = amax.data()}, Accumulator{});
  const RuntimeGraph graph = describe(root);
  const auto stream = base::cuda::Stream::create();
  const GemmArguments g = s.arguments();
  const std::size_t bytes = VisitorGemm::workspace_size(g, graph);
  base::cuda::Buffer<std::uint8_t> workspace(bytes);
  VisitorGemm gemm;
  ASSERT_TRUE(gemm.initialize(g, graph, workspace.data(), bytes, stream.get()).ok());
  float want = 0;
  for (const float v : s.plain) want = std::max(want, std::fabs(v));
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(gemm.run(stream.get()).ok());
    stream.synchronize();
    amax.download();
    ASSERT_EQ(amax.host[0], want);
    // Smaller values: what was largest before must not stay.
    if (round == 1) {
      CUDA_CHECK(cudaMemset(s.a.device.data(), 0, s.a.host.size()));
      CUDA_CHECK(cudaDeviceSynchronize());
      want = 0;
    }
  }
}

TEST(CudaVisitor, EmptyProductsReduceToTheIdentity) {
  REQUIRE_DEVICE();
  Setting s(136, DType::f16, DType::f16);
  Both<float> rows(std::vector<float>(static_cast<std::size_t>(s.n), 3.f)), least({3.f});
  const auto root =
      tree(Reduce{.axis = ReductionAxis::rows, .out = rows.data()},
           tree(Reduce{.reduction = Reduction::minimum, .out = least.data()}, Accumulator{}));
  GemmArguments g = s.arguments();
  g.m = 0;
  s.run(g, describe(root), VisitorPath::fastest);
  rows.download();
  least.download();
  for (const float v : rows.host) EXPECT_EQ(v, 0);
  EXPECT_EQ(least.host[0], std::numeric_limits<float>::infinity());
  // Without products the accumulator is 0.
  g = s.arguments();
  g.k = 0;
  s.run(g, describe(tree(compute(ElementwiseOp::plus), Accumulator{}, RowLoad{s.row.data()})),
        VisitorPath::fastest);
  for (std::int64_t j = 0; j < s.n; ++j)
    EXPECT_EQ(s.result(300, j), float(base::half_t(s.row.host[static_cast<std::size_t>(j)])));
}

TEST(CudaVisitor, RefusesByNodeName) {
  REQUIRE_DEVICE();
  Setting s(136, DType::f16, DType::f16);
  const auto message_of = [&](const auto& root) {
    const GemmStatus status = VisitorGemm::can_implement(s.arguments(), describe(root));
    EXPECT_FALSE(status.ok());
    return status.message;
  };
  const auto expect = [&](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  std::vector<float> host(static_cast<std::size_t>(s.n));
  expect(message_of(linear_combination(1.0f, 2.0f, {.name = "C"})), "node C");
  expect(message_of(tree(MatrixLoad{.name = "mask", .matrix = {s.aux.data(), DType::i32, s.n, 1}})),
         "node mask");
  expect(message_of(tree(MatrixStore{.name = "copy", .data = s.aux.data(), .row_stride = 3},
                         Accumulator{})),
         "node copy");
  expect(message_of(tree(MaskStore{.name = "signs",
                                   .data = reinterpret_cast<std::uint8_t*>(s.aux.data()),
                                   .row_stride = 3},
                         Accumulator{})),
         "node signs");
  expect(message_of(tree(Quantise{DType::i32, 1.0f}, Accumulator{})), "quantise");
  expect(message_of(tree(RowLoad{host.data()})), "node row (1) points to host memory");
  expect(message_of(tree(Reduce{.out = host.data()}, Accumulator{})),
         "node reduce (1) points to host memory");
  RuntimeGraph large;
  int value = large.add(Accumulator{});
  for (int i = 0; i < 30; ++i) value = large.add(compute(ElementwiseOp::relu), {value});
  const GemmStatus status = VisitorGemm::can_implement(s.arguments(), large);
  EXPECT_FALSE(status.ok());
  expect(status.message, "more than 24 nodes");
  GemmArguments g = s.arguments();
  g.compute = g.a.dtype = g.b.dtype = g.d.dtype = DType::f64;
  EXPECT_FALSE(VisitorGemm::can_implement(g, describe(tree(Accumulator{}))).ok());
  VisitorGemm gemm;
  EXPECT_EQ(gemm.run(nullptr).code, GemmStatus::Code::not_initialized);
  const auto reduces = describe(tree(Reduce{.out = s.row.data()}, Accumulator{}));
  EXPECT_EQ(gemm.initialize(s.arguments(), reduces, nullptr, 0, nullptr).code,
            GemmStatus::Code::small_workspace);
}

// Nodes composed at compile time in a file that nvcc compiles, a split tree among them.
TEST(CudaVisitor, RunsTreesThatTheCallerCompiles) {
  REQUIRE_HOPPER();
  Setting s(408, DType::f16, DType::f16);
  Both<float> copy(std::vector<float>(static_cast<std::size_t>(s.m * s.n)));
  const auto stream = base::cuda::Stream::create();
  ASSERT_TRUE(cuda_tests::run_own_tree(s.arguments(), s.column.data(), s.row.data(), copy.data(),
                                       stream.get()));
  stream.synchronize();
  s.d.download();
  copy.download();
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      const float bound = std::max(s.plain[s.at(i, j)], s.column.host[static_cast<std::size_t>(i)]);
      ASSERT_EQ(copy.host[s.at(i, j)], bound) << i << ", " << j;
      const float want = bound * s.row.host[static_cast<std::size_t>(j)] - 3.f;
      ASSERT_EQ(s.result(i, j), float(base::half_t(want))) << i << ", " << j;
    }
  }
}

}  // namespace
