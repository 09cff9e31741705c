// Which values there are: what users of other engines reported as broken about results
// (docs/testing.md), on the engine, in every dtype.
#include <set>

#include "tests/sparseconv/behaviour.hpp"
#include "tests/support/expect_as_naive.hpp"

namespace {

using namespace behaviour;

// Behaviour 6.
TEST(Behaviour, TheSameInputGivesTheSameBitsWithAnyNumberOfThreads) {
  const Model model = random_model(kNetwork, 4, R"("out","c","g")");
  const auto input = test_support::random_tensor({.shape = {40, 40, 12}});
  for (const char* dtype : kDTypes) {
    const Engine first(model, test_support::on_device({.dtype = dtype, .threads = 1}));
    const Result reference = first.run(input);
    for (const int threads : {1, 2, 3, 7}) {
      const Engine engine(model, test_support::on_device({.dtype = dtype, .threads = threads}));
      for (int repeat = 0; repeat < 3; ++repeat) {
        const Result again = engine.run(input);
        for (std::size_t i = 0; i < reference.outputs.size(); ++i) {
          EXPECT_TRUE(
              same_bits(again.outputs[i].sparse.features, reference.outputs[i].sparse.features))
              << reference.outputs[i].node << " in " << dtype << " on " << threads << " threads";
          EXPECT_EQ(coords_of(again.outputs[i].sparse), coords_of(reference.outputs[i].sparse));
        }
      }
    }
    const auto keys = reference.outputs[1].sparse.coordinates->keys();
    EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
  }
}

// Behaviour 7.
TEST(Behaviour, PermutedRowsGivePermutedRows) {
  const Model model = random_model(kNetwork, 4, R"("out","c")");
  const auto sorted = test_support::random_tensor({.batches = 1});
  auto coords = coords_of(sorted);
  std::vector<std::size_t> order(coords.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = (i * 7919 + 13) % order.size();
  std::set<std::size_t> distinct(order.begin(), order.end());
  ASSERT_EQ(distinct.size(), order.size());
  std::vector<Coord> shuffled;
  SparseTensor input{nullptr, base::Tensor::empty(sorted.features.shape(), DType::f32)};
  for (std::size_t i = 0; i < order.size(); ++i) {
    shuffled.push_back(coords[order[i]]);
    std::copy_n(sorted.features.data<float>() + order[i] * 4, 4,
                input.features.data<float>() + i * 4);
  }
  input.coordinates = Coordinates::create(
      shuffled, {.batch_size = 1, .spatial_shape = sorted.coordinates->spatial_shape()});
  for (const char* dtype : kDTypes) {
    const Result a = run(model, sorted, dtype), b = run(model, input, dtype);
    EXPECT_EQ(coords_of(sparse(b)), shuffled);
    for (std::size_t i = 0; i < order.size(); ++i) {
      ASSERT_EQ(row_of(sparse(b), static_cast<std::int64_t>(i)),
                row_of(sparse(a), static_cast<std::int64_t>(order[i])));
    }
    EXPECT_EQ(coords_of(a.outputs[1].sparse), coords_of(b.outputs[1].sparse));
    EXPECT_TRUE(same_bits(a.outputs[1].sparse.features, b.outputs[1].sparse.features));
  }
}

// Behaviour 8.
TEST(Behaviour, ALargerShapeLeavesASubmanifoldResultAsItWas) {
  const Model model = random_model(kSubm3, 4);
  const auto input = test_support::random_tensor({});
  auto larger = input;
  larger.coordinates = Coordinates::create(
      coords_of(input), {.batch_size = 2, .spatial_shape = SpatialShape{1000, 900, 800}});
  for (const char* dtype : kDTypes) {
    EXPECT_TRUE(same_bits(sparse(run(model, input, dtype)).features,
                          sparse(run(model, larger, dtype)).features));
  }
}

// Behaviour 10: maps of k3 and k5 between equal channels are not confused.
TEST(Behaviour, KernelsOfDifferentSizeDoNotShareAMap) {
  const Model model = random_model(
      R"({"name":"a","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":4},
         {"name":"b","op":"conv","inputs":["a"],"kernel":5,"submanifold":true,"out_channels":4},
         {"name":"c","op":"conv","inputs":["b"],"kernel":3,"dilation":2,"submanifold":true,"out_channels":4},
         {"name":"out","op":"conv","inputs":["c"],"kernel":3,"submanifold":true,"out_channels":4})",
      4);
  const auto input = test_support::random_tensor({});
  const Model chained[] = {
      random_model(
          R"({"name":"a","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":4})",
          4, R"("a")"),
      random_model(
          R"({"name":"b","op":"conv","inputs":["input"],"kernel":5,"submanifold":true,"out_channels":4})",
          4, R"("b")"),
      random_model(
          R"({"name":"c","op":"conv","inputs":["input"],"kernel":3,"dilation":2,"submanifold":true,"out_channels":4})",
          4, R"("c")"),
      random_model(
          R"({"name":"out","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":4})",
          4)};
  for (const char* dtype : kDTypes) {
    SparseTensor value = input;
    for (Model single : chained) {
      single.nodes[0].weights = model.node(single.nodes[0].name).weights;
      value.features = sparse(run(single, value, dtype)).features;
    }
    EXPECT_TRUE(same_bits(sparse(run(model, input, dtype)).features, value.features)) << dtype;
  }
}

// Behaviour 10. Few channels, panels, groups and depthwise each have a kernel of their own.
TEST(Behaviour, EveryNumberOfTapsAgreesWithTheNaiveNetworkOnEveryKernel) {
  constexpr const char* kKernels[] = {
      R"("kernel":3,"submanifold":true)",       R"("kernel":5,"submanifold":true)",
      R"("kernel":7,"submanifold":true)",       R"("kernel":[3,11,1],"submanifold":true)",
      R"("kernel":[3,1,1],"submanifold":true)", R"("kernel":[1,3,3],"submanifold":true)",
      R"("kernel":[2,4,4],"stride":[2,4,4])",   R"("kernel":2,"stride":2)",
      R"("kernel":4,"stride":2,"padding":1)",   R"("kernel":[3,11,1],"stride":[1,3,1])"};
  struct Channels {
    int in, out, groups;
  };
  for (const auto& [in, out, groups] :
       {Channels{4, 20, 1}, Channels{20, 12, 1}, Channels{20, 10, 2}, Channels{6, 6, 6}}) {
    for (const char* kernel : kKernels) {
      SCOPED_TRACE(base::concat(in, " -> ", out, " in ", groups, " groups, ", kernel));
      const Model model = random_model(
          base::concat(R"({"name":"out","op":"conv","inputs":["input"],"out_channels":)", out,
                       R"(,"groups":)", groups, ",", kernel, "}"),
          in);
      test_support::expect_as_naive(
          model, test_support::random_tensor(
                     {.shape = {9, 8, 7}, .per_thousand = 150, .batches = 1, .channels = in}));
    }
  }
}

// Behaviour 12.
TEST(Behaviour, MaxPoolOfNegativeValuesIsTheTrueMaximum) {
  auto input = tensor_of({{0, 0, 0, 0}, {0, 1, 1, 1}, {0, 2, 2, 2}}, 1, {.batch_size = 1});
  const float values[] = {-3, -2, -5};
  std::copy_n(values, 3, input.features.data<float>());
  const auto pool = [](const char* op, const char* more) {
    return random_model(base::concat(R"({"name":"out","op":")", op,
                                     R"(","inputs":["input"],"kernel":2)", more, "}"),
                        1);
  };
  for (const char* dtype : kDTypes) {
    const auto max = sparse(run(pool("max_pool", ""), input, dtype));
    EXPECT_EQ(row_of(max, 0)[0], -2);
    EXPECT_EQ(row_of(max, 1)[0], -5);
    const auto with_zero = sparse(run(pool("max_pool", R"(,"implicit_zero":true)"), input, dtype));
    EXPECT_EQ(row_of(with_zero, 0)[0], 0);
    const auto average = sparse(run(pool("avg_pool", ""), input, dtype));
    EXPECT_EQ(row_of(average, 0)[0], -2.5);
    EXPECT_EQ(row_of(average, 1)[0], -5);
  }
}

