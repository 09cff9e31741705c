// The engine as users meet it: clouds in, labels out; batches, threads, points, memory.
#include "sparseconv/engine.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "gemm_core/base/sanitizers.hpp"
#include "sparseconv/devices.hpp"
#include "tests/support/make_inputs.hpp"
#include "tests/support/test_device.hpp"

namespace {

using namespace sparseconv;
using test_support::Random;
using test_support::random_model;

io::Cloud random_cloud(std::int64_t points, std::uint64_t seed, float extent = 4) {
  Random random(seed);
  std::vector<std::vector<float>> columns(4);
  for (std::int64_t i = 0; i < points; ++i) {
    for (std::size_t c = 0; c < 4; ++c) columns[c].push_back(random.value() * (c < 3 ? extent : 1));
  }
  io::Cloud cloud(points);
  const char* names[] = {"x", "y", "z", "intensity"};
  for (std::size_t c = 0; c < 4; ++c) cloud.add<float>(names[c], columns[c]);
  return cloud;
}

constexpr const char* kUNet = R"(
  {"name":"a","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":8},
  {"name":"ar","op":"relu","inputs":["a"]},
  {"name":"b","op":"conv","inputs":["ar"],"kernel":2,"stride":2,"out_channels":12},
  {"name":"d","op":"inverse_conv","inputs":["b"],"pair":"b","out_channels":8},
  {"name":"e","op":"concat","inputs":["d","ar"]},
  {"name":"head","op":"linear","inputs":["e"],"out_channels":3,"bias":true},
  {"name":"g","op":"global_avg_pool","inputs":["b"]})";

// `more` nodes behind a small U-Net over x y z intensity, with three classes.
Model cloud_model(const std::string& more = "", const std::string& outputs = R"("head","b","g")") {
  Model model = random_model(kUNet + more, 4, outputs);
  model.input.features = {"x", "y", "z", "intensity"};
  model.input.voxel_size = {0.5, 0.5, 0.5};
  model.classes = {"p", "q", "r"};
  model.class_ids = {40, 10, 7};
  return model;
}

bool same(const base::Tensor& a, const base::Tensor& b) {
  return a.shape() == b.shape() &&
         (a.numel() == 0 ||
          std::equal(a.data<float>(), a.data<float>() + a.numel(), b.data<float>()));
}

TEST(Engine, GivesEveryPointTheBestClassOfItsVoxel) {
  const io::Cloud cloud = random_cloud(300, 1);
  const Result result = Engine(cloud_model(), test_support::on_device()).run(cloud);
  const auto labels = result.labels();
  ASSERT_EQ(labels.size(), 300u);
  EXPECT_EQ(result.points, 300);
  EXPECT_EQ(result.dropped, 0);
  const SparseTensor& head = result.outputs[0].sparse;
  EXPECT_EQ(head.rows(), result.voxels);
  const std::int32_t ids[] = {40, 10, 7};
  const base::Tensor scores = result.scores();
  ASSERT_EQ(scores.shape(), (base::Dims{300, 3}));
  for (std::size_t p = 0; p < labels.size(); ++p) {
    const float* row = head.features.data<float>() + result.point_to_voxel[p] * 3;
    EXPECT_EQ(labels[p], ids[std::max_element(row, row + 3) - row]);
    const float* share = scores.data<float>() + p * 3;
    EXPECT_NEAR(share[0] + share[1] + share[2], 1, 1e-6);
    EXPECT_NEAR(std::log(share[0] / share[1]), row[0] - row[1], 1e-5);
  }
}

