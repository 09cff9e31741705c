#include "sparseconv/cuda/narrow_check.hpp"

#include <cmath>

#include "gemm_core/base/error.hpp"

namespace sparseconv::cuda {
namespace {

constexpr double kMostError = 0.5, kLeastEqual = 0.75;
constexpr const char* kAdvice =
    ": this network does not survive 8 bits with the scales that its first frame gives; use "
    "--dtype fp16";

const base::Tensor& values_of(const Output& output) {
  return output.dense.numel() > 0 ? output.dense : output.sparse.features;
}

void check_values(const Output& wide, const Output& narrow, std::string_view dtype) {
  const base::Tensor &wanted = values_of(wide), &got = values_of(narrow);
  ENSURE(wanted.numel() == got.numel(), dtype, ": output ", wide.node, " has ", got.numel(),
         " values, in fp16 ", wanted.numel());
  double differences = 0, squares = 0;
  for (std::int64_t i = 0; i < wanted.numel(); ++i) {
    const double value = wanted.data<float>()[i], difference = got.data<float>()[i] - value;
    squares += value * value;
    differences += difference * difference;
  }
  if (!std::isfinite(squares) || squares == 0) return;
  const double error = std::sqrt(differences / squares);
  ENSURE(error <= kMostError, dtype, ": output ", wide.node, " is ", error,
         " of its size off the one in fp16", kAdvice);
}

}  // namespace

void check_narrow(const FrameOutput& wide, const FrameOutput& narrow, std::string_view dtype) {
  ENSURE(wide.outputs.size() == narrow.outputs.size(), dtype, ": ", narrow.outputs.size(),
         " outputs, in fp16 ", wide.outputs.size());
  for (std::size_t i = 0; i < wide.outputs.size(); ++i)
    check_values(wide.outputs[i], narrow.outputs[i], dtype);
  if (!wide.classes || !narrow.classes) return;
  const auto &wanted = *wide.classes, &got = *narrow.classes;
  ENSURE(wanted.size() == got.size(), dtype, ": ", got.size(), " classes, in fp16 ", wanted.size());
  std::int64_t known = 0, equal = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    known += wanted[i] != kNoClass;
    equal += wanted[i] != kNoClass && wanted[i] == got[i];
  }
  ENSURE(static_cast<double>(equal) >= kLeastEqual * static_cast<double>(known), dtype, ": ", equal,
         " of ", known, " classes are those in fp16", kAdvice);
}

}  // namespace sparseconv::cuda
