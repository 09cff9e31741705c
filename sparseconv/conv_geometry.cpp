#include "sparseconv/conv_geometry.hpp"

#include <algorithm>

#include "gemm_core/base/error.hpp"

namespace sparseconv {
namespace {

constexpr const char* kAxisNames[3] = {"x", "y", "z"};

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  const std::int64_t q = a / b;
  return q * b > a ? q - 1 : q;
}

std::string triple(const std::array<int, 3>& v) {
  return base::concat("[", v[0], ", ", v[1], ", ", v[2], "]");
}

void check_field(const char* operation, const char* field, const std::array<int, 3>& values,
                 int low, int high) {
  for (std::size_t a = 0; a < 3; ++a) {
    ENSURE(values[a] >= low && values[a] <= high, operation, ": ", field, " ", triple(values),
           " on axis ", kAxisNames[a], " is not in ", low, "..", high);
  }
}

}  // namespace

ConvGeometry ConvGeometry::submanifold(std::array<int, 3> kernel, std::array<int, 3> dilation) {
  ConvGeometry g{.kernel = kernel, .dilation = dilation};
  for (std::size_t a = 0; a < 3; ++a) {
    ENSURE(kernel[a] % 2 == 1, "submanifold: kernel ", triple(kernel), " is even on axis ",
           kAxisNames[a]);
    g.padding[a] = (kernel[a] - 1) / 2 * dilation[a];
  }
  g.check("submanifold");
  return g;
}

std::array<std::int64_t, 3> ConvGeometry::coarse_shape(
    const std::array<std::int64_t, 3>& size) const {
  std::array<std::int64_t, 3> shape{};
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t reach = static_cast<std::int64_t>(dilation[a]) * (kernel[a] - 1);
    shape[a] = std::max<std::int64_t>(
        0,
        floor_div(size[a] + 2 * static_cast<std::int64_t>(padding[a]) - reach - 1, stride[a]) + 1);
  }
  return shape;
}

std::array<std::int64_t, 3> ConvGeometry::fine_shape(
    const std::array<std::int64_t, 3>& size) const {
  std::array<std::int64_t, 3> shape{};
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t reach = static_cast<std::int64_t>(dilation[a]) * (kernel[a] - 1);
    shape[a] = size[a] <= 0 ? 0
                            : std::max<std::int64_t>(
                                  0, (size[a] - 1) * stride[a] -
                                         2 * static_cast<std::int64_t>(padding[a]) + reach + 1);
  }
  return shape;
}

void ConvGeometry::check(const char* operation) const {
  check_field(operation, "kernel", kernel, 1, kMaxKernel);
  check_field(operation, "stride", stride, 1, kMaxStep);
  check_field(operation, "padding", padding, 0, kMaxStep);
  check_field(operation, "dilation", dilation, 1, kMaxStep);
  ENSURE(taps() <= kMaxTaps, operation, ": kernel ", triple(kernel), " has ", taps(),
         " taps, at most ", kMaxTaps, " are supported");
}

std::string to_string(const ConvGeometry& g) {
  return base::concat("kernel ", triple(g.kernel), " stride ", triple(g.stride), " padding ",
                      triple(g.padding), " dilation ", triple(g.dilation));
}

}  // namespace sparseconv