TEST(Engine, TiesGoToTheFirstClassAndDroppedPointsToTheLabelAskedFor) {
  Model model = cloud_model();
  model.input.range = {-1, -1, -1, 1, 1, 1};
  for (Node& node : model.nodes) {
    if (node.name != "head") continue;
    for (auto& [name, tensor] : node.weights)
      tensor = base::Tensor::zeros(tensor.shape(), base::DType::f32);
  }
  const Result result = Engine(model, test_support::on_device()).run(random_cloud(300, 1));
  EXPECT_GT(result.dropped, 0);
  const auto labels = result.labels(-1);
  const base::Tensor scores = result.scores();
  for (std::size_t p = 0; p < labels.size(); ++p) {
    EXPECT_EQ(labels[p], result.point_to_voxel[p] < 0 ? -1 : 40);
    EXPECT_FLOAT_EQ(scores.data<float>()[p * 3 + 2],
                    result.point_to_voxel[p] < 0 ? 0.0f : 1.0f / 3);
  }
}

TEST(Engine, ZeroPointsGiveZeroLabels) {
  const Result result = Engine(cloud_model(), test_support::on_device()).run(random_cloud(0, 1));
  EXPECT_TRUE(result.labels().empty());
  EXPECT_EQ(result.scores().shape(), (base::Dims{0, 3}));
  EXPECT_EQ(result.outputs.at(2).sparse.rows(), 1);  // the global pool of one empty cloud
}

TEST(Engine, LabelsNeedAnOutputOnTheInput) {
  Model model = cloud_model("", R"("b")");
  const Result none = Engine(model, test_support::on_device()).run(random_cloud(50, 1));
  EXPECT_THROW(none.labels(), base::Error);
  model.classes.assign(12, "c");
  model.class_ids.assign(12, 0);
  const Result coarse = Engine(model, test_support::on_device()).run(random_cloud(50, 1));
  EXPECT_THROW(coarse.labels(), base::Error);
}

TEST(Engine, ABatchGivesWhatEachCloudGivesAlone) {
  const io::Cloud clouds[] = {random_cloud(200, 1), random_cloud(0, 2), random_cloud(300, 3)};
  const io::Cloud* batch[] = {&clouds[0], &clouds[1], &clouds[2]};
  const std::string more =
      R"(,{"name":"p","op":"devoxelize","inputs":["head"],"mode":"trilinear"})";
  for (const char* dtype : {"fp32", "fp16"}) {
    const Engine engine(cloud_model(more, R"("head","b","g","p")"),
                        test_support::on_device({.dtype = dtype, .threads = 2}));
    const auto together = engine.run(batch);
    ASSERT_EQ(together.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      const Result alone = engine.run(clouds[i]);
      EXPECT_EQ(together[i].labels(), alone.labels());
      EXPECT_EQ(together[i].point_to_voxel, alone.point_to_voxel);
      EXPECT_EQ(together[i].voxels, alone.voxels);
      EXPECT_EQ(together[i].warnings, alone.warnings);
      for (std::size_t o = 0; o < alone.outputs.size(); ++o) {
        EXPECT_TRUE(same(together[i].outputs[o].sparse.features, alone.outputs[o].sparse.features))
            << i << o;
        if (!alone.outputs[o].sparse.coordinates) continue;
        const auto a = alone.outputs[o].sparse.coordinates->keys();
        const auto b = together[i].outputs[o].sparse.coordinates->keys();
        EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
      }
    }
  }
}

TEST(Engine, MayBeUsedFromSeveralThreads) {
  const Engine engine(cloud_model(), test_support::on_device({.threads = 2}));
  std::vector<io::Cloud> clouds;
  std::vector<std::vector<std::int32_t>> expected;
  for (std::uint64_t i = 0; i < 6; ++i) {
    clouds.push_back(random_cloud(200 + 50 * static_cast<std::int64_t>(i), i + 1));
    expected.push_back(engine.run(clouds.back()).labels());
  }
  std::vector<std::thread> threads;
  std::array<bool, 6> is_right{};
  for (std::size_t i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      bool right = true;
      for (int repeat = 0; repeat < 10; ++repeat)
        right = right && engine.run(clouds[i]).labels() == expected[i];
      is_right[i] = right;
    });
  }
  for (auto& thread : threads) thread.join();
  for (const bool right : is_right) EXPECT_TRUE(right);
}

