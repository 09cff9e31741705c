// Means over turned views, against a computation that turns, runs and averages by hand.
#include "sparseconv/views.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/make_inputs.hpp"
#include "tests/support/test_device.hpp"

namespace {

using namespace sparseconv;
using test_support::Random;
using test_support::random_model;

constexpr std::int64_t kClasses = 3;

using Points = std::vector<std::array<double, 4>>;  // x y z intensity

Points random_points(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  Points points(count);
  for (auto& point : points) {
    for (std::size_t c = 0; c < 4; ++c) point[c] = static_cast<double>(random.value());
    // Off the borders of cells in every view, where rounding would decide.
    point = {4 * point[0] + 0.0137, 4 * point[1] + 0.0291, 4 * point[2] + 0.01, point[3]};
  }
  return points;
}

template <class T>
io::Cloud cloud_of(const Points& points) {
  io::Cloud cloud(static_cast<std::int64_t>(points.size()));
  const char* names[] = {"x", "y", "z", "intensity"};
  for (std::size_t c = 0; c < 4; ++c) {
    std::vector<T> column;
    for (const auto& point : points) column.push_back(static_cast<T>(point[c]));
    cloud.add<T>(names[c], column);
  }
  return cloud;
}

// `more` nodes behind a head on the voxels.
Model model_with(std::vector<std::string> features, const std::string& more = "",
                 const std::string& outputs = R"("head")") {
  Model model = random_model(
      R"({"name":"a","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":8},
         {"name":"r","op":"relu","inputs":["a"]},
         {"name":"head","op":"linear","inputs":["r"],"out_channels":3,"bias":true})" +
          more,
      static_cast<std::int64_t>(features.size()), outputs);
  model.input.features = std::move(features);
  model.input.voxel_size = {0.5, 0.5, 0.5};
  model.classes = {"p", "q", "r"};
  model.class_ids = {40, 10, 7};
  return model;
}

const std::vector<std::string> kAll = {"x", "y", "z", "dx", "dy", "dz", "intensity", "one"};

// Means by hand: the points turned here, the softmax of the raw output taken here in double.
struct ByHand {
  std::vector<std::array<double, 3>> mean;  // zeros: in no view
  std::vector<int> seen;
};
template <class T>
ByHand by_hand(const Engine& engine, const Points& points, int views) {
  ByHand result{std::vector<std::array<double, 3>>(points.size()), std::vector<int>(points.size())};
  for (int k = 0; k < views; ++k) {
    const double angle = k * 180.0 / views * std::acos(-1.0) / 180;
    Points turned = points;
    for (auto& point : turned) {
      const double x = static_cast<T>(point[0]), y = static_cast<T>(point[1]);
      if (k == 0) continue;
      point[0] = x * std::cos(angle) - y * std::sin(angle);
      point[1] = x * std::sin(angle) + y * std::cos(angle);
    }
    const Result run = engine.run(cloud_of<T>(turned));
    const Output& output = run.outputs.at(0);
    for (std::size_t p = 0; p < points.size(); ++p) {
      const std::int64_t voxel = run.point_to_voxel[p];
      if (voxel < 0) continue;
      const std::int64_t row = output.per_point ? static_cast<std::int64_t>(p) : voxel;
      const float* raw = output.sparse.features.data<float>() + row * kClasses;
      double sum = 0;
      for (int c = 0; c < 3; ++c) sum += std::exp(static_cast<double>(raw[c]));
      for (std::size_t c = 0; c < 3; ++c) {
        result.mean[p][c] += std::exp(static_cast<double>(raw[c])) / sum;
      }
      ++result.seen[p];
    }
  }
  for (std::size_t p = 0; p < points.size(); ++p) {
    for (double& mean : result.mean[p]) mean /= std::max(result.seen[p], 1);
  }
  return result;
}

template <class T>
void expect_as_by_hand(const Model& model, int views) {
  const Engine engine(model, test_support::on_device());
  const Points points = random_points(400, 5);
  const Result result = run_views(engine, cloud_of<T>(points), views);
  const ByHand expected = by_hand<T>(engine, points, views);
  const base::Tensor scores = result.scores();
  ASSERT_EQ(scores.shape(), (base::Dims{400, kClasses}));
  const auto labels = result.labels(-1);
  ASSERT_EQ(labels.size(), points.size());
  std::int64_t dropped = 0;
  for (std::size_t p = 0; p < points.size(); ++p) {
    const auto& mean = expected.mean[p];
    const float* score = std::as_const(scores).data<float>() + p * kClasses;
    for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(score[c], mean[c], 1e-5) << p << ' ' << c;
    const auto best = std::max_element(mean.begin(), mean.end()) - mean.begin();
    const double first = mean[static_cast<std::size_t>(best)];
    const bool is_close =
        std::count_if(mean.begin(), mean.end(), [&](double m) { return m > first - 1e-5; }) > 1;
    if (expected.seen[p] == 0) {
      EXPECT_EQ(labels[p], -1) << p;
      ++dropped;
    } else if (!is_close) {
      EXPECT_EQ(labels[p], model.class_ids[static_cast<std::size_t>(best)]) << p;
    }
  }
  EXPECT_EQ(result.dropped, dropped);
  EXPECT_EQ(result.points, 400);
}

