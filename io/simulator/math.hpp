// Arithmetic of the simulator. Its results must be the same bits on every machine, so it uses + - *
// / sqrt floor only: no libm transcendental functions, no standard distributions, no contracted
// multiply-adds (see sources.cmake). Never draw two random numbers inside one call's argument list
// or one expression: compilers order those differently.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>

namespace io::simulator {

inline constexpr double kPi = 3.14159265358979323846;

struct Vec3 {
  double x = 0, y = 0, z = 0;
  double operator[](int axis) const { return axis == 0 ? x : axis == 1 ? y : z; }
};
inline Vec3 operator+(Vec3 a, Vec3 b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
inline Vec3 operator-(Vec3 a, Vec3 b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
inline Vec3 operator*(Vec3 a, double s) { return {a.x * s, a.y * s, a.z * s}; }
inline double dot(Vec3 a, Vec3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
inline Vec3 cross(Vec3 a, Vec3 b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
inline double length(Vec3 a) { return std::sqrt(dot(a, a)); }
inline Vec3 normalised(Vec3 a) { return a * (1 / length(a)); }

// Absolute error below 1e-11 for |x| < 1e6.
double sine(double x);
double cosine(double x);
double exponential(double x);  // |x| < 700
double natural_log(double x);  // x > 0
// The same bits for many numbers at once, several times as fast a number.
inline constexpr int kBatch = 16;
using Batch = std::array<double, kBatch>;
void exponential(Batch& x);
void natural_log(Batch& x);

// A rotation about the vertical axis.
struct Yaw {
  double c = 1, s = 0;
  static Yaw of_angle(double radians) { return {cosine(radians), sine(radians)}; }
  // The heading of a curve whose slope dy/dx is given.
  static Yaw of_slope(double slope) {
    const double c = 1 / std::sqrt(1 + slope * slope);
    return {c, slope * c};
  }
  Vec3 operator()(Vec3 v) const { return {c * v.x - s * v.y, s * v.x + c * v.y, v.z}; }
  Vec3 inverse(Vec3 v) const { return {c * v.x + s * v.y, c * v.y - s * v.x, v.z}; }
  Yaw operator*(Yaw other) const { return {c * other.c - s * other.s, s * other.c + c * other.s}; }
};

// The finaliser of splitmix64: every bit of the input changes half of the bits of the output.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
// hash(a, b, c) == hash_on(hash(a, b), c).
template <class... Rest>
constexpr std::uint64_t hash_on(std::uint64_t h, Rest... rest) {
  ((h = mix(h ^ (static_cast<std::uint64_t>(rest) + 0x632be59bd9b4e019u * 3))), ...);
  return h;
}
template <class... Rest>
constexpr std::uint64_t hash(std::uint64_t first, Rest... rest) {
  return hash_on(mix(first), rest...);
}
constexpr double unit(std::uint64_t h) { return static_cast<double>(h >> 11) * 0x1p-53; }  // [0, 1)

// Zero mean, unit variance, |value| < 3.5: the sum of four uniform numbers, taken from one hash.
constexpr double bell(std::uint64_t h) {
  double sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<double>((h >> (16 * i)) & 0xffff) * 0x1p-16;
  return (sum - 2) * 1.7320508075688772;
}

// A sequence of random numbers for the layout of a scene.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return mix(state_++ * 0xd1342543de82ef95u); }
  double uniform(double low = 0, double high = 1) { return low + (high - low) * unit(next()); }
  bool chance(double probability) { return unit(next()) < probability; }
  int integer(int count) { return static_cast<int>(unit(next()) * count); }  // 0 .. count-1
  double gaussian() { return bell(next()); }
  double sign() { return chance(0.5) ? 1.0 : -1.0; }

 private:
  std::uint64_t state_;
};

// Smooth noise in [-1, 1] with features one unit apart.
double smooth_noise(double x, double y, std::uint64_t salt);

}  // namespace io::simulator
