// Runs golden files through the library, in every dtype. One invocation serves one file or folder;
// the files themselves are read when a test runs.
//   golden_test --file golden/layers.h5      relative to the shared folder, or absolute
//   golden_test --others layers.h5,second    every file of golden/ but these
#include <algorithm>
#include <iostream>
#include <set>
#include <sstream>

#include "sparseconv/engine.hpp"
#include "tests/sparseconv/golden_files.hpp"
#include "tests/support/shared_files.hpp"
#include "tests/support/test_device.hpp"

namespace {

using base::DType;

constexpr DType kDTypes[] = {DType::f32, DType::tf32, DType::f16, DType::bf16};
constexpr double kLargestHalf = 65504;

std::string selected_file;
std::set<std::string> excluded;
bool runs_others = false;

std::vector<std::filesystem::path> selected_files() {
  const auto folder = test_support::shared_folder();
  if (!runs_others) return {folder / selected_file};
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::exists(folder / "golden")) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "golden")) {
    const auto& path = entry.path();
    if (excluded.count(path.filename().string()) > 0) continue;
    if (golden::is_layer_file(path) || golden::is_network_folder(path)) files.push_back(path);
  }
  return files;
}

void check(const golden::Case& one, DType dtype) {
  const sparseconv::Engine engine(
      one.model, test_support::on_device({.dtype = std::string(base::name(dtype)), .threads = 2}));
  const auto result = engine.run(one.input);
  ASSERT_EQ(result.outputs.size(), one.outputs.size());
  for (const auto& output : result.outputs) {
    const auto expected =
        std::find_if(one.outputs.begin(), one.outputs.end(),
                     [&](const golden::Expected& e) { return e.node == output.node; });
    ASSERT_NE(expected, one.outputs.end()) << "nothing is expected of output " << output.node;
    EXPECT_TRUE(golden::matches(output, *expected, test_support::tolerance(dtype)))
        << "output " << output.node << " in " << base::name(dtype);
  }
}

class Golden : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    for (const auto& path : selected_files()) {
      if (std::filesystem::exists(path)) files_.push_back(path);
    }
    if (files_.empty()) GTEST_SKIP() << "no golden file " << selected_file;
  }
  std::vector<std::filesystem::path> files_;
};

TEST_P(Golden, EveryValueIsWithinToleranceOfTheExpectedOne) {
  for (const auto& path : files_) {
    SCOPED_TRACE(path.string());
    if (golden::is_layer_file(path)) {
      const auto cases = golden::read_layer_cases(path);
      ASSERT_FALSE(cases.empty());
      for (const auto& one : cases) {
        SCOPED_TRACE("case " + one.name);
        check(one, GetParam());
      }
      continue;
    }
    ASSERT_TRUE(golden::is_network_folder(path));
    const auto network = golden::read_network(path);
    if (GetParam() == DType::f16 && golden::largest_activation(network) > kLargestHalf) {
      std::cout << path << ": activations beyond 65504, float16 does not apply\n";
      continue;
    }
    check(network, GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(, Golden, testing::ValuesIn(kDTypes),
                         [](const auto& tested) { return std::string(base::name(tested.param)); });

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string option = argc == 3 ? argv[1] : "";
  if (option == "--file") {
    selected_file = argv[2];
  } else if (option == "--others") {
    runs_others = true;
    std::istringstream names(argv[2]);
    for (std::string name; std::getline(names, name, ',');) excluded.insert(name);
  } else {
    std::cerr << "usage: golden_test --file FILE | --others NAME,NAME,...\n";
    return 2;
  }
  return RUN_ALL_TESTS();
}
