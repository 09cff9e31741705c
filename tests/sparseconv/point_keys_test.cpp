// Keys of points by every instruction set against the same arithmetic written out.
#include "sparseconv/cpu/point_keys.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gemm_core/atom/cpu_targets.hpp"
#include "hwy/highway.h"
#include "hwy/targets.h"

namespace sparseconv::detail {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

template <class T>
using Columns = std::array<std::vector<T>, 3>;

template <class T>
Key key_of(const PointKeys& to, const Columns<T>& points, std::size_t i) {
  std::array<std::int32_t, 3> cells{};
  for (std::size_t a = 0; a < 3; ++a) {
    const AxisBounds& b = to.bounds[a];
    const double p = points[a][i], cell = (p - b.origin) / b.size;
    if (!(p >= b.from && p < b.to && cell >= b.low && cell < b.high)) return kNoKey;
    cells[a] = static_cast<std::int32_t>(std::floor(cell));
  }
  return to.batch | pack({0, cells[0], cells[1], cells[2]});
}

template <class T>
void expect_the_truth(const std::array<AxisBounds, 3>& bounds, const Columns<T>& points) {
  const std::size_t count = points[0].size();
  std::vector<Key> keys(count + 1, 7);
  const PointKeys to{.bounds = bounds,
                     .batch = Key{5} << (3 * kAxisBits),
                     .count = static_cast<std::int64_t>(count),
                     .keys = keys.data()};
  bool are_all_good = true;
  std::vector<Key> truth;
  for (std::size_t i = 0; i < count; ++i) {
    truth.push_back(key_of(to, points, i));
    are_all_good = are_all_good && truth.back() != kNoKey;
  }
  truth.push_back(7);  // and nothing behind
  EXPECT_EQ(pack_points(to, {points[0].data(), points[1].data(), points[2].data()}), are_all_good);
  EXPECT_EQ(keys, truth);
}

template <class T>
void expect_the_truth_for_many() {
  const AxisBounds wide{0, 0.05, -kInf, kInf, kAxisMin, kAxisMax + 1.0};
  const std::array<AxisBounds, 3> all{wide, wide, {0.25, 0.1, -kInf, kInf, -40, 40}};
  const std::array<AxisBounds, 3> range{
      AxisBounds{-3, 0.1, -3, 3, 0, 60}, {-2, 0.3, -2, 2, 0, 14}, {0, 1e-5, 0, 1, 0, 100000}};
  std::mt19937 random(11);
  std::uniform_real_distribution<double> place(-3.5, 3.5);
  for (std::size_t count = 0; count < 70; ++count) {
    Columns<T> points;
    for (std::size_t i = 0; i < count; ++i) {
      for (auto& column : points) {
        column.push_back(static_cast<T>(i % 5 == 0 ? std::round(place(random)) : place(random)));
      }
    }
    expect_the_truth(all, points);
    expect_the_truth(range, points);
    for (const double bad : {kInf, -kInf, std::numeric_limits<double>::quiet_NaN(), 1e30, -1e30}) {
      if (count == 0) continue;
      Columns<T> spoiled = points;
      spoiled[random() % 3][random() % count] = static_cast<T>(bad);
      expect_the_truth(all, spoiled);
      expect_the_truth(range, spoiled);
    }
  }
}

TEST(PointKeys, AreTheSameByEveryInstructionSet) {
  for (std::int64_t rest = hwy::SupportedTargets() & HWY_TARGETS; rest != 0; rest &= rest - 1) {
    hwy::SetSupportedTargetsForTest(rest & -rest);
    SCOPED_TRACE(hwy::TargetName(rest & -rest));
    expect_the_truth_for_many<float>();
    expect_the_truth_for_many<double>();
  }
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace
}  // namespace sparseconv::detail