SparseTensor one_channel(std::vector<Coord> coords, std::vector<float> values,
                         std::optional<SpatialShape> shape = {}) {
  auto features =
      base::Tensor::empty({static_cast<std::int64_t>(values.size()), 1}, base::DType::f32);
  std::copy(values.begin(), values.end(), features.data<float>());
  return {Coordinates::create(std::move(coords), {.batch_size = 1, .spatial_shape = shape}),
          features};
}

io::Cloud points_at(const std::vector<std::array<float, 3>>& points) {
  std::vector<std::vector<float>> columns(3);
  for (const auto& p : points) {
    for (std::size_t c = 0; c < 3; ++c) columns[c].push_back(p[c]);
  }
  io::Cloud cloud(static_cast<std::int64_t>(points.size()));
  const char* names[] = {"x", "y", "z"};
  for (std::size_t c = 0; c < 3; ++c) cloud.add<float>(names[c], columns[c]);
  return cloud;
}

// Features are the mean x of a voxel; cells have side 1, so that centres are at .5.
Model point_model(const std::string& nodes) {
  Model model = random_model(nodes, 1);
  model.input.features = {"x"};
  return model;
}

TEST(Devoxelize, NearestTakesThePointsOwnVoxel) {
  const Model model = point_model(R"({"name":"out","op":"devoxelize","inputs":["input"]})");
  const Result result = Engine(model, test_support::on_device())
                            .run(points_at({{3.5f, 0, 0}, {0.25f, 0, 0}, {0.75f, 0.5f, 0}}));
  const float* values = result.outputs[0].sparse.features.data<float>();
  EXPECT_EQ(values[0], 3.5f);
  EXPECT_EQ(values[1], 0.5f);
  EXPECT_EQ(values[2], 0.5f);
  EXPECT_TRUE(result.outputs[0].per_point);
}

TEST(Devoxelize, TrilinearIsExactOnALineBetweenCentresAndSharesOutAbsentWeights) {
  const Model model =
      point_model(R"({"name":"out","op":"devoxelize","inputs":["input"],"mode":"trilinear"})");
  // Voxels 0 and 1 with values 0.5 and 1.5 (each the mean of its points), and voxel 9 alone.
  const Result result = Engine(model, test_support::on_device())
                            .run(points_at({{0.25f, 0.5f, 0.5f},
                                            {0.75f, 0.5f, 0.5f},
                                            {1.5f, 0.5f, 0.5f},
                                            {9.25f, 0.25f, 0.75f}}));
  const float* values = result.outputs[0].sparse.features.data<float>();
  EXPECT_FLOAT_EQ(values[0], 0.5f);   // left of the first centre: nothing further left
  EXPECT_FLOAT_EQ(values[1], 0.75f);  // a quarter of the way to the next centre
  EXPECT_FLOAT_EQ(values[2], 1.5f);
  EXPECT_FLOAT_EQ(values[3], 9.25f);
}

TEST(Devoxelize, ReachesCoarserVoxelsAndTheWholeCloud) {
  const Model model = point_model(R"({"name":"d","op":"max_pool","inputs":["input"],"kernel":2},
                                     {"name":"out","op":"devoxelize","inputs":["d"]})");
  const Result result =
      Engine(model, test_support::on_device())
          .run(points_at({{0.5f, 0, 0}, {1.5f, 0, 0}, {2.5f, 0, 0}, {-0.5f, 0, 0}}));
  const float* values = result.outputs[0].sparse.features.data<float>();
  EXPECT_EQ(std::vector<float>(values, values + 4), (std::vector<float>{1.5f, 1.5f, 2.5f, -0.5f}));
  const Model global = point_model(R"({"name":"g","op":"global_max_pool","inputs":["input"]},
                                      {"name":"out","op":"devoxelize","inputs":["g"]})");
  const Result all =
      Engine(global, test_support::on_device()).run(points_at({{0.5f, 0, 0}, {-7, 3, 2}}));
  EXPECT_EQ(all.outputs[0].sparse.features.data<float>()[1], 0.5f);
}

