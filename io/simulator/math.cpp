#include "io/simulator/math.hpp"

#include <array>

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

double exponential(double x) {
  constexpr double kLn2 = 0.69314718055994530942;
  const double n = std::floor(x / kLn2 + 0.5);
  const double r = x - n * kLn2;
  double sum = 1;
  for (int i = 14; i >= 1; --i) sum = 1 + sum * r / i;
  return std::ldexp(sum, static_cast<int>(n));
}

double natural_log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752440) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1), s2 = s * s;
  double sum = 0;
  for (int i = 15; i >= 1; i -= 2) sum = sum * s2 + 1.0 / i;
  return 2 * s * sum + exponent * 0.69314718055994530942;
}

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
