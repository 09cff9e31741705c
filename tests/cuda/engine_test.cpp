// The engine on a GPU: clouds voxelised on the device, labels, captured frames, memory, many
// frames.
#include "sparseconv/engine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <thread>

#include "gemm_core/base/cuda/resources.hpp"
#include "io/simulator.hpp"
#include "tests/cuda/require_device.hpp"
#include "tests/support/make_inputs.hpp"

namespace cuda_tests {
namespace {

using namespace sparseconv;

Model network(const std::string& name, double width, double voxel_size = 0.4) {
  return build_architecture(
      name, {.in_channels = 4, .classes = {}, .width = width, .seed = 3, .voxel_size = voxel_size});
}

// Points of a simulated street; every `stride`-th.
io::Cloud street(int frame, std::int64_t stride = 1, float bad = 0) {
  const io::Cloud whole = io::Simulator({.sensor = "hdl64", .seed = 5}).frame(frame);
  const std::int64_t points = whole.size() / stride;
  io::Cloud cloud(points);
  for (const char* name : {"x", "y", "z", "intensity"}) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < points; ++i)
      values.push_back(static_cast<float>(whole.get(name).at(i * stride)));
    if (bad != 0 && points > 3) values[3] = bad;
    cloud.add<float>(name, values);
  }
  return cloud;
}

struct Kept {
  std::vector<Result> results;
  std::vector<std::int32_t> labels;
};

Kept run(const Engine& engine, const std::vector<const io::Cloud*>& clouds) {
  Kept kept{engine.run(clouds), {}};
  for (const Result& result : kept.results) {
    const auto labels = result.labels(-1);
    kept.labels.insert(kept.labels.end(), labels.begin(), labels.end());
  }
  return kept;
}

void expect_same_frame(const Result& got, const Result& wanted) {
  EXPECT_EQ(got.points, wanted.points);
  EXPECT_EQ(got.voxels, wanted.voxels);
  EXPECT_EQ(got.dropped, wanted.dropped);
  EXPECT_EQ(got.warnings, wanted.warnings);
  EXPECT_EQ(got.point_to_voxel, wanted.point_to_voxel);
  ASSERT_EQ(got.outputs.size(), wanted.outputs.size());
  for (std::size_t i = 0; i < wanted.outputs.size(); ++i) {
    const Output &a = got.outputs[i], &b = wanted.outputs[i];
    if (b.dense.defined() || b.per_point) continue;
    ASSERT_TRUE(std::ranges::equal(a.sparse.coordinates->coords(), b.sparse.coordinates->coords()));
    EXPECT_EQ(a.sparse.coordinates->batch_size(), b.sparse.coordinates->batch_size());
    double worst = 0, largest = 1e-30;
    for (std::int64_t v = 0; v < b.sparse.features.numel(); ++v) {
      const float x = a.sparse.features.data<float>()[v], y = b.sparse.features.data<float>()[v];
      worst = std::max(worst, std::abs(double{x} - double{y}));
      largest = std::max(largest, std::abs(double{y}));
    }
    EXPECT_LE(worst / largest, 2e-5) << b.node;
  }
}

TEST(CudaEngine, CloudsVoxelisedOnTheDeviceGiveWhatTheCpuGives) {
  REQUIRE_DEVICE();
  const Model model = network("minkunet18", 0.25);
  const Engine cpu(model), gpu(model, {.device = "cuda"});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const io::Cloud a = street(0), b = street(1, 3), bad = street(2, 2, nan),
                  far = street(3, 2, 9e4f), none(0);
  for (const std::vector<const io::Cloud*>& clouds : {std::vector<const io::Cloud*>{&a},
                                                      {&b},
                                                      {&bad},
                                                      {&far},
                                                      {&none},
                                                      {&a, &b},
                                                      {&b, &bad},
                                                      {&none, &b, &none}}) {
    const auto wanted = cpu.run(clouds), got = gpu.run(clouds);
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) expect_same_frame(got[i], wanted[i]);
  }
}

TEST(CudaEngine, LabelsOnTheDeviceEqualThoseOfItsOutputs) {
  REQUIRE_DEVICE();
  for (const char* name : {"minkunet18", "spunet"}) {
    const Model model = network(name, 0.25);
    const Engine outputs(model, {.device = "cuda", .dtype = "fp16"}),
        labels(model, {.device = "cuda", .dtype = "fp16", .labels_only = true});
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const io::Cloud a = street(0), b = street(1, 3), bad = street(2, 2, nan);
    for (const std::vector<const io::Cloud*>& clouds :
         {std::vector<const io::Cloud*>{&a}, {&bad}, {&a, &b}, {&b, &bad}}) {
      const Kept wanted = run(outputs, clouds), got = run(labels, clouds);
      EXPECT_EQ(got.labels, wanted.labels);
      for (std::size_t i = 0; i < clouds.size(); ++i) {
        EXPECT_EQ(got.results[i].voxels, wanted.results[i].voxels);
        EXPECT_EQ(got.results[i].dropped, wanted.results[i].dropped);
        EXPECT_EQ(got.results[i].warnings, wanted.results[i].warnings);
        EXPECT_TRUE(got.results[i].row_classes.has_value());
      }
    }
    EXPECT_THROW(labels.run(a).scores(), base::Error);
  }
}

