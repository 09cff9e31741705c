// Random GEMM problems of any type and layout, and the definition in double that results are held
// to.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "gemm_core/base/array.hpp"
#include "gemm_core/base/numeric.hpp"
#include "gemm_core/device/gemm.hpp"

namespace gemm_case {

using base::DType;
using gemm_core::Gemm;
using gemm_core::GemmArguments;
using gemm_core::GemmStatus;

template <class T>
double packed(const void* data, std::int64_t at) {
  auto* bytes = static_cast<std::uint8_t*>(const_cast<void*>(data));
  return static_cast<int>(base::PackedSpan<T>(bytes, at + 1).get(at));
}

inline double read(const void* data, DType type, std::int64_t at) {
  switch (type) {
    case DType::f64:
      return static_cast<const double*>(data)[at];
    case DType::f16:
      return static_cast<const base::half_t*>(data)[at];
    case DType::bf16:
      return static_cast<const base::bf16_t*>(data)[at];
    case DType::i8:
      return static_cast<const std::int8_t*>(data)[at];
    case DType::i32:
      return static_cast<const std::int32_t*>(data)[at];
    case DType::e4m3:
      return static_cast<const base::e4m3_t*>(data)[at];
    case DType::e5m2:
      return static_cast<const base::e5m2_t*>(data)[at];
    case DType::u8:
      return static_cast<const std::uint8_t*>(data)[at];
    case DType::i4:
      return packed<base::int4_t>(data, at);
    case DType::u4:
      return packed<base::uint4_t>(data, at);
    case DType::i2:
      return packed<base::int2_t>(data, at);
    case DType::u2:
      return packed<base::uint2_t>(data, at);
    case DType::b1:
      return packed<base::uint1_t>(data, at);
    default:
      return static_cast<const float*>(data)[at];
  }
}

inline void write(void* data, DType type, std::int64_t at, double value) {
  switch (type) {
    case DType::f64:
      static_cast<double*>(data)[at] = value;
      return;
    case DType::f16:
      static_cast<base::half_t*>(data)[at] = base::half_t(static_cast<float>(value));
      return;
    case DType::bf16:
      static_cast<base::bf16_t*>(data)[at] = base::bf16_t(static_cast<float>(value));
      return;
    case DType::i8:
      static_cast<std::int8_t*>(data)[at] = static_cast<std::int8_t>(value);
      return;
    case DType::i32:
      static_cast<std::int32_t*>(data)[at] = static_cast<std::int32_t>(value);
      return;
    case DType::e4m3:
      static_cast<base::e4m3_t*>(data)[at] = base::e4m3_t(static_cast<float>(value));
      return;
    case DType::e5m2:
      static_cast<base::e5m2_t*>(data)[at] = base::e5m2_t(static_cast<float>(value));
      return;
    default:
      static_cast<float*>(data)[at] = static_cast<float>(value);
      return;
  }
}

inline double rounded(double value, DType compute) {
  switch (compute) {
    case DType::f16:
      return base::half_t(static_cast<float>(value));
    case DType::bf16:
      return base::bf16_t(static_cast<float>(value));
    case DType::tf32:
      return base::round_to_tf32(static_cast<float>(value));
    case DType::e4m3:
      return base::e4m3_t(static_cast<float>(value));
    case DType::e5m2:
      return base::e5m2_t(static_cast<float>(value));
    default:
      return value;
  }
}

inline double unit_roundoff(DType type) {
  switch (type) {
    case DType::f64:
      return std::ldexp(1.0, -53);
    case DType::f16:
      return std::ldexp(1.0, -11);
    case DType::bf16:
      return std::ldexp(1.0, -8);
    case DType::i32:
      return 0;
    case DType::e4m3:
      return std::ldexp(1.0, -4);
    case DType::e5m2:
      return std::ldexp(1.0, -3);
    default:
      return std::ldexp(1.0, -24);
  }
}

// Half the step of the subnormal numbers.
inline double smallest_half_step(DType type) {
  switch (type) {
    case DType::f16:
      return std::ldexp(1.0, -25);
    case DType::e4m3:
      return std::ldexp(1.0, -10);
    case DType::e5m2:
      return std::ldexp(1.0, -17);
    default:
      return 0;
  }
}

// rows x columns values inside one buffer per batch, row- or column-major, with a gap after each
// line.
struct Matrix {
  std::int64_t rows, columns, row_stride, column_stride, batch_stride;
  DType type;
  std::vector<std::uint8_t> bytes;
  Matrix(std::int64_t r, std::int64_t c, DType t, bool row_major, std::int64_t batch,
         std::mt19937& random)
      : rows(r),
        columns(c),
        row_stride(row_major ? c + 3 : 1),
        column_stride(row_major ? 1 : r + 3),
        batch_stride((r + 3) * (c + 3) + ((r + 3) * (c + 3)) % 8 * 7),
        type(t),
        bytes(static_cast<std::size_t>(batch * batch_stride * base::bytes(t) + 8)) {
    if (base::bits(t) < 8 || t == DType::u8) {
      for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
      return;
    }
    std::normal_distribution<double> normal;
    for (std::int64_t i = 0; i < batch * batch_stride; ++i) {
      const bool integer = t == DType::i8 || t == DType::i32;
      write(bytes.data(), t, i,
            integer ? static_cast<double>(static_cast<int>(random() % 256) - 128) : normal(random));
    }
  }
  std::int64_t at(std::int64_t i, std::int64_t j, std::int64_t l) const {
    return i * row_stride + j * column_stride + l * batch_stride;
  }
  double operator()(std::int64_t i, std::int64_t j, std::int64_t l = 0) const {
    return read(bytes.data(), type, at(i, j, l));
  }
  gemm_core::GemmOperand operand() const {
    return {bytes.data(), type, row_stride, column_stride, batch_stride, nullptr};
  }
  gemm_core::GemmOutput output() {
    return {bytes.data(), type, row_stride, column_stride, batch_stride, nullptr};
  }
};

struct Case {
  std::int64_t m = 33, n = 20, k = 40, batch = 1;
  bool a_rows = true, b_rows = true, c_rows = true, d_rows = true;
  DType a = DType::f32, b = DType::f32, c = DType::f32, d = DType::f32, compute = DType::f32;
  double alpha = 1, beta = 0;
};

struct Problem {
  Case s;
  std::mt19937 random{5};
  Matrix a, b, c, d;
  explicit Problem(const Case& x)
      : s(x),
        a(x.m, x.k, x.a, x.a_rows, x.batch, random),
        b(x.k, x.n, x.b, x.b_rows, x.batch, random),
        c(x.m, x.n, x.c, x.c_rows, x.batch, random),
        d(x.m, x.n, x.d, x.d_rows, x.batch, random) {}
  GemmArguments arguments() {
    GemmArguments g{
        .m = s.m, .n = s.n, .k = s.k, .batch = s.batch, .a = a.operand(), .b = b.operand()};
    if (s.beta != 0) g.c = c.operand();
    g.d = d.output();
    g.compute = s.compute;
    g.alpha = s.alpha;
    g.beta = s.beta;
    return g;
  }
};

inline std::string describe(const Case& c) {
  return base::concat("m ", c.m, " n ", c.n, " k ", c.k, " batch ", c.batch, " layout ",
                      c.a_rows ? "T" : "N", c.b_rows ? "N" : "T", " ", base::name(c.a), " x ",
                      base::name(c.b), " -> ", base::name(c.d), " as ", base::name(c.compute),
                      " alpha ", c.alpha, " beta ", c.beta);
}

inline GemmStatus run(const GemmArguments& g) {
  std::vector<std::uint8_t> workspace(Gemm::workspace_size(g));
  Gemm gemm;
  if (auto s = gemm.initialize(g, workspace.data(), workspace.size()); !s.ok()) return s;
  return gemm.run();
}

// Sums of at most 256 products, then one addition a block: (256 + blocks + 4) roundings of the
// magnitudes' sum.
inline void expect_equal_to_oracle(const Problem& p, const Case& c) {
  const double chain = std::min<double>(256, double(c.k)) + double(c.k) / 256 + 4;
  const double u = c.compute == DType::f64 ? std::ldexp(1.0, -53) : std::ldexp(1.0, -24);
  const bool integer = c.d == DType::i32;
  for (std::int64_t l = 0; l < c.batch; ++l) {
    for (std::int64_t i = 0; i < c.m; ++i) {
      for (std::int64_t j = 0; j < c.n; ++j) {
        double sum = 0, magnitude = 0;
        for (std::int64_t k = 0; k < c.k; ++k) {
          const double product =
              rounded(p.a(i, k, l), c.compute) * rounded(p.b(k, j, l), c.compute);
          sum += product;
          magnitude += std::fabs(product);
        }
        const double addend = c.beta != 0 ? c.beta * p.c(i, j, l) : 0;
        const double expected = c.alpha * sum + addend;
        const double tolerance =
            integer
                ? 0
                : chain * u * (std::fabs(c.alpha) * magnitude + std::fabs(addend)) +
                      unit_roundoff(c.d) * std::fabs(expected) + 1e-300 + smallest_half_step(c.d);
        ASSERT_LE(std::fabs(p.d(i, j, l) - expected), tolerance)
            << describe(c) << " at " << l << ", " << i << ", " << j << ": " << p.d(i, j, l)
            << " expected " << expected;
      }
    }
  }
}

inline void check(const Case& c) {
  Problem p(c);
  const GemmStatus status = run(p.arguments());
  ASSERT_TRUE(status.ok()) << describe(c) << ": " << status.message;
  expect_equal_to_oracle(p, c);
}

}  // namespace gemm_case
