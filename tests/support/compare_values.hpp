// Compares what an engine computed with what it must compute, row by row through coordinates, and
// says where the worst difference is. Differences are taken relative to the largest expected value,
// per element.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "gemm_core/base/dtype.hpp"
#include "sparseconv/coord.hpp"

namespace test_support {

// Storage and products of the dtype, fp32 accumulation: one rounding is 2^-24, 2^-11, 2^-11 and
// 2^-8; the figures leave room for a network's worth of them.
inline double tolerance(base::DType dtype) {
  switch (dtype) {
    case base::DType::tf32:
    case base::DType::f16:
      return 1e-2;
    case base::DType::bf16:
      return 4e-2;
    default:
      return 1e-5;
  }
}

inline testing::AssertionResult all_near(const float* got, const float* expected, std::size_t count,
                                         double relative) {
  double largest = 0, worst = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i)
    largest = std::max(largest, std::abs(double{expected[i]}));
  for (std::size_t i = 0; i < count; ++i) {
    const double difference = std::abs(double{got[i]} - double{expected[i]});
    if (difference > worst || !std::isfinite(difference)) {
      worst = difference;
      at = i;
      if (!std::isfinite(difference)) break;
    }
  }
  if (worst <= relative * largest) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << "element " << at << " of " << count << ": got " << got[at] << ", expected "
         << expected[at] << "; off by " << worst / largest << " of the largest value " << largest
         << ", allowed " << relative;
}

struct Rows {
  std::vector<sparseconv::Coord> coords;
  std::vector<float> features;  // [rows, channels]
};

// The same set of coordinates, and near features at each of them.
inline testing::AssertionResult rows_near(const Rows& got, const Rows& expected, double relative) {
  if (got.coords.size() != expected.coords.size()) {
    return testing::AssertionFailure()
           << got.coords.size() << " rows, expected " << expected.coords.size();
  }
  if (got.features.size() != expected.features.size()) {
    return testing::AssertionFailure()
           << got.features.size() << " values, expected " << expected.features.size();
  }
  if (got.coords.empty()) return testing::AssertionSuccess();
  std::map<sparseconv::Coord, std::size_t> row_of;
  for (std::size_t i = 0; i < got.coords.size(); ++i) row_of[got.coords[i]] = i;
  const std::size_t channels = got.features.size() / got.coords.size();
  std::vector<float> ordered;
  ordered.reserve(got.features.size());
  for (const auto& c : expected.coords) {
    const auto found = row_of.find(c);
    if (found == row_of.end()) {
      return testing::AssertionFailure()
             << "no row at [" << c.batch << ", " << c.x << ", " << c.y << ", " << c.z << "]";
    }
    const auto first = got.features.begin() + static_cast<std::ptrdiff_t>(found->second * channels);
    ordered.insert(ordered.end(), first, first + static_cast<std::ptrdiff_t>(channels));
  }
  return all_near(ordered.data(), expected.features.data(), ordered.size(), relative);
}

}  // namespace test_support
