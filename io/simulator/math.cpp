#include "io/simulator/math.hpp"

#include <array>
#include <bit>

namespace io::simulator {

double sine(double x) {
  const double turns = std::floor(x / kPi + 0.5);
  const double r = x - turns * kPi;  // [-pi/2, pi/2]
  const double r2 = r * r;
  constexpr std::array<double, 9> kTerms = {1.0,
                                            -1.0 / 6,
                                            1.0 / 120,
                                            -1.0 / 5040,
                                            1.0 / 362880,
                                            -1.0 / 39916800,
                                            1.0 / 6227020800.0,
                                            -1.0 / 1307674368000.0,
                                            1.0 / 355687428096000.0};
  double sum = 0;
  for (int i = 8; i >= 0; --i) sum = sum * r2 + kTerms[static_cast<std::size_t>(i)];
  const bool odd = turns - 2 * std::floor(turns / 2) != 0;
  return odd ? -r * sum : r * sum;
}

double cosine(double x) { return sine(x + kPi / 2); }

namespace {

constexpr double kLn2 = 0.69314718055994530942;

// floor(x) for |x| < 2^31 without a call.
inline int whole(double x) {
  const int toward_zero = static_cast<int>(x);
  return toward_zero - (toward_zero > x ? 1 : 0);
}

// 2^n for -1022 <= n <= 1023.
inline double power_of_two(int n) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
}

// One loop a step of the formula, so that compilers make a vector of the numbers.
template <std::size_t kCount>
void exponentials(std::array<double, kCount>& x) {
  std::array<double, kCount> r, sum;
  std::array<int, kCount> n;
  for (std::size_t k = 0; k < kCount; ++k) {
    n[k] = whole(x[k] / kLn2 + 0.5);
    r[k] = x[k] - n[k] * kLn2;
    sum[k] = 1;
  }
  for (int i = 14; i >= 1; --i) {
    for (std::size_t k = 0; k < kCount; ++k) sum[k] = 1 + sum[k] * r[k] / i;
  }
  for (std::size_t k = 0; k < kCount; ++k) x[k] = sum[k] * power_of_two(n[k]);
}

template <std::size_t kCount>
void natural_logs(std::array<double, kCount>& x) {
  std::array<double, kCount> s, sum;
  std::array<int, kCount> exponent;
  for (std::size_t k = 0; k < kCount; ++k) {
    double m = std::frexp(x[k], &exponent[k]);
    if (m < 0.70710678118654752440) {
      m *= 2;
      --exponent[k];
    }
    s[k] = (m - 1) / (m + 1);
    sum[k] = 0;
  }
  for (int i = 15; i >= 1; i -= 2) {
    for (std::size_t k = 0; k < kCount; ++k) sum[k] = sum[k] * (s[k] * s[k]) + 1.0 / i;
  }
  for (std::size_t k = 0; k < kCount; ++k) x[k] = 2 * s[k] * sum[k] + exponent[k] * kLn2;
}

}  // namespace

double exponential(double x) {
  std::array<double, 1> one{x};
  exponentials(one);
  return one[0];
}

double natural_log(double x) {
  std::array<double, 1> one{x};
  natural_logs(one);
  return one[0];
}

void exponential(Batch& x) { exponentials(x); }
void natural_log(Batch& x) { natural_logs(x); }

double smooth_noise(double x, double y, std::uint64_t salt) {
  const double fx = std::floor(x), fy = std::floor(y);
  const auto corner = [&](double dx, double dy) {
    const auto ix = static_cast<std::int64_t>(fx + dx), iy = static_cast<std::int64_t>(fy + dy);
    return 2 * unit(hash(salt, ix, iy)) - 1;
  };
  const auto ease = [](double t) { return t * t * (3 - 2 * t); };
  const double u = ease(x - fx), v = ease(y - fy);
  const double near = corner(0, 0) * (1 - u) + corner(1, 0) * u;
  const double far = corner(0, 1) * (1 - u) + corner(1, 1) * u;
  return near * (1 - v) + far * v;
}

}  // namespace io::simulator