// Dense convolution with zero padding, straight from its definition on a cube of side n.
std::vector<float> dense_convolution(const Node& node, const SparseTensor& input, int n) {
  const auto cin = input.channels(), cout = node.out_channels;
  const float* w = node.weights.at("weight").data<float>();
  const auto& g = node.geometry;
  std::vector<float> out;
  for (const Coord& c : full_grid(n)) {
    for (std::int64_t o = 0; o < cout; ++o) {
      double sum = 0;
      for (int tap = 0; tap < g.taps(); ++tap) {
        const auto f = g.fine(c, tap);
        if (std::any_of(f.begin(), f.end(), [&](std::int64_t v) { return v < 0 || v >= n; }))
          continue;
        const float* x = input.features.data<float>() + ((f[0] * n + f[1]) * n + f[2]) * cin;
        for (std::int64_t i = 0; i < cin; ++i)
          sum += double{w[(o * g.taps() + tap) * cin + i]} * x[i];
      }
      out.push_back(static_cast<float>(sum));
    }
  }
  return out;
}

// Dense transposed convolution, kernel 2 and stride 2: every fine cell has one coarse cell.
std::vector<float> dense_doubling(const Node& node, const SparseTensor& input, int n) {
  const auto cin = input.channels(), cout = node.out_channels;
  const float* w = node.weights.at("weight").data<float>();
  std::vector<float> out;
  for (const Coord& c : full_grid(2 * n)) {
    const int tap = (c.x % 2 * 2 + c.y % 2) * 2 + c.z % 2;
    const float* x = input.features.data<float>() + ((c.x / 2 * n + c.y / 2) * n + c.z / 2) * cin;
    for (std::int64_t o = 0; o < cout; ++o) {
      double sum = 0;
      for (std::int64_t i = 0; i < cin; ++i) sum += double{w[(o * 8 + tap) * cin + i]} * x[i];
      out.push_back(static_cast<float>(sum));
    }
  }
  return out;
}

