// Runs a model the slow way: node by node, in fp64, with std::map for coordinates. Shares no code
// with the kernels, maps or plans of the library; it is what they are held to.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "sparseconv/model.hpp"
#include "sparseconv/sparse_tensor.hpp"
#include "tests/support/compare_values.hpp"

namespace test_support {

struct NaiveTensor {
  std::vector<sparseconv::Coord> coords;
  std::vector<std::vector<double>> rows;
  std::optional<sparseconv::SpatialShape> shape;
  std::int32_t batch_size = 1;

  Rows as_rows() const;  // rounded to float
};

NaiveTensor naive_tensor(const sparseconv::SparseTensor& tensor);

struct NaiveOptions {
  bool uses_batch_statistics =
      false;  // batch norms as in training: mean and biased variance of rows
};

// The value of every node. to_dense is given as the rows that it spreads; devoxelize is not run.
std::map<std::string, NaiveTensor> run_naively(const sparseconv::Model& model,
                                               const sparseconv::SparseTensor& input,
                                               const NaiveOptions& options = {});

// [N, C*D, H, W] of rows in a bounded grid.
std::vector<float> naive_dense(const NaiveTensor& tensor);

}  // namespace test_support
