// Golden files through the command line: `run --save features --format h5` must write the groups
// that are expected.
//   sparseconv_golden_cli_test --file golden/layers.h5 [--dtype fp32]     relative to the shared
//   folder, or absolute
#include <gtest/gtest.h>

#include <iostream>

#include "sparseconv/voxel_file.hpp"
#include "tests/apps/command_line.hpp"
#include "tests/sparseconv/golden_files.hpp"
#include "tests/support/shared_files.hpp"

using namespace command_line;
namespace fs = std::filesystem;

namespace {

std::string selected_file, selected_dtype = "fp32";

test_support::Rows read_rows(const io::Hdf5Reader& file, const std::string& group) {
  test_support::Rows rows;
  const auto numbers = file.read<std::int32_t>(group + "/coordinates");
  for (std::size_t i = 0; i + 3 < numbers.size(); i += 4) {
    rows.coords.push_back({numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3]});
  }
  rows.features = file.read<float>(group + "/features");
  return rows;
}

void check_output(const io::Hdf5Reader& file, const golden::Expected& expected, double relative) {
  const std::string group = "/outputs/" + expected.node;
  ASSERT_TRUE(file.is_group(group)) << group;
  if (expected.dense_shape.empty()) {
    EXPECT_EQ(file.dataset(group + "/coordinates").type, base::DType::i32);
    EXPECT_TRUE(test_support::rows_near(read_rows(file, group), expected.rows, relative)) << group;
    return;
  }
  ASSERT_TRUE(file.has(group + "/dense")) << group;
  EXPECT_EQ(file.dataset(group + "/dense").shape, expected.dense_shape);
  const auto dense = file.read<float>(group + "/dense");
  ASSERT_EQ(dense.size(), expected.dense.size());
  EXPECT_TRUE(test_support::all_near(dense.data(), expected.dense.data(), dense.size(), relative))
      << group;
}

void check_run(const fs::path& model, const fs::path& input, const golden::Case& one) {
  const ScratchFolder folder;
  const ProgramRun run =
      run_cli({"run", "--model", model.string(), input.string(), "-o", folder.text("out"), "--save",
               "features", "--format", "h5", "--dtype", selected_dtype});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const io::Hdf5Reader file(folder / "out" / input.filename());
  EXPECT_EQ(file.children("/outputs").size(), one.outputs.size());
  const double relative = test_support::tolerance(base::parse_dtype(selected_dtype));
  for (const golden::Expected& expected : one.outputs) check_output(file, expected, relative);
}

TEST(GoldenCommandLine, WritesWhatTheOtherEngineComputed) {
  REQUIRE_SHARED(path, selected_file);
  if (golden::is_network_folder(path)) {
    check_run(path / "model.h5", path / "input.h5", golden::read_network(path));
    return;
  }
  ASSERT_TRUE(golden::is_layer_file(path)) << path;
  const auto cases = golden::read_layer_cases(path);
  ASSERT_FALSE(cases.empty());
  for (const golden::Case& one : cases) {
    SCOPED_TRACE("case " + one.name);
    const ScratchFolder folder;
    sparseconv::save_model(folder / "model.h5", one.model);
    sparseconv::VoxelFile input;
    input.tensor = one.input;
    sparseconv::write_voxel_file(folder / "input.h5", input);
    check_run(folder / "model.h5", folder / "input.h5", one);
  }
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; i += 2) {
    (std::string(argv[i]) == "--dtype" ? selected_dtype : selected_file) = argv[i + 1];
  }
  if (selected_file.empty()) {
    std::cerr << "usage: " << argv[0] << " --file GOLDEN [--dtype fp32]\n";
    return 2;
  }
  return RUN_ALL_TESTS();
}
