// Holds a model on the engine to the naive network: every output, in every dtype.
#pragma once
#include <gtest/gtest.h>

#include "sparseconv/engine.hpp"
#include "tests/support/naive_network.hpp"
#include "tests/support/rows_of.hpp"
#include "tests/support/test_device.hpp"

namespace test_support {

inline void expect_as_naive(const sparseconv::Model& model, const sparseconv::SparseTensor& input) {
  using base::DType;
  const auto expected = run_naively(model, input);
  for (const DType dtype : {DType::f32, DType::tf32, DType::f16, DType::bf16}) {
    SCOPED_TRACE(base::name(dtype));
    const sparseconv::Engine engine(
        model, on_device({.dtype = std::string(base::name(dtype)), .threads = 2}));
    const sparseconv::Result result = engine.run(input);
    for (const sparseconv::Output& output : result.outputs) {
      const auto& wanted = expected.at(output.node);
      if (output.dense.defined()) {
        const auto dense = naive_dense(wanted);
        ASSERT_EQ(output.dense.numel(), static_cast<std::int64_t>(dense.size()));
        EXPECT_TRUE(
            all_near(output.dense.data<float>(), dense.data(), dense.size(), tolerance(dtype)));
      } else {
        EXPECT_TRUE(rows_near(rows_of(output.sparse), wanted.as_rows(), tolerance(dtype)))
            << output.node;
      }
    }
  }
}

}  // namespace test_support
