// Dense convolution by explicit loops in double, and its operands as random tensors of any strides.
#pragma once
#include <cmath>
#include <random>
#include <vector>

#include "gemm_core/base/numeric.hpp"
#include "gemm_core/device/conv.hpp"
#include "tests/gemm_core/gemm_case.hpp"

namespace conv_case {

using base::DType;
using gemm_core::Axes;
using gemm_core::ConvOperation;
using gemm_core::ConvProblem;

using gemm_case::read;
using gemm_case::write;

// [outer, x, y, z, channels]; `gap` elements after each line of each axis.
struct Tensor {
  std::int64_t outer, channels, gap;
  Axes extent, strides;
  std::int64_t outer_stride;
  DType type;
  std::vector<std::uint8_t> bytes;
  Tensor(std::int64_t n, const Axes& e, std::int64_t c, DType t, std::int64_t g,
         std::mt19937& random)
      : outer(n), channels(c), gap(g), extent(e), type(t) {
    strides[2] = c + g;
    strides[1] = e[2] * strides[2] + g;
    strides[0] = e[1] * strides[1] + g;
    outer_stride = e[0] * strides[0] + g;
    bytes.resize(static_cast<std::size_t>((n * outer_stride + 1) * base::bytes(t)));
    std::normal_distribution<double> normal;
    for (std::int64_t i = 0; i < n * outer_stride; ++i)
      write(bytes.data(), t, i,
            t == DType::i8 || t == DType::i32 ? static_cast<int>(random() % 200) - 100
                                              : normal(random));
  }
  std::int64_t at(std::int64_t n, const Axes& p, std::int64_t c) const {
    return n * outer_stride + p[0] * strides[0] + p[1] * strides[1] + p[2] * strides[2] + c;
  }
  double operator()(std::int64_t n, const Axes& p, std::int64_t c) const {
    return read(bytes.data(), type, at(n, p, c));
  }
  gemm_core::ConvTensor tensor() {
    if (gap == 0) return {bytes.data(), type};
    return {bytes.data(), type, outer_stride, strides, 1};
  }
};

template <class Body>
void for_each(const Axes& extent, const Body& body) {
  for (std::int64_t x = 0; x < extent[0]; ++x)
    for (std::int64_t y = 0; y < extent[1]; ++y)
      for (std::int64_t z = 0; z < extent[2]; ++z) body(Axes{x, y, z});
}

// body(n, out, in, tap, k, c within the group, c) for every product of the convolution.
template <class Body>
void for_each_product(const ConvProblem& p, const Body& body) {
  const std::int64_t k_group = p.filters / p.groups, c_group = p.channels / p.groups;
  for (std::int64_t n = 0; n < p.batch; ++n) {
    for_each(p.output(), [&](const Axes& out) {
      for_each(p.kernel, [&](const Axes& tap) {
        Axes in, place = tap;
        for (std::size_t i = 0; i < 3; ++i) {
          in[i] = out[i] * p.stride[i] - p.lower[i] + tap[i] * p.dilation[i];
          if (in[i] < 0 || in[i] >= p.input[i]) return;
          if (p.flip) place[i] = p.kernel[i] - 1 - tap[i];
        }
        for (std::int64_t k = 0; k < p.filters; ++k) {
          for (std::int64_t c = 0; c < c_group; ++c)
            body(n, out, in, place, k, c, k / k_group * c_group + c);
        }
      });
    });
  }
}

using gemm_core::Conv;
using gemm_core::ConvArguments;
using gemm_core::GemmStatus;
using Path = ConvArguments::Path;

struct Case {
  ConvProblem problem;
  DType in = DType::f32, out = DType::f32, compute = DType::f32;
  std::int64_t gap = 0;
  double alpha = 1, beta = 0;
  Path path = Path::automatic;
};

struct Sample {
  Case s;
  std::mt19937 random{4};
  Tensor activation, filter, output, c;
  ConvOperation operation;
  static const Tensor& result(const Sample& r) {
    return r.operation == ConvOperation::forward           ? r.output
           : r.operation == ConvOperation::filter_gradient ? r.filter
                                                           : r.activation;
  }
  Sample(const Case& x, ConvOperation op)
      : s(x),
        activation(x.problem.batch, x.problem.input, x.problem.channels,
                   op == ConvOperation::activation_gradient ? x.out : x.in, x.gap, random),
        filter(x.problem.filters, x.problem.kernel, x.problem.channels / x.problem.groups,
               op == ConvOperation::filter_gradient ? x.out : x.in, x.gap, random),
        output(x.problem.batch, x.problem.output(), x.problem.filters,
               op == ConvOperation::forward ? x.out : x.in, x.gap, random),
        c(op == ConvOperation::forward           ? output
          : op == ConvOperation::filter_gradient ? filter
                                                 : activation),
        operation(op) {}
  Tensor& d() { return const_cast<Tensor&>(result(*this)); }
  ConvArguments arguments() {
    const bool forward = operation == ConvOperation::forward,
               wgrad = operation == ConvOperation::filter_gradient;
    ConvArguments g{.operation = operation, .problem = s.problem};
    g.a = forward ? activation.tensor() : output.tensor();
    g.b = wgrad ? activation.tensor() : filter.tensor();
    g.c = c.tensor();
    g.d = d().tensor();
    g.compute = s.compute;
    g.alpha = s.alpha;
    g.beta = s.beta;
    g.path = s.path;
    return g;
  }
};

inline GemmStatus run(const ConvArguments& g) {
  std::vector<std::uint8_t> workspace(Conv::workspace_size(g));
  Conv conv;
  if (auto s = conv.initialize(g, workspace.data(), workspace.size()); !s.ok()) return s;
  return conv.run();
}

}  // namespace conv_case
