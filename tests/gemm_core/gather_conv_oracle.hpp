// A gathered convolution by plain loops in double, written from the definition alone, and random
// problems for it.
#pragma once
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "gemm_core/base/numeric.hpp"
#include "gemm_core/base/tensor.hpp"

namespace gemm_core_test {

inline float rounded_to(base::DType type, float value) {
  switch (type) {
    case base::DType::f16:
      return base::half_t(value);
    case base::DType::bf16:
      return base::bf16_t(value);
    case base::DType::tf32:
      return base::round_to_tf32(value);
    default:
      return value;
  }
}

inline float element(const base::ConstTensorView& view, std::int64_t row, std::int64_t column) {
  const std::int64_t at = row * view.stride[0] + column * view.stride[1];
  switch (view.dtype) {
    case base::DType::f16:
      return view.as<base::half_t>()[at];
    case base::DType::bf16:
      return view.as<base::bf16_t>()[at];
    default:
      return view.as<float>()[at];
  }
}

inline void set_element(const base::TensorView& view, std::int64_t row, std::int64_t column,
                        float value) {
  const std::int64_t at = row * view.stride[0] + column * view.stride[1];
  switch (view.dtype) {
    case base::DType::f16:
      view.as<base::half_t>()[at] = base::half_t(value);
      return;
    case base::DType::bf16:
      view.as<base::bf16_t>()[at] = base::bf16_t(value);
      return;
    default:
      view.as<float>()[at] = value;
  }
}

inline base::ConstTensorView constant(const base::TensorView& v) {
  return {v.data, v.dtype, v.device, v.shape, v.stride};
}

// Half a unit in the last place of a value stored as `type`, as a fraction of it.
inline double unit_roundoff(base::DType type) {
  switch (type) {
    case base::DType::f16:
      return std::ldexp(1.0, -11);
    case base::DType::bf16:
      return std::ldexp(1.0, -8);
    case base::DType::tf32:
      return std::ldexp(1.0, -11);
    default:
      return std::ldexp(1.0, -24);
  }
}

struct ConvCase {
  std::int64_t rows_in = 50, rows = 40, cin = 8, cout = 8, taps = 27, groups = 1;
  double density = 0.3;
  base::DType in = base::DType::f32, out = base::DType::f32, compute = base::DType::f32;
};

// A row-major matrix inside a wider, oddly aligned buffer: `data` starts `offset` elements into it.
struct Matrix {
  std::vector<std::uint8_t> storage;
  base::TensorView view;
  Matrix(std::int64_t rows, std::int64_t columns, base::DType type, std::int64_t pitch,
         std::int64_t offset)
      : storage(static_cast<std::size_t>((rows * pitch + offset + 1) * base::bytes(type)), 0xff) {
    view = {storage.data() + offset * base::bytes(type), type, {}, {rows, columns}, {pitch, 1}};
  }
};

struct ConvProblem {
  ConvCase c;
  Matrix input, output;
  std::vector<float> weight;  // [cout][taps][cin/groups]
  std::vector<std::int32_t> neighbours;

  explicit ConvProblem(const ConvCase& conv, unsigned seed = 1, std::int64_t extra_pitch = 3,
                       std::int64_t offset = 1)
      : c(conv),
        input(c.rows_in, c.cin, c.in, c.cin + extra_pitch, offset),
        output(c.rows, c.cout, c.out, c.cout + extra_pitch, offset) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::uniform_real_distribution<double> uniform(0, 1);
    for (std::int64_t i = 0; i < c.rows_in; ++i) {
      for (std::int64_t j = 0; j < c.cin; ++j) set_element(input.view, i, j, normal(random));
    }
    weight.resize(static_cast<std::size_t>(c.cout * c.taps * (c.cin / c.groups)));
    for (float& w : weight) w = normal(random);
    neighbours.resize(static_cast<std::size_t>(c.taps * c.rows));
    for (auto& n : neighbours) {
      const bool present = c.rows_in > 0 && uniform(random) < c.density;
      n = present ? static_cast<std::int32_t>(random() % static_cast<unsigned>(c.rows_in)) : -1;
    }
  }

  // Sum of products of operands rounded to the compute type, and the sum of their magnitudes.
  struct Sum {
    double value = 0, magnitude = 0;
  };
  Sum expected(std::int64_t row, std::int64_t n) const {
    const std::int64_t group_in = c.cin / c.groups, group = n / (c.cout / c.groups);
    Sum sum;
    for (std::int64_t tap = 0; tap < c.taps; ++tap) {
      const std::int64_t from = neighbours[static_cast<std::size_t>(tap * c.rows + row)];
      if (from < 0) continue;
      for (std::int64_t k = 0; k < group_in; ++k) {
        const double a =
            rounded_to(c.compute, element(constant(input.view), from, group * group_in + k));
        const double w = rounded_to(
            c.compute, weight[static_cast<std::size_t>((n * c.taps + tap) * group_in + k)]);
        sum.value += a * w;
        sum.magnitude += std::fabs(a * w);
      }
    }
    return sum;
  }

  // Any order of fp32 additions errs by at most (terms in a chain) * 2^-24 of the magnitudes' sum:
  // a chain has at most 256 products, then one addition a tap and block. The store rounds once
  // more.
  double tolerance(const Sum& sum) const {
    const double chain =
        std::min<double>(256, double(c.cin)) + double(c.taps) * (double(c.cin) / 256 + 1) + 4;
    return chain * std::ldexp(1.0, -24) * sum.magnitude +
           unit_roundoff(c.out) * std::fabs(sum.value) + 1e-30 +
           (c.out == base::DType::f16 ? std::ldexp(1.0, -25) : 0.0);
  }
};

}  // namespace gemm_core_test
