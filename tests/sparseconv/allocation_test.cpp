// Counts what a run allocates, through the global operator new of this program.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "sparseconv/engine.hpp"
#include "tests/support/make_inputs.hpp"

namespace {
std::atomic<std::int64_t> allocated_bytes{0};

std::size_t counted(std::size_t bytes) {
  allocated_bytes += static_cast<std::int64_t>(bytes);
  return bytes;
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  const std::size_t rounded = (counted(bytes) + alignment - 1) / alignment * alignment;
  void* const pointer = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (pointer == nullptr) throw std::bad_alloc();
  return pointer;
}
}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(counted(bytes));
}
void operator delete(void* pointer) noexcept { std::free(pointer); }
void operator delete(void* pointer, std::size_t) noexcept { std::free(pointer); }
void operator delete(void* pointer, std::align_val_t) noexcept { std::free(pointer); }
void operator delete(void* pointer, std::size_t, std::align_val_t) noexcept { std::free(pointer); }

namespace {

using namespace sparseconv;

// Lists of a few elements a step, names and handles; nothing that grows with the frame.
constexpr std::int64_t kBookkeeping = 32 << 10;

template <class Run>
std::int64_t bytes_of(const Run& run) {
  const std::int64_t before = allocated_bytes;
  run();
  return allocated_bytes - before;
}

// Coordinates of every kind, maps of every kind, and outputs of every kind.
constexpr const char* kEverything = R"(
  {"name":"a","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":16},
  {"name":"b","op":"conv","inputs":["a"],"kernel":3,"stride":2,"padding":1,"out_channels":16},
  {"name":"h","op":"conv","inputs":["a"],"kernel":2,"stride":2,"out_channels":16},
  {"name":"i","op":"inverse_conv","inputs":["b"],"pair":"b","out_channels":8},
  {"name":"t","op":"conv_transpose","inputs":["h"],"kernel":2,"stride":2,"out_channels":8},
  {"name":"p","op":"max_pool","inputs":["a"],"kernel":2,"stride":2},
  {"name":"m","op":"merge","inputs":["a","p"],"scales":[[1,1,1],[2,2,2]]},
  {"name":"c","op":"concat","inputs":["a","i"]},
  {"name":"g","op":"global_avg_pool","inputs":["t"]},
  {"name":"d","op":"to_dense","inputs":["b"]},
  {"name":"out","op":"linear","inputs":["c"],"out_channels":2},
  {"name":"v","op":"devoxelize","inputs":["out"],"mode":"trilinear"})";
constexpr const char* kOutputs = R"("out","b","t","m","g","d","v")";

TEST(Allocation, ARunOnVoxelsTakesEverythingFromEarlierRuns) {
  const Model model = test_support::random_model(kEverything, 4, kOutputs);
  const auto large = test_support::random_tensor({.shape = {40, 40, 10}, .per_thousand = 300});
  const auto small = test_support::random_tensor({.shape = {40, 40, 10}, .per_thousand = 250});
  for (const char* dtype : {"fp32", "fp16"}) {
    const Engine engine(model, {.dtype = dtype, .threads = 1});
    const std::int64_t first = bytes_of([&] { engine.run(large); });
    engine.run(small);  // builds the hash map of its coordinates
    engine.run(large);
    for (const auto* input : {&large, &small, &large, &small}) {
      const std::int64_t again = bytes_of([&] { engine.run(*input); });
      EXPECT_LT(again, kBookkeeping);
      EXPECT_GT(first, 100 * again);
    }
  }
}

io::Cloud cloud_of(std::int64_t points, std::uint64_t seed) {
  test_support::Random random(seed);
  io::Cloud cloud(points);
  for (const char* name : {"x", "y", "z", "intensity"}) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < points; ++i) {
      values.push_back(random.value() * 3 + random.value() / 100);
    }
    cloud.add<float>(name, values);
  }
  return cloud;
}

Model model_of_clouds(const char* outputs) {
  Model model = test_support::random_model(kEverything, 4, outputs);
  model.input.features = {"x", "y", "z", "intensity"};
  model.input.voxel_size = {0.25, 0.25, 0.25};
  model.input.range = {-4, -4, -4, 4, 4, 4};
  model.input.spatial_shape = SpatialShape{32, 32, 32};
  return model;
}

TEST(Allocation, ARunOnCloudsTakesEverythingFromEarlierRuns) {
  const Engine engine(model_of_clouds(kOutputs), {.threads = 1});
  const io::Cloud clouds[] = {cloud_of(30000, 1), cloud_of(25000, 2)};
  const io::Cloud* batch[] = {&clouds[0], &clouds[1]};
  const std::int64_t first = bytes_of([&] { engine.run(clouds[0]); });
  for (int warm_up = 0; warm_up < 2; ++warm_up) {
    engine.run(clouds[1]);
    engine.run(batch);
  }
  for (int repeat = 0; repeat < 3; ++repeat) {
    const std::int64_t alone = bytes_of([&] { engine.run(clouds[repeat % 2]); });
    const std::int64_t together = bytes_of([&] { engine.run(batch); });
    EXPECT_LT(alone, kBookkeeping);
    EXPECT_LT(together, 2 * kBookkeeping);
    EXPECT_GT(first, 100 * alone);
  }
}

TEST(Allocation, AResultThatIsKeptCostsItsOwnMemoryAndComesBack) {
  const Engine engine(model_of_clouds(R"("out")"), {.threads = 1});
  const io::Cloud cloud = cloud_of(30000, 3);
  engine.run(cloud);
  {
    std::vector<Result> kept;
    kept.reserve(3);
    for (int i = 0; i < 3; ++i) {
      const std::int64_t bytes = bytes_of([&] { kept.push_back(engine.run(cloud)); });
      const Result& result = kept.back();
      const std::int64_t own = result.outputs[0].sparse.features.nbytes() +
                               result.outputs[0].sparse.coordinates->nbytes() + result.points * 8;
      EXPECT_LT(bytes, 2 * own + kBookkeeping) << i;  // a block may be twice as large as asked for
    }
  }
  EXPECT_LT(bytes_of([&] { engine.run(cloud); }), kBookkeeping);
}

TEST(Allocation, TheDeepNetworkRunsInMemoryOfEarlierFrames) {
  const Model model = build_architecture("minkunet42", {.classes = {"a", "b"}, .width = 0.25});
  const auto input = test_support::random_tensor({.shape = {60, 60, 10}, .per_thousand = 200});
  const Engine engine(model, {.threads = 1});
  engine.run(input);
  EXPECT_LT(bytes_of([&] { engine.run(input); }), 2 * kBookkeeping);
}

}  // namespace