TEST(Devoxelize, GivesZerosToDroppedPointsAndLabelsFollow) {
  Model model = cloud_model(R"(,{"name":"p","op":"devoxelize","inputs":["head"]})", R"("p")");
  model.input.range = {-1, -1, -1, 1, 1, 1};
  const Result result = Engine(model, test_support::on_device()).run(random_cloud(200, 5));
  const auto labels = result.labels(-1);
  const float* values = result.outputs[0].sparse.features.data<float>();
  for (std::size_t p = 0; p < labels.size(); ++p) {
    EXPECT_EQ(labels[p] == -1, result.point_to_voxel[p] < 0);
    if (labels[p] == -1) {
      EXPECT_EQ(values[p * 3], 0);
    }
  }
}

TEST(Devoxelize, OfVoxelsGivesARowAVoxel) {
  for (const char* mode : {"nearest", "trilinear"}) {
    const Model model = point_model(base::concat(
        R"({"name":"out","op":"devoxelize","inputs":["input"],"mode":")", mode, "\"}"));
    const Result result = Engine(model, test_support::on_device())
                              .run(one_channel({{0, 5, 5, 5}, {0, 4, 5, 5}}, {1, 2}));
    EXPECT_EQ(result.outputs[0].sparse.features.data<float>()[0], 1);
    EXPECT_EQ(result.outputs[0].sparse.features.data<float>()[1], 2);
  }
}

TEST(VoxelInput, ShapesOfModelAndFileMustAgreeAndEitherHolds) {
  Model model = point_model(R"({"name":"out","op":"to_dense","inputs":["input"]})");
  const auto dense_shape = [&](const std::optional<SpatialShape>& of_model,
                               const std::optional<SpatialShape>& of_file) {
    model.input.spatial_shape = of_model;
    return Engine(model, test_support::on_device())
        .run(one_channel({{0, 1, 2, 3}}, {5}, of_file))
        .outputs[0]
        .dense;
  };
  const SpatialShape shape{4, 5, 6};
  for (const auto& dense :
       {dense_shape(shape, {}), dense_shape({}, shape), dense_shape(shape, shape)}) {
    EXPECT_EQ(dense.shape(), (base::Dims{1, 6, 5, 4}));
    EXPECT_EQ(dense.data<float>()[(3 * 5 + 2) * 4 + 1], 5);
  }
  EXPECT_THROW(dense_shape(shape, SpatialShape{4, 5, 7}), base::Error);
  EXPECT_THROW(dense_shape(SpatialShape{1, 5, 6}, {}), base::Error);  // a row outside
}

TEST(VoxelInput, ChannelsMustFitAndNonFiniteValuesAreReadAsZero) {
  const Model model = point_model(R"({"name":"out","op":"relu","inputs":["input"]})");
  const Result result = Engine(model, test_support::on_device())
                            .run(one_channel({{0, 0, 0, 0}, {0, 1, 0, 0}}, {NAN, 2}));
  EXPECT_EQ(result.outputs[0].sparse.features.data<float>()[0], 0);
  ASSERT_EQ(result.warnings.size(), 1u);
  EXPECT_NE(result.warnings[0].find("1 non-finite"), std::string::npos);
  EXPECT_THROW(
      Engine(cloud_model(), test_support::on_device()).run(one_channel({{0, 0, 0, 0}}, {1})),
      base::Error);
}

TEST(VoxelInput, HalfPrecisionFeaturesAreRead) {
  const Model model = point_model(R"({"name":"out","op":"relu","inputs":["input"]})");
  SparseTensor input = one_channel({{0, 0, 0, 0}}, {2.5f});
  input.features = input.features.to(base::DType::f16);
  for (const char* dtype : {"fp32", "fp16", "bf16"}) {
    EXPECT_EQ(Engine(model, test_support::on_device({.dtype = dtype}))
                  .run(input)
                  .outputs[0]
                  .sparse.features.data<float>()[0],
              2.5f);
  }
}

