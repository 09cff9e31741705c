#include "tests/cuda/conv_case.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <type_traits>

#include "gemm_core/base/convert.hpp"
#include "gemm_core/base/parallel.hpp"

namespace cuda_tests {
namespace {

using base::DType;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
DType storage(DType dtype) { return dtype == DType::tf32 ? DType::f32 : dtype; }

template <class T>
T rounded(float v) {
  if constexpr (sizeof(T) == 1)
    return base::convert<T>(v);
  else
    return T(v);
}

// Values that the type holds exactly, so that the oracle sees what the device sees.
std::vector<float> rounded_values(std::int64_t count, DType dtype, std::mt19937& random,
                                  float deviation) {
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(index(count));
  base::visit_dtype<float, base::tf32_t, base::half_t, base::bf16_t, base::e4m3_t, std::int8_t>(
      dtype, "test", [&]<class T>() {
        for (float& v : values) v = static_cast<float>(rounded<T>(normal(random)));
      });
  return values;
}

base::cuda::Buffer<std::uint8_t> to_device(const std::vector<float>& values, DType dtype) {
  base::cuda::Buffer<std::uint8_t> buffer(
      index(base::bytes(storage(dtype), static_cast<std::int64_t>(values.size()))));
  std::vector<std::uint8_t> host(buffer.size());
  base::visit_dtype<float, base::half_t, base::bf16_t, base::e4m3_t, std::int8_t>(
      storage(dtype), "test", [&]<class T>() {
        for (std::size_t i = 0; i < values.size(); ++i)
          reinterpret_cast<T*>(host.data())[i] = rounded<T>(values[i]);
      });
  if (!host.empty())
    CUDA_CHECK(cudaMemcpy(buffer.data(), host.data(), host.size(), cudaMemcpyHostToDevice));
  return buffer;
}

template <class T>
base::cuda::Buffer<T> copied(const std::vector<T>& values) {
  base::cuda::Buffer<T> buffer(values.size());
  if (!values.empty())
    CUDA_CHECK(cudaMemcpy(buffer.data(), values.data(), values.size() * sizeof(T),
                          cudaMemcpyHostToDevice));
  return buffer;
}

double activated(double v, gemm_core::Activation activation) {
  switch (activation) {
    case gemm_core::Activation::relu:
      return std::max(v, 0.0);
    case gemm_core::Activation::leaky_relu:
      return v < 0 ? v * 0.25 : v;
    case gemm_core::Activation::sigmoid:
      return 1 / (1 + std::exp(-v));
    case gemm_core::Activation::silu:
      return v / (1 + std::exp(-v));
    case gemm_core::Activation::tanh:
      return std::tanh(v);
    case gemm_core::Activation::gelu:
      return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
    case gemm_core::Activation::identity:
      break;
  }
  return v;
}

// Half the distance between neighbouring values around v, of int8 1, of e4m3: 3 bits behind the
// leading one, which stands for 2^-6 at least.
double half_step(DType type, double v) {
  if (type == DType::i8) return 0.5;
  const int exponent = std::max(-6, v == 0 ? -6 : std::ilogb(v));
  return std::ldexp(1.0, exponent - 4);
}

// Integers times a power of two, the largest of an output channel 127 times that, so that int8 with
// the scale that suits it holds all of them; small enough for results of some tens.
void scale_integers(std::vector<float>& w, std::vector<float>& own, int cout) {
  const std::size_t width = w.size() / index(cout), own_width = own.size() / index(cout);
  const float terms = std::max(1.f, static_cast<float>(width + own_width) / 4);
  const float unit = std::exp2(-std::round(std::log2(40 * std::sqrt(terms))));
  for (int co = 0; co < cout; ++co) w[index(co) * width] = 127;
  for (std::vector<float>* values : {&w, &own}) {
    for (float& v : *values) v = std::max(v, -127.f) * unit;
  }
}

}  // namespace

double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 1e-5;
    case DType::tf32:
      return 1e-3;  // 2^-11 of the stored value and truncated products nowhere: operands are exact
    case DType::f16:
      return 1e-3;
    case DType::e4m3:
      return 2e-3;  // tensor cores keep about 14 bits of sums of 8-bit products
    case DType::i8:
      return 1e-3;  // as f16, in which results may be stored; products and sums are exact
    default:
      return 8e-3;  // bf16: 2^-9
  }
}