TEST(Views, OneViewIsTheRunItself) {
  const Engine engine(model_with(kAll), test_support::on_device());
  const io::Cloud cloud = cloud_of<float>(random_points(300, 1));
  const Result once = engine.run(cloud), viewed = run_views(engine, cloud, 1);
  EXPECT_EQ(viewed.labels(), once.labels());
  EXPECT_FALSE(viewed.probabilities);
  EXPECT_EQ(viewed.outputs.size(), once.outputs.size());
}

TEST(Views, AreTheMeanOfTheSoftmaxOfCloudsTurnedByHand) {
  for (const int views : {2, 3, 4, 8}) {
    SCOPED_TRACE(views);
    expect_as_by_hand<float>(model_with(kAll), views);
    expect_as_by_hand<double>(model_with(kAll), views);
  }
}

TEST(Views, AnOutputAPointIsAveragedToo) {
  expect_as_by_hand<float>(
      model_with(kAll, R"(,{"name":"p","op":"devoxelize","inputs":["head"],"mode":"trilinear"})",
                 R"("p")"),
      4);
}

TEST(Views, APointThatSomeViewsDropIsTheMeanOfTheOthers) {
  Model model = model_with(kAll);
  model.input.range = {-2, -3, -3, 3, 1, 3};  // turned corners fall out, others come in
  const Engine engine(model, test_support::on_device());
  const ByHand expected = by_hand<float>(engine, random_points(400, 5), 4);
  for (const int seen : {0, 1, 3, 4}) {
    EXPECT_GT(std::count(expected.seen.begin(), expected.seen.end(), seen), 0) << seen;
  }
  expect_as_by_hand<float>(model, 4);
}

TEST(Views, KeepTheFirstPointsAsAResultOfOneViewDoes) {
  Model model = model_with(kAll);
  model.input.range = {-2, -3, -3, 3, 1, 3};
  const Engine engine(model, test_support::on_device());
  Result result = run_views(engine, cloud_of<float>(random_points(400, 5)), 4);
  const auto all = result.labels(-1);
  result.keep_first_points(150);
  const auto kept = result.labels(-1);
  EXPECT_EQ(kept, std::vector<std::int32_t>(all.begin(), all.begin() + 150));
  EXPECT_EQ(result.dropped, std::count(kept.begin(), kept.end(), -1));
  EXPECT_GT(result.dropped, 0);
  EXPECT_EQ(result.scores().shape(), (base::Dims{150, kClasses}));
}

TEST(Views, TiesGoToTheFirstClassAndNoPointsGiveNone) {
  Model model = model_with(kAll);
  for (Node& node : model.nodes) {
    if (node.name != "head") continue;
    for (auto& [name, tensor] : node.weights)
      tensor = base::Tensor::zeros(tensor.shape(), base::DType::f32);
  }
  const Engine engine(model, test_support::on_device());
  const Result result = run_views(engine, cloud_of<float>(random_points(50, 2)), 3);
  EXPECT_EQ(result.labels(), std::vector<std::int32_t>(50, 40));
  const Result none = run_views(engine, cloud_of<float>({}), 3);
  EXPECT_TRUE(none.labels().empty());
  EXPECT_EQ(none.scores().shape(), (base::Dims{0, kClasses}));
}

std::string refusal(const Model& model, int views) {
  try {
    check_views(model, views);
  } catch (const base::Error& error) {
    return error.what();
  }
  return "";
}

TEST(Views, RefuseNumbersOutOfRangeAndFeaturesThatTurn) {
  for (const int views : {0, -1, 65}) EXPECT_NE(refusal(model_with(kAll), views), "") << views;
  EXPECT_EQ(refusal(model_with(kAll), 64), "");
  for (const std::string name : {"nx", "ny", "vx", "vy", "velocity_x", "yaw"}) {
    EXPECT_NE(refusal(model_with({"z", name}), 2).find("'" + name + "'"), std::string::npos);
    EXPECT_EQ(refusal(model_with({"z", name}), 1), "");
  }
  for (const std::string name : {"nz", "vz", "dz", "intensity", "density", "index", "time"})
    EXPECT_EQ(refusal(model_with({"z", name}), 2), "") << name;
  Model bare = model_with(kAll);
  bare.classes.clear();
  bare.class_ids.clear();
  EXPECT_NE(refusal(bare, 2).find("no classes"), std::string::npos);
}

TEST(Views, RefuseAStoredOffsetAndAnOutputElsewhere) {
  const Points points = random_points(50, 2);
  io::Cloud cloud = cloud_of<float>(points);
  cloud.add<float>("dx", std::vector<float>(50));
  EXPECT_THROW(run_views(Engine(model_with({"dx"}), test_support::on_device()), cloud, 2),
               base::Error);
  EXPECT_NO_THROW(run_views(Engine(model_with({"z"}), test_support::on_device()), cloud, 2));
  const Model elsewhere = model_with(
      {"z"}, R"(,{"name":"b","op":"conv","inputs":["r"],"kernel":2,"stride":2,"out_channels":3})",
      R"("b")");
  EXPECT_THROW(run_views(Engine(elsewhere, test_support::on_device()), cloud, 2), base::Error);
}

}  // namespace