TEST(EngineOptions, SeveralGpusAreNamedTogether) {
  const auto devices = parse_devices("cuda:1,0");
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].index, 1);
  EXPECT_EQ(devices[1].index, 0);
  EXPECT_EQ(parse_devices("cuda")[0].index, 0);
  EXPECT_TRUE(parse_devices("cpu")[0].is_cpu());
  for (const char* text : {"", "cpu,0", "cuda:0,", "cuda:0,0", "cuda:0,cpu", "cuda:0,x"})
    EXPECT_THROW(parse_devices(text), base::Error) << text;
}

TEST(EngineOptions, WrongDevicesAndDTypesAreErrors) {
  EXPECT_THROW(Engine(cloud_model(), {.device = "tpu"}), base::Error);
  EXPECT_THROW(Engine(cloud_model(), test_support::on_device({.dtype = "fp64"})), base::Error);
  EXPECT_THROW(Engine(cloud_model(), test_support::on_device({.dtype = "int4"})), base::Error);
  EXPECT_THROW(Engine(cloud_model(), {.device = "cpu", .dtype = "int8"}),
               base::Error);  // CUDA only
  EXPECT_THROW(Engine(cloud_model(), test_support::on_device({.threads = -1})), base::Error);
}

TEST(EngineMemory, PartsAreReported) {
  const Result result = Engine(cloud_model(), test_support::on_device()).run(random_cloud(500, 1));
  EXPECT_GT(result.memory.weights, 0);
  EXPECT_GT(result.memory.maps, 0);
  EXPECT_GT(result.memory.activations, 0);
  if (test_support::is_on_cpu()) {
    EXPECT_GT(result.memory.peak_process, result.memory.activations);
  } else {
    EXPECT_GT(result.memory.device, result.memory.activations);
  }
  EXPECT_LE(result.memory.largest_two_tensors, result.memory.activations);
  EXPECT_GE(result.timing.total, result.timing.network);
}

std::int64_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kilobytes = 0;
    if (word == "VmRSS:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

// Behaviour 16. SPARSECONV_SOAK=1 runs the full size, frames of 10k to 200k voxels (minutes); else
// a tenth of it.
TEST(EngineMemory, IsFlatOverAThousandFramesOfChangingSize) {
  if (base::kIsSanitized) GTEST_SKIP() << "a sanitizer holds on to memory that was given back";
  const char* const soak = std::getenv("SPARSECONV_SOAK");
  const int scale = soak != nullptr && std::string(soak) == "1" ? 10 : 1;
  const Engine engine(cloud_model(), test_support::on_device({.threads = 2}));
  std::vector<io::Cloud> clouds;
  for (int i = 0; i < 10; ++i) {
    clouds.push_back(random_cloud(scale * (1100 + 2100 * i), static_cast<std::uint64_t>(i + 1),
                                  scale > 1 ? 60.0f : 25.0f));
  }
  std::int64_t least = 1 << 30, most = 0;
  const auto frame = [&](int i) {
    const Result result = engine.run(clouds[static_cast<std::size_t>(i * 7 % 10)]);
    least = std::min(least, result.voxels);
    most = std::max(most, result.voxels);
  };
  for (int i = 0; i < 40; ++i) frame(i);
  const std::int64_t before = resident_bytes();
  for (int i = 0; i < 1000; ++i) frame(i);
  EXPECT_LT(resident_bytes() - before, 8 << 20);
  EXPECT_LE(least, scale * 1100);
  EXPECT_GT(most, scale * 17000);
}

TEST(Profile, NamesEveryStep) {
  const Engine engine(cloud_model(), test_support::on_device({.threads = 2}));
  const auto steps = engine.profile(test_support::random_tensor({}));
  ASSERT_EQ(steps.size(), 5u);
  EXPECT_EQ(steps[0].node, "ar");
  EXPECT_EQ(steps[3].node, "head");
}

}  // namespace
