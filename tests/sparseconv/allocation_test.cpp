// Counts what a run allocates, through the global operator new of this program.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "sparseconv/engine.hpp"
#include "tests/support/make_inputs.hpp"

namespace {
std::atomic<std::int64_t> allocated_bytes{0};

void* allocate(std::size_t bytes, std::size_t alignment) {
  allocated_bytes += static_cast<std::int64_t>(bytes);
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* const pointer = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (pointer == nullptr) throw std::bad_alloc();
  return pointer;
}
}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* pointer) noexcept { std::free(pointer); }
void operator delete(void* pointer, std::size_t) noexcept { std::free(pointer); }
void operator delete(void* pointer, std::align_val_t) noexcept { std::free(pointer); }
void operator delete(void* pointer, std::size_t, std::align_val_t) noexcept { std::free(pointer); }

namespace {

using namespace sparseconv;

std::int64_t bytes_of_run(const Engine& engine, const SparseTensor& input) {
  const std::int64_t before = allocated_bytes;
  const Result result = engine.run(input);
  return allocated_bytes - before;
}

// Layers on the input's own coordinates: nothing is new but the result, which belongs to the
// caller.
TEST(Allocation, ASecondFrameAllocatesItsResultAlone) {
  const Model model = test_support::random_model(
      R"({"name":"a","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":16},
         {"name":"b","op":"conv","inputs":["a"],"kernel":5,"submanifold":true,"out_channels":16},
         {"name":"c","op":"concat","inputs":["a","b"]},
         {"name":"out","op":"linear","inputs":["c"],"out_channels":2})",
      4);
  const auto large = test_support::random_tensor({.shape = {40, 40, 10}, .per_thousand = 300});
  const auto small = test_support::random_tensor({.shape = {40, 40, 10}, .per_thousand = 250});
  const Engine engine(model, {.threads = 1});
  const std::int64_t first = bytes_of_run(engine, large);
  bytes_of_run(engine, small);  // builds the hash map of its coordinates
  constexpr std::int64_t kBookkeeping = 32 << 10;
  for (const auto* input : {&large, &small, &large}) {
    const std::int64_t result = input->rows() * 2 * 4;
    const std::int64_t again = bytes_of_run(engine, *input);
    EXPECT_LT(again, result + kBookkeeping);
    EXPECT_LT(20 * again, first);
  }
}

// Coordinates that layers derive are made anew; tables and activations are not.
TEST(Allocation, TablesAndActivationsAreUsedAgainOnEveryLevel) {
  const Model model = build_architecture("minkunet42", {.classes = {"a", "b"}, .width = 0.25});
  const auto input = test_support::random_tensor({.shape = {60, 60, 10}, .per_thousand = 200});
  const Engine engine(model, {.threads = 1});
  bytes_of_run(engine, input);
  const Result result = engine.run(input);
  EXPECT_LT(bytes_of_run(engine, input), (result.memory.maps + result.memory.activations) / 4);
}

}  // namespace