ConvProblem::ConvProblem(const ConvCase& conv, const HostMap& map, unsigned seed)
    : conv_(conv), map_(map), width_(std::max(conv.output_channels, conv.cout)) {
  std::mt19937 random(seed);
  const int group_cin = conv.cin / conv.groups, group_cout = conv.cout / conv.groups;
  const bool has_integers = conv.dtype == DType::i8;
  const float size = has_integers ? 20.f : 1.f;  // of values
  const auto x = rounded_values(std::int64_t{map.inputs} * conv.cin, conv.dtype, random, size);
  auto w = rounded_values(std::int64_t{conv.cout} * map.taps * group_cin, conv.dtype, random,
                          has_integers ? 40 : 1 / std::sqrt(static_cast<float>(group_cin)));
  const auto own = rounded_values(std::int64_t{map.rows} * conv.own_cin, conv.dtype, random, size);
  auto own_w = rounded_values(std::int64_t{conv.cout} * conv.own_cin, conv.dtype, random,
                              has_integers ? 40 : 0.5f);
  const auto residual = rounded_values(std::int64_t{map.rows} * conv.cout, conv.added(), random,
                                       conv.added() == DType::i8 ? 20.f : 1.f);
  if (has_integers) scale_integers(w, own_w, conv.cout);
  const auto scale = rounded_values(conv.cout, DType::f32, random, 1),
             shift = rounded_values(conv.cout, DType::f32, random, 1);

  expected_.assign(index(std::int64_t{map.rows} * conv.cout), 0);
  // Row by row, so that the order of each sum is one of loops, whatever the number of threads.
  base::parallel_blocks(map.rows, 16, [&](std::int64_t begin, std::int64_t end) {
    for (int r = static_cast<int>(begin); r < end; ++r) {
      for (int t = 0; t < map.taps; ++t) {
        const int in = map.at(t, r);
        if (in < 0) continue;
        for (int co = 0; co < conv.cout; ++co) {
          const float* row =
              x.data() + index(std::int64_t{in} * conv.cin + co / group_cout * group_cin);
          const float* weight = w.data() + index((std::int64_t{co} * map.taps + t) * group_cin);
          double sum = 0;
          for (int c = 0; c < group_cin; ++c) sum += static_cast<double>(row[c]) * weight[c];
          expected_[index(std::int64_t{r} * conv.cout + co)] += sum;
        }
      }
      for (int co = 0; co < conv.cout; ++co) {
        double& sum = expected_[index(std::int64_t{r} * conv.cout + co)];
        for (int c = 0; c < conv.own_cin; ++c)
          sum += static_cast<double>(own[index(std::int64_t{r} * conv.own_cin + c)]) *
                 own_w[index(std::int64_t{co} * conv.own_cin + c)];
      }
    }
  });
  for (std::size_t i = 0; i < expected_.size(); ++i) {
    const std::size_t co = i % index(conv.cout);
    double v = expected_[i];
    if (conv.scale_shift) v = v * scale[co] + shift[co];
    if (conv.residual) v += static_cast<double>(conv.factor) * residual[i];
    expected_[i] = activated(v, conv.activation);
    if (conv.stored() == DType::e4m3) expected_[i] = std::clamp(expected_[i], -448.0, 448.0);
    if (conv.stored() == DType::i8) expected_[i] = std::clamp(expected_[i], -128.0, 127.0);
  }

  input_ = to_device(x, conv.dtype);
  residual_ = to_device(residual, conv.added());
  scale_ = copied(scale);
  shift_ = copied(shift);
  canonical_ = copied(map.table);
  std::vector<float> common;  // scales that suit both weights
  for (int co = 0; co < conv.cout && conv.own_cin > 0 && gemm_core::cuda::is_eight_bit(conv.dtype);
       ++co) {
    float largest = 0;
    const int width = map.taps * conv.cin;
    for (int i = 0; i < width; ++i)
      largest = std::max(largest, std::abs(w[index(std::int64_t{co} * width + i)]));
    for (int i = 0; i < conv.own_cin; ++i)
      largest = std::max(largest, std::abs(own_w[index(std::int64_t{co} * conv.own_cin + i)]));
    common.push_back(gemm_core::cuda::narrow_scale(conv.dtype, largest));
  }
  weights_ = gemm_core::cuda::upload_conv_weights({.weight = w.data(),
                                                   .cout = conv.cout,
                                                   .taps = map.taps,
                                                   .cin = conv.cin,
                                                   .groups = conv.groups,
                                                   .compute = conv.dtype},
                                                  common);
  if (conv.own_cin > 0) {
    own_ = to_device(own, conv.dtype);
    own_weights_ = gemm_core::cuda::upload_conv_weights({.weight = own_w.data(),
                                                         .cout = conv.cout,
                                                         .taps = 1,
                                                         .cin = conv.own_cin,
                                                         .groups = 1,
                                                         .compute = conv.dtype},
                                                        common);
  }
  weight_scale_ = copied(weights_.scale);
  output_ = base::cuda::Buffer<std::uint8_t>(
      index(base::bytes(storage(conv.stored()), std::int64_t{map.rows} * width_)));
  poison_output();
}

