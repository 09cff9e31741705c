#include "io/implausible_layout.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "gemm_core/base/error.hpp"

namespace io {
namespace {

constexpr std::int64_t kSampleFloats = 1 << 14;
constexpr std::size_t kSizeSample =
    1 << 12;  // logarithms are slow, and record sizes show in few records

// The start of the file; scans are long and a wrong layout shows from the first point.
std::vector<float> sample_of(const Source& source) {
  const std::int64_t count = std::min(source.size() / 4, kSampleFloats);
  std::vector<float> sample(static_cast<std::size_t>(count));
  source.read(0, sample.data(), count * 4);
  return sample;
}

// No sensor reports these: not a coordinate in metres (nor UTM), not an intensity, not a ring.
bool is_absurd(float value) {
  const float magnitude = std::fabs(value);
  return std::isfinite(value) && magnitude != 0 && (magnitude > 3e7f || magnitude < 1e-15f);
}

std::int64_t count_absurd(const std::vector<float>& values) {
  return std::count_if(values.begin(), values.end(), is_absurd);
}

float byte_swapped(float value) {
  return std::bit_cast<float>(__builtin_bswap32(std::bit_cast<std::uint32_t>(value)));
}

std::string doubt_about_values(const std::vector<float>& sample) {
  const std::int64_t absurd = count_absurd(sample),
                     total = static_cast<std::int64_t>(sample.size());
  if (absurd * 20 <= total) return {};
  std::vector<float> swapped(sample.size());
  std::transform(sample.begin(), sample.end(), swapped.begin(), byte_swapped);
  const std::string counted =
      base::concat(absurd, " of the first ", total, " values are no coordinate or intensity");
  if (count_absurd(swapped) * 20 <= total) return counted + "; with swapped bytes they would be";
  return counted + "; float64 or another record size would explain it";
}

// Doubles of few digits (0.5, 12.25) have a low half of zeros: every second float is 0, the others
// lie between the exponents of common doubles.
std::string doubt_about_doubles(const std::vector<float>& sample) {
  std::int64_t low_zero = 0, high_typical = 0, pairs = 0;
  for (std::size_t i = 0; i + 1 < sample.size(); i += 2) {
    if (sample[i] == 0 && sample[i + 1] == 0) continue;
    ++pairs;
    low_zero += std::bit_cast<std::uint32_t>(sample[i]) == 0;
    const float magnitude = std::fabs(sample[i + 1]);
    high_typical += magnitude >= 0.9f && magnitude < 16.f;
  }
  if (pairs < 2 || low_zero < pairs || high_typical * 10 < pairs * 9) return {};
  return base::concat("every second value is 0, as in float64 read as float32 (", pairs, " pairs)");
}

std::string doubt_about_ring(const Cloud& cloud) {
  const Column* ring = cloud.find("ring");
  if (ring == nullptr || ring->field.type != base::DType::f32) return {};
  constexpr float kMaxRing = 1024;
  std::int64_t wrong = 0, first = -1;
  const float* values = ring->values.data<float>();
  for (std::int64_t i = 0; i < cloud.size(); ++i) {
    if (!std::isfinite(values[i]) ||
        (values[i] >= 0 && values[i] < kMaxRing && values[i] == std::floor(values[i])))
      continue;
    if (wrong++ == 0) first = i;
  }
  if (wrong == 0) return {};
  return base::concat("ring is no small whole number in ", wrong, " of ", cloud.size(),
                      " points (point ", first, ": ", values[first], ")");
}

// Sizes on a logarithmic scale, so that one far point does not decide; 0 stays 0. Non-finite values
// are nan.
std::vector<double> logarithms(std::span<const float> sample) {
  std::vector<double> sizes;
  for (const float value : sample) {
    sizes.push_back(std::isfinite(value) ? std::log1p(8 * std::fabs(static_cast<double>(value)))
                                         : std::numeric_limits<double>::quiet_NaN());
  }
  return sizes;
}

// How much of the spread of the values the place in a record of `columns` explains, 0 (nothing) to
// 1, corrected for the number of columns as the adjusted R^2 is.
double explained(const std::vector<double>& sizes, std::size_t columns) {
  struct Sums {
    double n = 0, value = 0, square = 0;
    double spread() const { return square - value * value / std::max(n, 1.0); }
  };
  std::array<Sums, 16> groups{};
  Sums all;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (std::isnan(sizes[i])) continue;
    for (Sums* sums : {&groups[i % columns], &all}) {
      sums->n += 1;
      sums->value += sizes[i];
      sums->square += sizes[i] * sizes[i];
    }
  }
  const double freedom = all.n - static_cast<double>(columns);
  if (freedom < 8 || !(all.spread() > 1e-9)) return 0;
  double within = 0;
  for (std::size_t g = 0; g < columns; ++g) within += groups[g].spread();
  return 1 - (within / freedom) / (all.spread() / (all.n - 1));
}

std::string doubt_about_size(const std::vector<float>& sample, std::int64_t columns,
                             std::int64_t floats) {
  const auto sizes = logarithms(std::span(sample).first(std::min(sample.size(), kSizeSample)));
  const double assumed = explained(sizes, static_cast<std::size_t>(columns));
  std::int64_t best = columns;
  double best_explained = std::max(assumed + 0.15, 2 * assumed);
  for (std::int64_t other = 3; other <= 8; ++other) {
    if (floats % other != 0 || other % columns == 0) continue;
    const double value = explained(sizes, static_cast<std::size_t>(other));
    if (value <= best_explained) continue;
    best = other;
    best_explained = value;
  }
  if (best == columns) return {};
  return base::concat("the values repeat every ", best, " columns, not every ", columns);
}

}  // namespace

std::string implausible_layout(const Source& source, std::int64_t columns, const Cloud& cloud) {
  const std::vector<float> sample = sample_of(source);
  std::string doubt = doubt_about_values(sample);
  if (doubt.empty()) doubt = doubt_about_doubles(sample);
  if (doubt.empty()) doubt = doubt_about_ring(cloud);
  if (doubt.empty() && columns < 16) doubt = doubt_about_size(sample, columns, source.size() / 4);
  return doubt;
}

}  // namespace io