// A devoxelize head takes the scores to the points.
TEST(CudaEngine, LabelsOfPointOutputsAndTrilinearHeadsEqualTheCpus) {
  REQUIRE_DEVICE();
  for (const bool trilinear : {false, true}) {
    Model model = network("minkunet18", 0.25);
    Node head;
    head.name = "points";
    head.op = Op::devoxelize;
    head.inputs = model.outputs;
    head.trilinear = trilinear;
    model.nodes.push_back(head);
    model.outputs = {"points"};
    const Engine cpu(model), gpu(model, {.device = "cuda"}),
        labels(model, {.device = "cuda", .labels_only = true});
    const io::Cloud a = street(0, 5), b = street(1, 7);
    const Kept wanted = run(cpu, {&a, &b}), outputs = run(gpu, {&a, &b}),
               classes = run(labels, {&a, &b});
    ASSERT_EQ(outputs.labels.size(), wanted.labels.size());
    std::size_t differing = 0;  // rounding may turn near ties round
    for (std::size_t i = 0; i < wanted.labels.size(); ++i)
      differing += outputs.labels[i] != wanted.labels[i];
    EXPECT_LE(differing, wanted.labels.size() / 1000);
    EXPECT_EQ(classes.labels, outputs.labels);
  }
}

TEST(CudaEngine, FramesBeyondTheRowBoundRunUncapturedWithAWarningAndTheSameBits) {
  REQUIRE_DEVICE();
  const Model model = network("minkunet18", 0.25);
  const Engine free(model, {.device = "cuda", .dtype = "fp16"}),
      bounded(model, {.device = "cuda", .dtype = "fp16", .row_bound = 30000});
  for (const std::int64_t stride : {8, 1, 5, 2, 9}) {
    const io::Cloud cloud = street(static_cast<int>(stride), stride);
    const Result wanted = free.run(cloud), got = bounded.run(cloud);
    EXPECT_EQ(got.warnings.empty(), cloud.size() <= 30000) << cloud.size();
    const auto& a = got.outputs[0].sparse.features;
    const auto& b = wanted.outputs[0].sparse.features;
    ASSERT_EQ(a.numel(), b.numel());
    EXPECT_TRUE(std::equal(a.data<float>(), a.data<float>() + a.numel(), b.data<float>()));
  }
}

SparseTensor voxels_of(const Model& model, const io::Cloud& cloud) {
  return voxelize(cloud, {.voxel_size = model.input.voxel_size,
                          .features = model.input.features,
                          .defaults = {{"intensity", 0}}})
      .tensor;
}

TEST(CudaEngine, CachedMapsGiveTheSameBits) {
  REQUIRE_DEVICE();
  const Model model = network("minkunet18", 0.25);
  const Engine plain(model, {.device = "cuda", .dtype = "fp16"}),
      cached(model, {.device = "cuda", .dtype = "fp16", .cache_maps = true});
  const SparseTensor a = voxels_of(model, street(0, 2)), b = voxels_of(model, street(1, 2));
  for (const SparseTensor* input : {&a, &a, &b, &a, &a, &b, &b}) {
    const auto wanted = plain.run(*input).outputs[0].sparse.features,
               got = cached.run(*input).outputs[0].sparse.features;
    ASSERT_EQ(got.numel(), wanted.numel());
    EXPECT_TRUE(
        std::equal(got.data<float>(), got.data<float>() + got.numel(), wanted.data<float>()));
  }
}

// Points far from one another: every window of a strided layer sees one of them, so that levels
// have several times the rows that a scan's have.
io::Cloud scattered(std::int64_t points) {
  io::Cloud cloud(points);
  std::uint64_t state = 9;
  const auto next = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(state >> 40) / static_cast<float>(1 << 24);
  };
  std::vector<float> x, y, z;
  for (std::int64_t i = 0; i < points; ++i) {
    x.push_back(-40 + 80 * next());
    y.push_back(-40 + 80 * next());
    z.push_back(-2.5f + 5 * next());
  }
  cloud.add<float>("x", x);
  cloud.add<float>("y", y);
  cloud.add<float>("z", z);
  cloud.add<float>("intensity", x);
  return cloud;
}

TEST(CudaEngine, LevelsKeepTheRoomThatFramesNeedAndGrowWhereOneNeedsMore) {
  REQUIRE_DEVICE();
  for (const char* name : {"voxelnext", "voxelresnet8x"}) {
    const Model model = network(name, 0.25, 0.2);
    const Engine cpu(model), gpu(model, {.device = "cuda"});
    const io::Cloud first = street(0, 3), thin = scattered(first.size()), last = street(2, 4);
    const std::int64_t guessed = gpu.run(first).memory.maps;
    const Result second = gpu.run(first);
    EXPECT_LE(second.memory.maps, guessed) << name;
    expect_same_frame(second, cpu.run(first));
    expect_same_frame(gpu.run(thin), cpu.run(thin));
    expect_same_frame(gpu.run(last), cpu.run(last));
  }
}