gemm_core::cuda::GatherConvArguments ConvProblem::arguments() {
  const base::Device cuda{base::Device::Kind::cuda, 0};
  const DType type = storage(conv_.stored());
  gemm_core::cuda::GatherConvArguments a;
  a.input = {input_.data(), storage(conv_.dtype), cuda, {map_.inputs, conv_.cin}, {conv_.cin, 1}};
  a.weights = &weights_;
  a.output = {output_.data() + base::bytes(type, conv_.output_offset),
              type,
              cuda,
              {map_.rows, conv_.cout},
              {width_, 1}};
  if (conv_.own_cin > 0) {
    a.own_weights = &own_weights_;
    a.own_input = {
        own_.data(), storage(conv_.dtype), cuda, {map_.rows, conv_.own_cin}, {conv_.own_cin, 1}};
  }
  if (weight_scale_.size() > 0) a.epilogue.scale_shift(weight_scale_.data(), nullptr);
  if (conv_.scale_shift) a.epilogue.scale_shift(scale_.data(), shift_.data());
  if (conv_.residual) {
    a.epilogue.add(
        {residual_.data(), storage(conv_.added()), cuda, {map_.rows, conv_.cout}, {conv_.cout, 1}});
    if (conv_.factor != 1) a.aux_factors = {conv_.factor};
  }
  if (conv_.activation != gemm_core::Activation::identity)
    a.epilogue.activate(conv_.activation, 0.25f);
  return a;
}

void ConvProblem::poison_output() {
  if (output_.size() > 0) CUDA_CHECK(cudaMemset(output_.data(), 0xff, output_.size()));
  CUDA_CHECK(cudaDeviceSynchronize());
}

std::vector<float> ConvProblem::output() const {
  std::vector<std::uint8_t> host(output_.size());
  if (!host.empty())
    CUDA_CHECK(cudaMemcpy(host.data(), output_.data(), host.size(), cudaMemcpyDeviceToHost));
  std::vector<float> values;
  base::visit_dtype<float, base::half_t, base::bf16_t, base::e4m3_t, std::int8_t>(
      storage(conv_.stored()), "test", [&]<class T>() {
        const auto* stored = reinterpret_cast<const T*>(host.data());
        for (int r = 0; r < map_.rows; ++r) {
          for (int c = 0; c < conv_.cout; ++c) {
            values.push_back(static_cast<float>(
                stored[index(std::int64_t{r} * width_ + conv_.output_offset + c)]));
          }
        }
      });
  return values;
}

bool ConvProblem::is_outside_untouched() const {
  std::vector<std::uint8_t> host(output_.size());
  if (!host.empty())
    CUDA_CHECK(cudaMemcpy(host.data(), output_.data(), host.size(), cudaMemcpyDeviceToHost));
  const std::int64_t bytes = base::bytes(storage(conv_.stored()));
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(host.size()); ++i) {
    const std::int64_t column = i / bytes % width_;
    const bool is_inside =
        column >= conv_.output_offset && column < conv_.output_offset + conv_.cout;
    if (!is_inside && host[index(i)] != 0xff) return false;
  }
  return true;
}

double ConvProblem::worst_error(const std::vector<float>& values) const {
  double worst = 0, largest = 1e-30;
  for (std::size_t i = 0; i < expected_.size(); ++i) {
    double difference = std::abs(values[i] - expected_[i]);
    if (gemm_core::cuda::is_eight_bit(conv_.stored()))
      difference = std::max(difference - half_step(conv_.stored(), expected_[i]), 0 * difference);
    worst = difference <= worst ? worst : difference;  // NaN stays
    largest = std::max(largest, std::abs(expected_[i]));
  }
  return worst / largest;
}

}  // namespace cuda_tests