void expect_rows(const Model& model, const SparseTensor& input, const test_support::Rows& rows) {
  for (const char* dtype : kDTypes) {
    const auto out = sparse(run(model, input, dtype));
    const float* values = out.features.data<float>();
    const test_support::Rows got{coords_of(out), {values, values + out.features.numel()}};
    EXPECT_TRUE(
        test_support::rows_near(got, rows, test_support::tolerance(base::parse_dtype(dtype))))
        << dtype;
  }
}

// Behaviour 14.
TEST(Behaviour, AFullGridGivesTheDenseConvolution) {
  constexpr int n = 7;
  const auto input =
      tensor_of(full_grid(n), 5, {.batch_size = 1, .spatial_shape = SpatialShape{n, n, n}});
  for (const char* kernel : {R"("kernel":3,"submanifold":true)", R"("kernel":3,"padding":1)",
                             R"("kernel":3,"dilation":2,"submanifold":true)"}) {
    const Model model = random_model(
        base::concat(R"({"name":"out","op":"conv","inputs":["input"],"out_channels":6,)", kernel,
                     "}"),
        5);
    SCOPED_TRACE(kernel);
    expect_rows(model, input, {full_grid(n), dense_convolution(model.nodes[0], input, n)});
  }
  const Model doubling = random_model(
      R"({"name":"out","op":"conv_transpose","inputs":["input"],"kernel":2,"stride":2,"out_channels":6})",
      5);
  expect_rows(doubling, input, {full_grid(2 * n), dense_doubling(doubling.nodes[0], input, n)});
}

// Behaviour 17.
TEST(Behaviour, OneVoxelSeesTheCentreTapAlone) {
  const Model model = random_model(kSubm3, 3);
  const auto input = tensor_of({{0, 5, 5, 5}}, 3, {.batch_size = 1});
  const float* w = model.nodes[0].weights.at("weight").data<float>();
  const float* x = input.features.data<float>();
  for (std::int64_t o = 0; o < 4; ++o) {
    float expected = 0;
    for (std::int64_t i = 0; i < 3; ++i) expected += w[(o * 27 + 13) * 3 + i] * x[i];
    expected += model.nodes[0].weights.at("bias").data<float>()[o];
    EXPECT_EQ(row_of(sparse(run(model, input)), 0)[static_cast<std::size_t>(o)],
              expected);  // exact: short sums
  }
}

// Behaviour 18.
TEST(Behaviour, DilationTwoReachesDistanceTwoAndNotOne) {
  const Model model = random_model(
      R"({"name":"out","op":"conv","inputs":["input"],"kernel":3,"dilation":2,"submanifold":true,"out_channels":4})",
      3);
  const auto pair_at = [&](int distance) {
    return tensor_of({{0, 4, 4, 4}, {0, 4, 4, 4 + distance}}, 3, {.batch_size = 1});
  };
  for (const char* dtype : kDTypes) {
    const auto alone = row_of(sparse(run(model, tensor_of({{0, 4, 4, 4}}, 3, {}), dtype)), 0);
    EXPECT_EQ(row_of(sparse(run(model, pair_at(1), dtype)), 0), alone);
    EXPECT_NE(row_of(sparse(run(model, pair_at(2), dtype)), 0), alone);
  }
}

// Behaviour 22: 500.0625 needs more bits than tf32 has.
TEST(Behaviour, Fp32IsExactAndTf32IsAskedFor) {
  Model model = random_model(
      R"({"name":"out","op":"conv","inputs":["input"],"kernel":1,"submanifold":true,"out_channels":1})",
      1);
  model.nodes[0].weights.at("weight").data<float>()[0] = 1;
  auto input = tensor_of({{0, 0, 0, 0}}, 1, {});
  input.features.data<float>()[0] = 500.0625f;
  EXPECT_EQ(row_of(sparse(run(model, input, "fp32")), 0)[0], 500.0625f);
  EXPECT_EQ(row_of(sparse(run(model, input, "tf32")), 0)[0], base::round_to_tf32(500.0625f));
  EXPECT_NE(base::round_to_tf32(500.0625f), 500.0625f);
}

}  // namespace
