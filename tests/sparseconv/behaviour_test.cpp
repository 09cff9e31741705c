// What users of other engines reported as broken (docs: behaviour cases), on the engine, in every
// dtype.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "sparseconv/engine.hpp"
#include "tests/support/compare_values.hpp"
#include "tests/support/make_inputs.hpp"
#include "tests/support/test_device.hpp"

namespace {

using namespace sparseconv;
using base::DType;
using test_support::random_model;
using test_support::tensor_of;

constexpr const char* kDTypes[] = {"fp32", "tf32", "fp16", "bf16"};

constexpr const char* kSubm3 =
    R"({"name":"out","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":4,"bias":true})";
constexpr const char* kK2S2 =
    R"({"name":"out","op":"conv","inputs":["input"],"kernel":2,"stride":2,"out_channels":4})";

Result run(const Model& model, const SparseTensor& input, const std::string& dtype = "fp32",
           int threads = 2) {
  return Engine(model, test_support::on_device({.dtype = dtype, .threads = threads})).run(input);
}

SparseTensor sparse(const Result& result) { return result.outputs.at(0).sparse; }

std::vector<Coord> coords_of(const SparseTensor& tensor) {
  const auto coords = tensor.coordinates->coords();
  return {coords.begin(), coords.end()};
}

std::vector<float> row_of(const SparseTensor& tensor, std::int64_t row) {
  const float* from = tensor.features.data<float>() + row * tensor.channels();
  return {from, from + tensor.channels()};
}

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const base::Error& error) {
    return error.what();
  }
  return "";
}

bool same_bits(const base::Tensor& a, const base::Tensor& b) {
  return a.shape() == b.shape() &&
         (a.numel() == 0 ||
          std::equal(a.data<float>(), a.data<float>() + a.numel(), b.data<float>()));
}

// Behaviour 2. Every voxel stands alone, so each output is its own product with the centre tap.
TEST(Behaviour, NothingLeaksAcrossAxisEndsOrBatches) {
  const Model model = random_model(kSubm3, 3);
  const SpatialShape shape{8, 6, 5};
  const std::vector<Coord> corners{{0, 7, 5, 4}, {1, 0, 0, 0}};
  const auto input = tensor_of(corners, 3, {.batch_size = 2, .spatial_shape = shape});
  for (const char* dtype : kDTypes) {
    const Result both = run(model, input, dtype);
    for (std::int64_t i = 0; i < 2; ++i) {
      auto alone = tensor_of({corners[static_cast<std::size_t>(i)]}, 3,
                             {.batch_size = 2, .spatial_shape = shape});
      std::copy_n(input.features.data<float>() + i * 3, 3, alone.features.data<float>());
      EXPECT_EQ(row_of(sparse(both), i), row_of(sparse(run(model, alone, dtype)), 0)) << dtype;
    }
  }
}

// Behaviour 3.
TEST(Behaviour, CoordinatesOutsideTheModelsShapeAreOneErrorNamingRowAndAxis) {
  Model model = random_model(kSubm3, 3);
  model.input.spatial_shape = SpatialShape{8, 8, 8};
  const auto try_coord = [&](const Coord& c) {
    return message_of([&] { run(model, tensor_of({{0, 1, 1, 1}, c}, 3, {})); });
  };
  for (const auto& [coord, axis] :
       {std::pair(Coord{0, -1, 0, 0}, "x"), std::pair(Coord{0, 0, 8, 0}, "y"),
        std::pair(Coord{0, 0, 0, 100}, "z")}) {
    const std::string message = try_coord(coord);
    EXPECT_NE(message.find("row 1"), std::string::npos) << message;
    EXPECT_NE(message.find(std::string(axis) + " = "), std::string::npos) << message;
  }
}

