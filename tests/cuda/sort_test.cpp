// Sorts of keys with values on the device against std::stable_sort.
#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "tests/cuda/require_device.hpp"
#include "tests/cuda/sort_on_device.hpp"

namespace {

using cuda_tests::KeysAndValues;
using MakeKey = std::function<std::uint64_t(std::mt19937_64&, std::size_t item)>;

void expect_sorted(std::size_t items, std::int64_t capacity, const MakeKey& make, int low,
                   int from = 0, int high = 0) {
  SCOPED_TRACE(testing::Message() << items << " items, room for " << capacity << ", bits " << low
                                  << ", " << from << ", " << high);
  std::mt19937_64 random(items);
  KeysAndValues given;
  for (std::size_t i = 0; i < items; ++i) {
    given.keys.push_back(make(random, i));
    given.values.push_back(static_cast<std::int32_t>(random() % 1000));
  }
  const auto looked_at = [&](std::uint64_t key) {
    const auto bits = [](std::uint64_t of, int n) {
      return n < 64 ? of & ((std::uint64_t{1} << n) - 1) : of;
    };
    return high == 0 ? bits(key, low) : bits(key >> from, high) << low | bits(key, low);
  };
  std::vector<std::size_t> order(items);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return looked_at(given.keys[a]) < looked_at(given.keys[b]);
  });
  KeysAndValues expected;
  for (const std::size_t i : order) {
    expected.keys.push_back(given.keys[i]);
    expected.values.push_back(given.values[i]);
  }
  const KeysAndValues made = cuda_tests::sort_on_device(given, capacity, low, from, high);
  ASSERT_TRUE(made.keys == expected.keys);
  ASSERT_TRUE(made.values == expected.values);
}

const MakeKey kAny = [](std::mt19937_64& random, std::size_t) { return random(); };
const MakeKey kFew = [](std::mt19937_64& random, std::size_t) {
  return random() % 5 * 0x123456789abcdefull;
};
const MakeKey kEqual = [](std::mt19937_64&, std::size_t) { return std::uint64_t{42}; };
const MakeKey kAscending = [](std::mt19937_64&, std::size_t i) { return std::uint64_t{i} << 20; };
const MakeKey kDescending = [](std::mt19937_64&, std::size_t i) { return ~std::uint64_t{i}; };
// Half of them one key, the other half nearly so; one in a thousand stands for no voxel.
const MakeKey kCrowded = [](std::mt19937_64& random, std::size_t) {
  if (random() % 1000 == 0) return ~std::uint64_t{0};
  return random() % 2 == 0 ? std::uint64_t{7} << 40 : (std::uint64_t{7} << 40) + random() % 100000;
};

TEST(DeviceSort, EqualsAStableSort) {
  REQUIRE_DEVICE();
  for (const MakeKey* make : {&kAny, &kFew, &kEqual, &kAscending, &kDescending, &kCrowded}) {
    for (const std::size_t items : {0, 1, 2, 31, 1000, 3072, 3073, 20000, 130001}) {
      for (const std::int64_t spare : {0, 5000}) {
        const auto capacity = static_cast<std::int64_t>(items) + spare;
        if (capacity == 0) continue;
        expect_sorted(items, capacity, *make, 64);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(DeviceSort, LooksAtSomeBitsOnly) {
  REQUIRE_DEVICE();
  for (const MakeKey* make : {&kAny, &kCrowded}) {
    expect_sorted(50000, 60000, *make, 55);
    expect_sorted(50000, 60000, *make, 12);
    expect_sorted(50000, 60000, *make, 30, 54, 3);
    expect_sorted(50000, 60000, *make, 0, 54, 10);
  }
}

// Around the number beyond which keys are sorted by digits.
TEST(DeviceSort, LargeNumbersOfKeys) {
  REQUIRE_DEVICE();
  for (const std::int64_t capacity : {(1 << 19), (1 << 19) + 1, 2000000}) {
    expect_sorted(static_cast<std::size_t>(capacity), capacity, kAny, 64);
    expect_sorted(static_cast<std::size_t>(capacity) / 2, capacity, kCrowded, 55);
  }
}

// No key of the sample lies among the others, which then all fall into one bucket.
TEST(DeviceSort, BucketsLongerThanTheirRoom) {
  REQUIRE_DEVICE();
  constexpr std::uint64_t kItems = 20000, kSamples = 2048;
  std::vector<bool> is_sampled(kItems);
  for (std::uint32_t i = 0; i < kSamples; ++i) {
    const std::uint64_t at = std::uint64_t{i} << 16 | i * 2654435761u >> 16;
    is_sampled[at * kItems / (kSamples << 16)] = true;
  }
  const MakeKey make = [&](std::mt19937_64& random, std::size_t i) -> std::uint64_t {
    if (is_sampled[i]) return i % 2 == 0 ? 0 : std::uint64_t{1} << 60;
    return 1 + random() % (std::uint64_t{1} << 40);
  };
  expect_sorted(kItems, kItems, make, 64);
}

TEST(DeviceSort, ForSanitizers) {
  REQUIRE_DEVICE();
  expect_sorted(7000, 9000, kAny, 64);
  expect_sorted(7000, 7000, kCrowded, 55);
}

}  // namespace
