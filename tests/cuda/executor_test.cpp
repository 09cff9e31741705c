// The CUDA executor against the CPU's: whole networks, same plan, same input.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>

#include "sparseconv/executor.hpp"
#include "tests/cuda/host_map.hpp"
#include "tests/cuda/require_device.hpp"

namespace cuda_tests {
namespace {

using base::DType;
using namespace sparseconv;

SparseTensor scan(int rows, int batches, std::int64_t channels, unsigned seed,
                  std::optional<SpatialShape> shape = std::nullopt) {
  std::vector<sparseconv::Coord> coords;
  for (int b = 0; b < batches; ++b) {
    for (const auto& c : surface_cells(rows / batches, seed + static_cast<unsigned>(b))) {
      if (!shape) {
        coords.push_back({b, c.x, c.y, c.z});
        continue;
      }
      const std::int64_t x = c.x + (*shape)[0] / 2, y = c.y + (*shape)[1] / 2,
                         z = c.z + (*shape)[2] / 2;
      const bool is_inside =
          x >= 0 && y >= 0 && z >= 0 && x < (*shape)[0] && y < (*shape)[1] && z < (*shape)[2];
      if (is_inside)
        coords.push_back({b, static_cast<int>(x), static_cast<int>(y), static_cast<int>(z)});
    }
  }
  std::sort(coords.begin(), coords.end(),
            [](const auto& a, const auto& b) { return pack(a) < pack(b); });
  SparseTensor input;
  const auto count = static_cast<std::int64_t>(coords.size());
  input.coordinates =
      Coordinates::create(std::move(coords), {.batch_size = batches, .spatial_shape = shape});
  input.features = base::Tensor::empty({count, channels}, DType::f32);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  for (std::int64_t i = 0; i < input.features.numel(); ++i)
    input.features.data<float>()[i] = static_cast<float>(base::half_t(normal(random)));
  return input;
}

double tolerance(DType dtype) {
  // Of the largest value: what whole networks are held to, with fp32 sums.
  return dtype == DType::f32 ? 2e-5 : dtype == DType::bf16 ? 4e-2 : 1e-2;
}

void expect_close(const base::Tensor& got, const base::Tensor& wanted, DType dtype,
                  const std::string& what) {
  ASSERT_EQ(base::to_string(got.shape()), base::to_string(wanted.shape())) << what;
  double worst = 0, largest = 1e-30;
  for (std::int64_t i = 0; i < wanted.numel(); ++i) {
    const double difference =
        std::abs(static_cast<double>(got.data<float>()[i]) - wanted.data<float>()[i]);
    worst = difference <= worst ? worst : difference;  // NaN stays
    largest = std::max(largest, std::abs(static_cast<double>(wanted.data<float>()[i])));
  }
  EXPECT_LE(worst / largest, tolerance(dtype)) << what << ", largest value " << largest;
}

void expect_equal(const FrameOutput& got, const FrameOutput& wanted, DType dtype,
                  const std::string& what) {
  ASSERT_EQ(got.outputs.size(), wanted.outputs.size());
  for (std::size_t i = 0; i < got.outputs.size(); ++i) {
    const Output &a = got.outputs[i], &b = wanted.outputs[i];
    EXPECT_EQ(a.node, b.node);
    if (b.dense.defined()) {
      expect_close(a.dense, b.dense, dtype, what + " " + b.node);
      continue;
    }
    ASSERT_TRUE(std::ranges::equal(a.sparse.coordinates->coords(), b.sparse.coordinates->coords()))
        << what << " " << b.node;
    expect_close(a.sparse.features, b.sparse.features, dtype, what + " " + b.node);
  }
}

const ExecutorOptions kCpu{};
ExecutorOptions cuda(DType dtype) {
  return {.device = {base::Device::Kind::cuda, 0}, .dtype = dtype, .cache_maps = false};
}

Model network(const std::string& name, double width = 1) {
  Model model = build_architecture(
      name, {.in_channels = 4, .classes = {}, .width = width, .seed = 3, .voxel_size = 0.1});
  validate(model);
  return model;
}

TEST(CudaExecutor, NetworksEqualTheCpusForEveryType) {
  REQUIRE_DEVICE();
  for (const char* name :
       {"minkunet18", "minkunet42", "second", "voxelresnet8x", "spunet", "voxelnext"}) {
    const Model model = network(name);
    const Plan plan = make_plan(model);
    const bool is_bounded = std::string(name) == "second" || std::string(name) == "voxelresnet8x" ||
                            std::string(name) == "voxelnext";
    const auto shape = is_bounded ? std::optional(SpatialShape{240, 200, 41}) : std::nullopt;
    const SparseTensor input = scan(6000, 2, 4, 17, shape);
    FrameOutput expected;
    make_cpu_executor(plan, kCpu)->run({.voxels = input}, expected);
    for (const DType dtype : {DType::f32, DType::tf32, DType::f16, DType::bf16}) {
      const auto executor = make_cuda_executor(plan, cuda(dtype));
      FrameOutput output;
      executor->run({.voxels = input}, output);
      expect_equal(output, expected, dtype,
                   std::string(name) + " " + std::string(base::name(dtype)));
    }
  }
}

Node node(const std::string& name, Op op, const std::string& input, std::int64_t channels = 0) {
  Node n;
  n.name = name;
  n.op = op;
  n.inputs = {input};
  n.out_channels = channels;
  return n;
}

base::Tensor weight(const base::Dims& shape) {
  auto w = base::Tensor::empty(shape, DType::f32);
  for (std::int64_t i = 0; i < w.numel(); ++i) {
    w.data<float>()[i] =
        static_cast<float>(base::half_t(static_cast<float>(i * 37 % 101) / 101 - 0.5f));
  }
  return w;
}

TEST(CudaExecutor, PoolsPointsAndActivationsEqualTheCpus) {
  REQUIRE_DEVICE();
  Model model;
  model.input.features = {"x", "y", "z"};
  model.nodes.push_back(node("head", Op::linear, "input", 19));
  model.nodes.back().weights["weight"] = weight({19, 3});
  for (const Op op : {Op::max_pool, Op::avg_pool, Op::sum_pool}) {
    model.nodes.push_back(node(std::string(name(op)), op, "head"));
    model.nodes.back().geometry = {
        .kernel = {3, 3, 3}, .stride = {2, 2, 2}, .padding = {1, 1, 1}, .dilation = {1, 1, 1}};
  }
  model.nodes.push_back(node("global_max", Op::global_max_pool, "max_pool"));
  model.nodes.push_back(node("global_avg", Op::global_avg_pool, "head"));
  model.nodes.push_back(node("gate", Op::sigmoid, "head"));
  model.nodes.push_back(node("points", Op::devoxelize, "gate"));
  model.outputs = {"avg_pool", "sum_pool", "global_max", "global_avg", "points"};
  validate(model);
  const Plan plan = make_plan(model);
  const SparseTensor input = scan(4000, 3, 3, 9);
  std::vector<std::int64_t> point_rows;
  for (std::int64_t p = 0; p < 5000; ++p)
    point_rows.push_back(p % 7 == 0 ? -1 : p * 31 % input.rows());
  const FrameInput frame{
      .voxels = input, .has_points = true, .point_rows = point_rows, .point_positions = {}};
  FrameOutput expected;
  make_cpu_executor(plan, kCpu)->run(frame, expected);
  for (const DType dtype : {DType::f32, DType::tf32, DType::f16, DType::bf16}) {
    FrameOutput output;
    make_cuda_executor(plan, cuda(dtype))->run(frame, output);
    ASSERT_EQ(output.outputs.size(), expected.outputs.size());
    for (std::size_t i = 0; i < expected.outputs.size(); ++i) {
      expect_close(output.outputs[i].sparse.features, expected.outputs[i].sparse.features, dtype,
                   expected.outputs[i].node);
      EXPECT_EQ(output.outputs[i].per_point, expected.outputs[i].per_point);
    }
  }
}

// Coarse and blended points, of points and of voxels in any order; layers on the whole cloud.
TEST(CudaExecutor, DevoxelizeAndGlobalLayersEqualTheCpus) {
  REQUIRE_DEVICE();
  Model model;
  model.input.features = {"x", "y", "z"};
  model.nodes.push_back(node("head", Op::linear, "input", 19));
  model.nodes.back().weights["weight"] = weight({19, 3});
  model.nodes.push_back(node("coarse", Op::max_pool, "head"));
  model.nodes.back().geometry = {
      .kernel = {3, 3, 3}, .stride = {2, 2, 2}, .padding = {1, 1, 1}, .dilation = {1, 1, 1}};
  model.nodes.push_back(node("all", Op::global_avg_pool, "coarse"));
  model.nodes.push_back(node("mix", Op::conv, "all", 5));
  model.nodes.back().submanifold = true;
  model.nodes.back().geometry = ConvGeometry::submanifold({3, 3, 3});
  model.nodes.back().weights["weight"] = weight({5, 3, 3, 3, 19});
  for (const char* from : {"head", "coarse", "all"}) {
    for (const bool trilinear : {false, true}) {
      const std::string name = std::string(from) + (trilinear ? "_blend" : "_nearest");
      model.nodes.push_back(node(name, Op::devoxelize, from));
      model.nodes.back().trilinear = trilinear;
      model.outputs.push_back(name);
    }
  }
  model.outputs.push_back("mix");
  validate(model);
  const Plan plan = make_plan(model);
  const SparseTensor sorted = scan(4000, 3, 3, 9);
  std::vector<sparseconv::Coord> coords(sorted.coordinates->coords().begin(),
                                        sorted.coordinates->coords().end());
  std::shuffle(coords.begin(), coords.end(), std::mt19937(7));
  const SparseTensor shuffled{
      Coordinates::create(coords, {.batch_size = 3, .spatial_shape = std::nullopt}),
      sorted.features};
  std::mt19937 random(11);
  std::uniform_real_distribution<double> within(-0.5, 0.5);
  for (const SparseTensor* input : {&sorted, &shuffled}) {
    std::vector<std::int64_t> point_rows;
    std::vector<std::array<double, 3>> positions;
    for (std::int64_t p = 0; p < 5000; ++p) {
      const std::int64_t row = p * 31 % input->rows();
      const sparseconv::Coord c = input->coordinates->coords()[static_cast<std::size_t>(row)];
      point_rows.push_back(p % 7 == 0 ? -1 : row);
      positions.push_back({c.x + within(random), c.y + within(random), c.z + within(random)});
    }
    for (const bool has_points : {false, true}) {
      FrameInput frame{.voxels = *input, .has_points = has_points};
      if (has_points) {
        frame.point_rows = point_rows;
        frame.point_positions = positions;
      }
      FrameOutput expected;
      make_cpu_executor(plan, kCpu)->run(frame, expected);
      for (const DType dtype : {DType::f32, DType::tf32, DType::f16, DType::bf16}) {
        FrameOutput output;
        make_cuda_executor(plan, cuda(dtype))->run(frame, output);
        for (std::size_t i = 0; i < expected.outputs.size(); ++i) {
          expect_close(output.outputs[i].sparse.features, expected.outputs[i].sparse.features,
                       dtype, expected.outputs[i].node);
        }
      }
    }
  }
}

TEST(CudaExecutor, FramesOfChangingSizeAndEmptyFrames) {
  REQUIRE_DEVICE();
  const Model model = network("minkunet18", 0.5);
  const Plan plan = make_plan(model);
  const auto cpu = make_cpu_executor(plan, kCpu), gpu = make_cuda_executor(plan, cuda(DType::f32));
  for (const int rows : {3000, 1, 0, 7000, 64, 2999, 12000, 0, 5}) {
    const SparseTensor input = scan(rows, 1, 4, static_cast<unsigned>(rows));
    FrameOutput expected, output;
    cpu->run({.voxels = input}, expected);
    gpu->run({.voxels = input}, output);
    expect_equal(output, expected, DType::f32, std::to_string(rows) + " rows");
  }
}

// Orders of rows and kernels follow the size of the batch.
TEST(CudaExecutor, BatchesOfChangingSize) {
  REQUIRE_DEVICE();
  const Model model = network("minkunet18");
  const Plan plan = make_plan(model);
  const auto cpu = make_cpu_executor(plan, kCpu), gpu = make_cuda_executor(plan, cuda(DType::f16));
  for (const int batches : {1, 3, 1, 2}) {
    const SparseTensor input = scan(3000 * batches, batches, 4, static_cast<unsigned>(batches));
    FrameOutput expected, output;
    cpu->run({.voxels = input}, expected);
    gpu->run({.voxels = input}, output);
    expect_equal(output, expected, DType::f16, std::to_string(batches) + " entries");
  }
}

TEST(CudaExecutor, GivesTheSameBitsFromSeveralThreads) {
  REQUIRE_DEVICE();
  const Model model = network("minkunet18", 0.5);
  const Plan plan = make_plan(model);
  const auto gpu = make_cuda_executor(plan, cuda(DType::f16));
  const SparseTensor input = scan(20000, 1, 4, 5);
  FrameOutput first;
  gpu->run({.voxels = input}, first);
  const base::Tensor& expected = first.outputs[0].sparse.features;
  std::vector<int> differing(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < differing.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        FrameOutput output;
        gpu->run({.voxels = input}, output);
        const base::Tensor& values = output.outputs[0].sparse.features;
        differing[t] += !std::equal(values.data<float>(), values.data<float>() + values.numel(),
                                    expected.data<float>());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const int count : differing) EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace cuda_tests