// Behaviour 4: floor((8 + 0 - 2 - 1) / 2) + 1 = 3 cells in z; z = 7 would need a fourth.
TEST(Behaviour, AVoxelPastTheLastWindowGivesAnEmptyOutput) {
  const Model model = random_model(
      R"({"name":"out","op":"conv","inputs":["input"],"kernel":3,"stride":2,"padding":[1,1,0],"out_channels":4})",
      3);
  for (const char* dtype : kDTypes) {
    const auto cut =
        tensor_of({{0, 2, 2, 7}}, 3, {.batch_size = 1, .spatial_shape = SpatialShape{8, 8, 8}});
    const Result none = run(model, cut, dtype);
    EXPECT_EQ(sparse(none).rows(), 0);
    EXPECT_EQ(sparse(none).channels(), 4);
    EXPECT_EQ(none.voxels, 1);
    const auto kept =
        tensor_of({{0, 2, 2, 7}}, 3, {.batch_size = 1, .spatial_shape = SpatialShape{8, 8, 9}});
    EXPECT_GT(sparse(run(model, kept, dtype)).rows(), 0);
  }
}

constexpr const char* kNetwork = R"(
  {"name":"a","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":16},
  {"name":"b","op":"conv","inputs":["a"],"kernel":3,"stride":2,"padding":1,"out_channels":24},
  {"name":"c","op":"relu","inputs":["b"]},
  {"name":"g","op":"global_avg_pool","inputs":["c"]},
  {"name":"d","op":"inverse_conv","inputs":["c"],"pair":"b","out_channels":16},
  {"name":"e","op":"concat","inputs":["d","a"]},
  {"name":"out","op":"linear","inputs":["e"],"out_channels":5})";

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
  SparseTensor value = input;
  for (Model single : chained) {
    single.nodes[0].weights = model.node(single.nodes[0].name).weights;
    value.features = sparse(run(single, value)).features;
  }
  EXPECT_TRUE(same_bits(sparse(run(model, input)).features, value.features));
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

// A full grid: every cell is there.
std::vector<Coord> full_grid(int n) {
  std::vector<Coord> coords;
  for (int x = 0; x < n; ++x) {
    for (int y = 0; y < n; ++y) {
      for (int z = 0; z < n; ++z) coords.push_back({0, x, y, z});
    }
  }
  return coords;
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
    const test_support::Rows expected{full_grid(n), dense_convolution(model.nodes[0], input, n)};
    for (const char* dtype : kDTypes) {
      const auto out = sparse(run(model, input, dtype));
      const float* values = out.features.data<float>();
      const test_support::Rows got{coords_of(out), {values, values + out.features.numel()}};
      EXPECT_TRUE(
          test_support::rows_near(got, expected, test_support::tolerance(base::parse_dtype(dtype))))
          << kernel << dtype;
    }
  }
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

// Behaviour 19.
TEST(Behaviour, NegativeCoordinatesAreFloored) {
  const auto input = tensor_of({{0, -1, -2, -3}, {0, 0, 1, 2}}, 3, {.batch_size = 1});
  const auto coords = coords_of(sparse(run(random_model(kK2S2, 3), input)));
  EXPECT_EQ(std::set<Coord>(coords.begin(), coords.end()),
            (std::set<Coord>{{0, -1, -1, -2}, {0, 0, 0, 1}}));
}

// Behaviour 20.
TEST(Behaviour, AnInverseRestoresItsPairsRowsAndATransposeMakesNewOnes) {
  const Model model = random_model(
      R"({"name":"d","op":"conv","inputs":["input"],"kernel":2,"stride":2,"out_channels":4},
         {"name":"i","op":"inverse_conv","inputs":["d"],"pair":"d","out_channels":4},
         {"name":"t","op":"conv_transpose","inputs":["d"],"kernel":2,"stride":2,"out_channels":4})",
      3, R"("i","t")");
  const std::vector<Coord> coords{{0, 5, 0, 1}, {0, 0, 3, 0}, {0, 4, 1, 1}};
  const Result result = run(model, tensor_of(coords, 3, {.batch_size = 1}));
  EXPECT_EQ(coords_of(result.outputs[0].sparse), coords);
  EXPECT_TRUE(result.outputs[0].on_input);
  EXPECT_EQ(result.outputs[1].sparse.rows(), 16);  // two coarse cells, eight fine ones each
}

