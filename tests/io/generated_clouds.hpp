// Clouds for property tests: every field type, extreme values, many sizes; the same for the same
// seed.
#pragma once
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "io/cloud.hpp"
#include "io/visit_field.hpp"

namespace test_support {

enum class Values { ordinary, extreme };

template <class T>
T random_value(std::mt19937_64& random, Values values) {
  if (values == Values::extreme) {
    if constexpr (std::is_floating_point_v<T>) {
      using Limits = std::numeric_limits<T>;
      const T choices[] = {T{0},
                           -T{0},
                           Limits::denorm_min(),
                           -Limits::min(),
                           Limits::max(),
                           Limits::lowest(),
                           Limits::epsilon(),
                           T(1) / 3,
                           T(0.1),
                           Limits::infinity(),
                           -Limits::infinity(),
                           Limits::quiet_NaN()};
      const auto choice = random() % 16;
      if (choice < std::size(choices)) return choices[choice];
    } else {
      const T choices[] = {T{0}, std::numeric_limits<T>::max(), std::numeric_limits<T>::min(),
                           T{1}};
      if (const auto choice = random() % 8; choice < 4) return choices[choice];
    }
    // Any bits at all.
    T value;
    const std::uint64_t bits = random();
    std::memcpy(&value, &bits, sizeof(T));
    return value;
  }
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(static_cast<double>(random() % 2000001) / 1e4 - 100.0);
  else
    return static_cast<T>(random() % 128);
}

inline void add_random(io::Cloud& cloud, const std::string& name, base::DType type,
                       std::int64_t points, std::mt19937_64& random, Values values,
                       std::int64_t count = 1) {
  auto tensor =
      count == 1 ? base::Tensor::empty({points}, type) : base::Tensor::empty({points, count}, type);
  io::visit_field_type(type, [&]<class T>() {
    T* out = points > 0 ? tensor.data<T>() : nullptr;
    for (std::int64_t i = 0; i < points * count; ++i) out[i] = random_value<T>(random, values);
  });
  cloud.add(io::Field{name, type, count, ""}, std::move(tensor));
}

// x y z of one float type, then a field of each of `types`.
inline io::Cloud random_cloud(std::int64_t points, base::DType coordinates,
                              const std::vector<base::DType>& types, std::uint64_t seed,
                              Values values) {
  std::mt19937_64 random(seed);
  io::Cloud cloud(points);
  for (const char* axis : {"x", "y", "z"})
    add_random(cloud, axis, coordinates, points, random, values);
  for (const base::DType type : types)
    add_random(cloud, "f_" + std::string(base::name(type)), type, points, random, values);
  return cloud;
}

}  // namespace test_support
