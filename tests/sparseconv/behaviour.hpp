// What the tests of the behaviour cases share: every dtype, runs, and rows to compare.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "sparseconv/engine.hpp"
#include "tests/support/compare_values.hpp"
#include "tests/support/make_inputs.hpp"
#include "tests/support/test_device.hpp"

namespace behaviour {

using namespace sparseconv;  // NOLINT: a header of two test files
using base::DType;
using test_support::random_model;
using test_support::tensor_of;

inline constexpr const char* kDTypes[] = {"fp32", "tf32", "fp16", "bf16"};

inline constexpr const char* kSubm3 =
    R"({"name":"out","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":4,"bias":true})";
inline constexpr const char* kK2S2 =
    R"({"name":"out","op":"conv","inputs":["input"],"kernel":2,"stride":2,"out_channels":4})";
inline constexpr const char* kNetwork = R"(
  {"name":"a","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":16},
  {"name":"b","op":"conv","inputs":["a"],"kernel":3,"stride":2,"padding":1,"out_channels":24},
  {"name":"c","op":"relu","inputs":["b"]},
  {"name":"g","op":"global_avg_pool","inputs":["c"]},
  {"name":"d","op":"inverse_conv","inputs":["c"],"pair":"b","out_channels":16},
  {"name":"e","op":"concat","inputs":["d","a"]},
  {"name":"out","op":"linear","inputs":["e"],"out_channels":5})";

inline Result run(const Model& model, const SparseTensor& input, const std::string& dtype = "fp32",
                  int threads = 2) {
  return Engine(model, test_support::on_device({.dtype = dtype, .threads = threads})).run(input);
}

inline SparseTensor sparse(const Result& result) { return result.outputs.at(0).sparse; }

inline std::vector<Coord> coords_of(const SparseTensor& tensor) {
  const auto coords = tensor.coordinates->coords();
  return {coords.begin(), coords.end()};
}

inline std::vector<float> row_of(const SparseTensor& tensor, std::int64_t row) {
  const float* from = tensor.features.data<float>() + row * tensor.channels();
  return {from, from + tensor.channels()};
}

inline bool same_bits(const base::Tensor& a, const base::Tensor& b) {
  return a.shape() == b.shape() &&
         (a.numel() == 0 ||
          std::equal(a.data<float>(), a.data<float>() + a.numel(), b.data<float>()));
}

// A full grid: every cell is there.
inline std::vector<Coord> full_grid(int n) {
  std::vector<Coord> coords;
  for (int x = 0; x < n; ++x) {
    for (int y = 0; y < n; ++y) {
      for (int z = 0; z < n; ++z) coords.push_back({0, x, y, z});
    }
  }
  return coords;
}

}  // namespace behaviour
