// Golden files: what another engine computed for layers and networks. Layer files hold a group a
// case, network folders hold model.h5, input.h5 and expected.h5.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "io/hdf5_container.hpp"
#include "sparseconv/model.hpp"
#include "sparseconv/result.hpp"
#include "tests/support/compare_values.hpp"

namespace golden {

struct Expected {
  std::string node;
  test_support::Rows rows;
  std::vector<float> dense;
  std::vector<std::int64_t> dense_shape;  // empty where the output is sparse
};

struct Case {
  std::string name;  // of a group in a layer file; empty for a network
  sparseconv::Model model;
  sparseconv::SparseTensor input;
  std::vector<Expected> outputs;
};

bool is_layer_file(const std::filesystem::path& path);
bool is_network_folder(const std::filesystem::path& path);
std::vector<Case> read_layer_cases(const std::filesystem::path& path);
Case read_network(const std::filesystem::path& folder);

testing::AssertionResult matches(const sparseconv::Output& got, const Expected& expected,
                                 double relative);

// Largest magnitude among everything that the network's nodes give in fp32: what a narrower type
// must be able to hold.
double largest_activation(const Case& network);

}  // namespace golden