TEST(CudaEngine, WantsMoreMemoryThanItMayHaveSaysSoAndStaysUsable) {
  REQUIRE_DEVICE();
  const Model model = network("minkunet18", 0.25);
  const io::Cloud large = street(0), small = street(1, 40);
  const auto use = base::cuda::memory_use(0);
  const Engine engine(model,
                      {.device = "cuda", .dtype = "fp16", .memory_limit = use.held + (48 << 20)});
  engine.run(small);
  try {
    engine.run(large);
    ADD_FAILURE() << "no error, " << base::cuda::memory_use(0).peak << " bytes at most";
  } catch (const base::Error& error) {
    EXPECT_NE(std::string(error.what()).find("out of memory: cuda:0"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(engine.run(small).points, small.size());
  EXPECT_LE(base::cuda::memory_use(0).peak, std::max(use.peak, use.held + (48 << 20)));
  base::cuda::limit_memory(0, 0);
  EXPECT_EQ(engine.run(large).points, large.size());
}

int frames_of_soak() {
  const char* const text = std::getenv("SPARSECONV_SOAK_FRAMES");
  return text == nullptr ? 400 : std::atoi(text);
}

std::int64_t free_memory() {
  std::size_t free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return static_cast<std::int64_t>(free);
}

// Behaviour 16.
TEST(CudaEngine, MemoryIsFlatOverManyFramesOfChangingSize) {
  REQUIRE_DEVICE();
  const Model model = network("minkunet18", 0.25);
  const Engine engine(model, {.device = "cuda", .dtype = "fp16", .labels_only = true});
  std::vector<io::Cloud> clouds;
  for (int i = 0; i < 8; ++i) clouds.push_back(street(i, 1 + i * 3 % 8));
  const io::Cloud none(0);
  const auto run_some = [&](int frames) {
    for (int i = 0; i < frames; ++i) {
      if (i % 50 == 49) {
        engine.run(none);
      } else {
        engine.run(clouds[static_cast<std::size_t>(i * 5 % 8)]);
      }
    }
  };
  run_some(150);  // bounds of levels follow the first frames
  const std::int64_t held = base::cuda::memory_use(0).held, free = free_memory();
  run_some(frames_of_soak());
  EXPECT_EQ(base::cuda::memory_use(0).held, held);
  EXPECT_LE(std::abs(free_memory() - free), 4 << 20);  // other processes may use the device too
}

TEST(CudaEngine, GivesTheSameBitsOverManyRepeatsAndThreads) {
  REQUIRE_DEVICE();
  const Model model = network("minkunet18", 0.25);
  const Engine engine(model, {.device = "cuda", .dtype = "fp16"});
  const io::Cloud cloud = street(0, 2);
  const auto first = engine.run(cloud).outputs[0].sparse.features;
  std::vector<int> differing(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < differing.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 250; ++i) {
        const auto again = engine.run(cloud).outputs[0].sparse.features;
        differing[t] += !std::equal(again.data<float>(), again.data<float>() + again.numel(),
                                    first.data<float>());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const int count : differing) EXPECT_EQ(count, 0);
  // For who compares processes.
  std::uint64_t digest = 14695981039346656037ull;
  const auto* bytes = reinterpret_cast<const unsigned char*>(first.data());
  for (std::int64_t i = 0; i < first.nbytes(); ++i) digest = (digest ^ bytes[i]) * 1099511628211ull;
  std::printf("digest of the frame: %016llx\n", static_cast<unsigned long long>(digest));
}

TEST(CudaEngine, DealsFramesToAllDevicesNamed) {
  REQUIRE_DEVICE();
  if (base::cuda::device_count() < 2) GTEST_SKIP() << "one CUDA device";
  const Model model = network("minkunet18", 0.25);
  const Engine one(model, {.device = "cuda:1", .dtype = "fp16"}),
      both(model, {.device = "cuda:0,1", .dtype = "fp16"});
  const io::Cloud cloud = street(0, 2);
  const auto wanted = one.run(cloud).labels();
  std::vector<std::thread> threads;
  std::vector<int> differing(4, 0);
  for (std::size_t t = 0; t < differing.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) differing[t] += both.run(cloud).labels() != wanted;
    });
  }
  for (auto& thread : threads) thread.join();
  for (const int count : differing) EXPECT_EQ(count, 0);
  EXPECT_GT(base::cuda::memory_use(0).held, 0);
  EXPECT_GT(base::cuda::memory_use(1).held, 0);
}

TEST(CudaEngine, ADeviceThatIsNotThereIsNamed) {
  REQUIRE_DEVICE();
  try {
    Engine(network("minkunet18", 0.25), {.device = "cuda:63"});
    ADD_FAILURE() << "no error";
  } catch (const base::Error& error) {
    EXPECT_NE(std::string(error.what()).find("cuda:63"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace cuda_tests
