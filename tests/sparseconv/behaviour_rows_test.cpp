// Which rows there are: what users of other engines reported as broken about coordinates
// (docs/testing.md), on the engine, in every dtype.
#include <set>

#include "tests/sparseconv/behaviour.hpp"
#include "tests/support/error_message.hpp"

namespace {

using namespace behaviour;
using test_support::message_of;

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

// Behaviour 19.
TEST(Behaviour, NegativeCoordinatesAreFloored) {
  const auto input = tensor_of({{0, -1, -2, -3}, {0, 0, 1, 2}}, 3, {.batch_size = 1});
  for (const char* dtype : kDTypes) {
    const auto coords = coords_of(sparse(run(random_model(kK2S2, 3), input, dtype)));
    EXPECT_EQ(std::set<Coord>(coords.begin(), coords.end()),
              (std::set<Coord>{{0, -1, -1, -2}, {0, 0, 0, 1}}));
  }
}

// Behaviour 20.
TEST(Behaviour, AnInverseRestoresItsPairsRowsAndATransposeMakesNewOnes) {
  const Model model = random_model(
      R"({"name":"d","op":"conv","inputs":["input"],"kernel":2,"stride":2,"out_channels":4},
         {"name":"i","op":"inverse_conv","inputs":["d"],"pair":"d","out_channels":4},
         {"name":"t","op":"conv_transpose","inputs":["d"],"kernel":2,"stride":2,"out_channels":4})",
      3, R"("i","t")");
  const std::vector<Coord> coords{{0, 5, 0, 1}, {0, 0, 3, 0}, {0, 4, 1, 1}};
  for (const char* dtype : kDTypes) {
    const Result result = run(model, tensor_of(coords, 3, {.batch_size = 1}), dtype);
    EXPECT_EQ(coords_of(result.outputs[0].sparse), coords);
    EXPECT_TRUE(result.outputs[0].on_input);
    EXPECT_EQ(result.outputs[1].sparse.rows(), 16);  // two coarse cells, eight fine ones each
  }
}

// Behaviour 21.
TEST(Behaviour, APlaneAtZeroIsKeptAndEveryFineCellHasOneOwner) {
  std::vector<Coord> plane;
  for (int x = 0; x < 8; ++x) {
    for (int z = 0; z < 8; ++z) plane.push_back({0, x, 0, z});
  }
  const auto input = tensor_of(plane, 3, {.batch_size = 1, .spatial_shape = SpatialShape{8, 8, 8}});
  for (const char* dtype : kDTypes) {
    EXPECT_EQ(sparse(run(random_model(kK2S2, 3), input, dtype)).rows(), 16);
  }
  for (const int k : {2, 4}) {
    Model count = random_model(
        base::concat(R"({"name":"out","op":"sum_pool","inputs":["input"],"kernel":)", k, "}"), 1);
    auto ones = tensor_of(full_grid(8), 1, {.batch_size = 1});
    std::fill_n(ones.features.data<float>(), 512, 1.0f);
    for (const char* dtype : kDTypes) {
      const auto out = sparse(run(count, ones, dtype));
      EXPECT_EQ(out.rows(), 512 / (k * k * k));
      for (std::int64_t i = 0; i < out.rows(); ++i)
        EXPECT_EQ(row_of(out, i)[0], static_cast<float>(k * k * k));
    }
  }
}

// Behaviour 24.
TEST(Behaviour, ARegularConvolutionOfOneVoxelHasTwentySevenOutputs) {
  const Model model = random_model(
      R"({"name":"out","op":"conv","inputs":["input"],"kernel":3,"padding":1,"out_channels":2})",
      3);
  for (const char* dtype : kDTypes) {
    EXPECT_EQ(sparse(run(model, tensor_of({{0, 5, 5, 5}}, 3, {}), dtype)).rows(), 27);
  }
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