// Behaviour 21.
TEST(Behaviour, APlaneAtZeroIsKeptAndEveryFineCellHasOneOwner) {
  std::vector<Coord> plane;
  for (int x = 0; x < 8; ++x) {
    for (int z = 0; z < 8; ++z) plane.push_back({0, x, 0, z});
  }
  const auto input = tensor_of(plane, 3, {.batch_size = 1, .spatial_shape = SpatialShape{8, 8, 8}});
  EXPECT_EQ(sparse(run(random_model(kK2S2, 3), input)).rows(), 16);
  for (const int k : {2, 4}) {
    Model count = random_model(
        base::concat(R"({"name":"out","op":"sum_pool","inputs":["input"],"kernel":)", k, "}"), 1);
    auto ones = tensor_of(full_grid(8), 1, {.batch_size = 1});
    std::fill_n(ones.features.data<float>(), 512, 1.0f);
    const auto out = sparse(run(count, ones));
    EXPECT_EQ(out.rows(), 512 / (k * k * k));
    for (std::int64_t i = 0; i < out.rows(); ++i)
      EXPECT_EQ(row_of(out, i)[0], static_cast<float>(k * k * k));
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

// Behaviour 24.
TEST(Behaviour, ARegularConvolutionOfOneVoxelHasTwentySevenOutputs) {
  const Model model = random_model(
      R"({"name":"out","op":"conv","inputs":["input"],"kernel":3,"padding":1,"out_channels":2})",
      3);
  EXPECT_EQ(sparse(run(model, tensor_of({{0, 5, 5, 5}}, 3, {}))).rows(), 27);
}

// Behaviour 25.
TEST(Behaviour, AnEmptyBatchEntryStaysACount) {
  const Model model =
      random_model(R"({"name":"out","op":"global_max_pool","inputs":["input"]})", 2);
  auto input = tensor_of({{0, 1, 1, 1}, {2, 3, 3, 3}}, 2, {});
  std::fill_n(input.features.data<float>(), 4, -1.0f);
  for (const char* dtype : kDTypes) {
    const auto out = sparse(run(model, input, dtype));
    EXPECT_EQ(out.coordinates->batch_size(), 3);
    EXPECT_EQ(coords_of(out), (std::vector<Coord>{{0, 0, 0, 0}, {1, 0, 0, 0}, {2, 0, 0, 0}}));
    EXPECT_EQ(row_of(out, 0), (std::vector<float>{-1, -1}));
    EXPECT_EQ(row_of(out, 1), (std::vector<float>{0, 0}));
    EXPECT_EQ(row_of(out, 2), (std::vector<float>{-1, -1}));
  }
}

TEST(Behaviour, AFrameThatFailedIsNotTakenForACachedOne) {
  const Model model = random_model(
      R"({"name":"up","op":"conv_transpose","inputs":["input"],"kernel":1,"stride":2,"out_channels":3},
         {"name":"out","op":"add","inputs":["input","up"]})",
      3);
  const Engine engine(model, test_support::on_device({.threads = 1, .cache_maps = true}));
  const auto input = tensor_of({{0, 1, 0, 0}}, 3, {.batch_size = 1});
  for (int repeat = 0; repeat < 2; ++repeat) EXPECT_THROW(engine.run(input), base::Error);
}

// Behaviour 28: equal counts, other values; the cache goes by identity.
TEST(Behaviour, CachedMapsAreNotReusedForOtherCoordinates) {
  const Model model = random_model(kNetwork, 4);
  const Engine cached(model, test_support::on_device({.threads = 2, .cache_maps = true})),
      plain(model, test_support::on_device({.threads = 2}));
  const auto a = tensor_of({{0, 0, 0, 0}, {0, 0, 0, 1}, {0, 1, 0, 0}}, 4, {.batch_size = 1});
  const auto b = tensor_of({{0, 0, 0, 0}, {0, 5, 0, 1}, {0, 9, 0, 0}}, 4, {.batch_size = 1});
  for (const auto* input : {&a, &a, &b, &a, &b}) {
    EXPECT_TRUE(same_bits(sparse(cached.run(*input)).features, sparse(plain.run(*input)).features));
  }
}

}  // namespace
