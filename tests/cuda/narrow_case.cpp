#include "tests/cuda/narrow_case.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "sparseconv/architectures.hpp"
#include "tests/cuda/host_map.hpp"

namespace cuda_tests {

using base::DType;
using namespace sparseconv;

Model network(const std::string& name) {
  Model model = build_architecture(
      name, {.in_channels = 4, .classes = {}, .width = 1, .seed = 3, .voxel_size = 0.1});
  validate(model);
  return model;
}

SparseTensor scan(int rows, unsigned seed, bool has_integers, std::optional<SpatialShape> shape) {
  std::vector<sparseconv::Coord> coords;
  for (const auto& c : surface_cells(rows, seed)) {
    const sparseconv::Coord at{0, c.x + (shape ? 120 : 0), c.y + (shape ? 100 : 0),
                               c.z + (shape ? 20 : 0)};
    const bool is_inside = !shape || (at.x >= 0 && at.y >= 0 && at.z >= 0 && at.x < (*shape)[0] &&
                                      at.y < (*shape)[1] && at.z < (*shape)[2]);
    if (is_inside) coords.push_back(at);
  }
  std::sort(coords.begin(), coords.end(),
            [](const auto& a, const auto& b) { return pack(a) < pack(b); });
  SparseTensor input;
  const auto count = static_cast<std::int64_t>(coords.size());
  input.coordinates =
      Coordinates::create(std::move(coords), {.batch_size = 1, .spatial_shape = shape});
  input.features = base::Tensor::empty({count, 4}, DType::f32);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  for (std::int64_t i = 0; i < input.features.numel(); ++i) {
    const float v = normal(random);
    input.features.data<float>()[i] =
        has_integers ? std::clamp(std::round(v), -1.f, 1.f) : static_cast<float>(base::half_t(v));
  }
  return input;
}

SparseTensor small_scan(int rows, unsigned seed) {
  SparseTensor input = scan(rows, seed, false);
  for (std::int64_t i = 0; i < input.features.numel(); ++i) input.features.data<float>()[i] /= 64;
  return input;
}

double relative_error(std::span<const float> got, std::span<const float> wanted) {
  EXPECT_EQ(got.size(), wanted.size());
  double error = 0, size = 1e-30;
  for (std::size_t i = 0; i < std::min(got.size(), wanted.size()); ++i) {
    const double x = got[i], y = wanted[i];
    error += (x - y) * (x - y);
    size += y * y;
  }
  return std::sqrt(error / size);
}
static std::span<const float> values_of(const base::Tensor& tensor) {
  return {tensor.data<float>(), static_cast<std::size_t>(tensor.numel())};
}
double relative_error(const base::Tensor& got, const base::Tensor& wanted) {
  EXPECT_EQ(base::to_string(got.shape()), base::to_string(wanted.shape()));
  return relative_error(values_of(got), values_of(wanted));
}

}  // namespace cuda_tests
