#include "gemm_core/device/cuda/conv/conv_positions.hpp"

#include "gemm_core/device/conv_lowering.hpp"

namespace gemm_core::cuda {
namespace {

std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }

// Places of taps count by `unit`, backwards where the filter is flipped.
std::int64_t tap_place(const ConvProblem& p, std::size_t axis, std::int64_t tap) {
  return p.flip ? p.kernel[axis] - 1 - tap : tap;
}

ConvPartAxis forward_axis(const ConvProblem& p, std::size_t i, std::int64_t unit) {
  ConvPartAxis axis;
  axis.positions = p.output()[i];
  axis.corner = -p.lower[i];
  axis.step = p.stride[i];
  axis.taps.count = static_cast<int>(p.kernel[i]);
  axis.taps.offset_step = static_cast<int>(p.dilation[i]);
  axis.taps.place = static_cast<int>(tap_place(p, i, 0) * unit);
  axis.taps.place_step = static_cast<int>(p.flip ? -unit : unit);
  axis.most_offset = (p.kernel[i] - 1) * p.dilation[i];
  return axis;
}

// Positions whose sum with the padding leaves `remainder` by the stride: position first + j *
// stride reads output j + (first + lower - tap * dilation) / stride where that division is exact.
ConvPartAxis gradient_axis(const ConvProblem& p, std::size_t i, std::int64_t unit,
                           std::int64_t remainder) {
  ConvPartAxis axis;
  const std::int64_t s = p.stride[i];
  axis.stride = s;
  axis.first = ((remainder - p.lower[i]) % s + s) % s;
  axis.positions = axis.first < p.input[i] ? ceil_div(p.input[i] - axis.first, s) : 0;
  std::vector<std::int64_t> taps;
  for (std::int64_t t = 0; t < p.kernel[i]; ++t) {
    if (t * p.dilation[i] % s == remainder) taps.push_back(t);
  }
  axis.taps.count = static_cast<int>(taps.size());
  if (taps.empty()) return axis;
  const auto output = [&](std::int64_t tap) {
    return (axis.first + p.lower[i] - tap * p.dilation[i]) / s;  // exact
  };
  axis.corner = output(taps.back());
  axis.most_offset = output(taps.front()) - axis.corner;
  axis.taps.offset = static_cast<int>(axis.most_offset);
  axis.taps.place = static_cast<int>(tap_place(p, i, taps[0]) * unit);
  if (taps.size() > 1) {
    axis.taps.offset_step = static_cast<int>(output(taps[1]) - output(taps[0]));
    axis.taps.place_step =
        static_cast<int>((tap_place(p, i, taps[1]) - tap_place(p, i, taps[0])) * unit);
  }
  return axis;
}

}  // namespace

std::vector<ConvPart> conv_parts(const ConvArguments& g) {
  const ConvProblem& p = g.problem;
  const Axes unit{p.kernel[1] * p.kernel[2], p.kernel[2], 1};
  std::vector<ConvPart> parts;
  if (g.operation != ConvOperation::activation_gradient) {
    ConvPart part;
    for (std::size_t i = 0; i < 3; ++i) part[i] = forward_axis(p, i, unit[i]);
    return {part};
  }
  for_each_position(1, p.stride, [&](std::int64_t, std::int64_t, const Axes& remainder) {
    ConvPart part;
    for (std::size_t i = 0; i < 3; ++i) part[i] = gradient_axis(p, i, unit[i], remainder[i]);
    if (part[0].positions * part[1].positions * part[2].positions > 0) parts.push_back(part);
  });
  return parts;
}

}  // namespace gemm_core::cuda
