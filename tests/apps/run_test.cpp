// One input through `run`: what each kind of result holds.
#include <gtest/gtest.h>

#include <cmath>

#include "io/hdf5_container.hpp"
#include "io/io.h"
#include "sparseconv/voxel_file.hpp"
#include "tests/apps/command_line.hpp"
#include "tests/apps/tiny_model.hpp"

using namespace command_line;

namespace {

class Run : public testing::Test {
 protected:
  Run() {
    write_threshold_model(folder / "m.h5");
    // The third point has no place: it becomes no voxel.
    write_scan(folder / "a.bin",
               {{1, 0, 0, 0.25f}, {2, 0, 0, 0.75f}, {NAN, 0, 0, 1}, {3, 0, 0, 0.5f}});
  }
  ProgramRun run(std::vector<std::string> more, const std::string& input = "a.bin") {
    std::vector<std::string> words{
        "run", "--model", folder.text("m.h5"), folder.text(input), "-o", folder.text("out")};
    words.insert(words.end(), more.begin(), more.end());
    return run_cli(words);
  }
  ScratchFolder folder;
};

TEST_F(Run, LabelsAsHdf5GiveMinusOneToDroppedPointsAndTiesToTheLowest) {
  const ProgramRun run_ = run({"--save", "labels", "--format", "h5", "--json"});
  ASSERT_EQ(run_.exit_code, 0) << run_.err;
  const io::Hdf5Reader file(folder / "out" / "a.h5");
  EXPECT_EQ(file.dataset("/labels").type, base::DType::i32);
  EXPECT_EQ(file.read<std::int32_t>("/labels"), (std::vector<std::int32_t>{3, 9, -1, 3}));
  const Json entry = document(run_)["files"][0];
  EXPECT_EQ(entry["path"], folder.text("a.bin"));
  EXPECT_EQ(entry["output"], folder.text("out/a.h5"));
  EXPECT_EQ(entry["points"], 4);
  EXPECT_EQ(entry["voxels"], 3);
  EXPECT_EQ(entry["dropped"], 1);
  for (const char* part : {"voxelize_ms", "maps_ms", "network_ms", "total_ms"})
    EXPECT_TRUE(entry["timing"].contains(part));
  for (const char* part : {"peak", "weights", "maps", "activations", "largest_two_tensors"}) {
    EXPECT_TRUE(document(run_)["memory"].contains(part)) << part;
  }
  EXPECT_GT(document(run_)["memory"]["peak"].get<double>(), 1e6);
}

TEST_F(Run, LabelsAreTheDefaultOfAModelWithClasses) {
  ASSERT_EQ(run({}).exit_code, 0);
  EXPECT_TRUE(io::Hdf5Reader(folder / "out" / "a.h5").has("/labels"));
}

TEST_F(Run, LabelsAsLabelFileAreUnsignedWithZeroForDroppedPoints) {
  ASSERT_EQ(run({"--format", "label"}).exit_code, 0);
  const std::uint32_t expected[4]{3, 9, 0, 3};
  EXPECT_EQ(read_bytes(folder / "out" / "a.label"),
            std::string(reinterpret_cast<const char*>(expected), sizeof expected));
}

TEST_F(Run, LabelsAsNpyAreInt32WithMinusOne) {
  ASSERT_EQ(run({"--format", "npy"}).exit_code, 0);
  const std::string bytes = read_bytes(folder / "out" / "a.npy");
  EXPECT_TRUE(contains(bytes, "'descr': '<i4', 'fortran_order': False, 'shape': (4,), }")) << bytes;
  const std::int32_t expected[4]{3, 9, -1, 3};
  ASSERT_GE(bytes.size(), sizeof expected);
  EXPECT_EQ((bytes.size() - sizeof expected) % 64, 0u);
  EXPECT_EQ(bytes.substr(bytes.size() - sizeof expected),
            std::string(reinterpret_cast<const char*>(expected), sizeof expected));
}

TEST_F(Run, LabelsAsPlyAndPcdAreTheCloudWithALabelField) {
  for (const std::string format : {"ply", "pcd"}) {
    ASSERT_EQ(run({"--format", format}).exit_code, 0);
    const io::Cloud cloud = io::read(folder / "out" / ("a." + format));
    ASSERT_EQ(cloud.size(), 4);
    EXPECT_EQ(cloud.get("x").at(1), 2);
    EXPECT_EQ(cloud.get("intensity").at(1), 0.75);
    const double expected[4]{3, 9, 0, 3};
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(cloud.get("label").at(i), expected[i]) << format << " " << i;
  }
}

TEST_F(Run, ScoresAreTheSoftmax) {
  const double far = 1 / (1 + std::exp(-0.5));  // scores +-0.25
  const double expected[8]{far, 1 - far, 1 - far, far, 0, 0, 0.5, 0.5};
  ASSERT_EQ(run({"--save", "scores"}).exit_code, 0);
  const io::Hdf5Reader file(folder / "out" / "a.h5");
  EXPECT_EQ(file.dataset("/scores").shape, (std::vector<std::int64_t>{4, 2}));
  const auto scores = file.read<float>("/scores");
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(scores.at(i), expected[i], 1e-6) << i;
  ASSERT_EQ(run({"--save", "scores", "--format", "npy"}).exit_code, 0);
  EXPECT_TRUE(contains(read_bytes(folder / "out" / "a.npy"), "'shape': (4, 2)"));
  ASSERT_EQ(run({"--save", "scores", "--format", "ply"}).exit_code, 0);
  EXPECT_NEAR(io::read(folder / "out" / "a.ply").get("score_1").at(1), far, 1e-6);
}

TEST_F(Run, FeaturesAreTheOutputsRowByRow) {
  ASSERT_EQ(run({"--save", "features"}).exit_code, 0);
  const io::Hdf5Reader file(folder / "out" / "a.h5");
  EXPECT_EQ(file.dataset("/outputs/head/coordinates").shape, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(file.dataset("/outputs/head/coordinates").type, base::DType::i32);
  EXPECT_EQ(file.read<std::int32_t>("/outputs/head/coordinates")[5], 20);  // x of the second row
  EXPECT_EQ(file.dataset("/outputs/head/features").type, base::DType::f32);
  EXPECT_EQ(file.read<float>("/outputs/head/features"),
            (std::vector<float>{0.25f, -0.25f, -0.25f, 0.25f, 0, 0}));
}

TEST_F(Run, AVoxelFileGivesOneLabelAVoxelInItsOrder) {
  sparseconv::VoxelFile voxels;
  voxels.tensor.coordinates =
      sparseconv::Coordinates::create({{0, 5, 0, 0}, {0, -3, 0, 0}, {0, 1, 1, 1}}, {});
  voxels.tensor.features = base::Tensor::empty({3, 1}, base::DType::f32);
  const float intensity[3]{0.9f, 0.1f, 0.8f};
  std::copy(intensity, intensity + 3, voxels.tensor.features.data<float>());
  voxels.voxel_size = {0.1, 0.1, 0.1};
  sparseconv::write_voxel_file(folder / "v.h5", voxels);
  const ProgramRun run_ = run({}, "v.h5");
  ASSERT_EQ(run_.exit_code, 0) << run_.err;
  EXPECT_EQ(io::Hdf5Reader(folder / "out" / "v.h5").read<std::int32_t>("/labels"),
            (std::vector<std::int32_t>{9, 3, 9}));
  ASSERT_EQ(run({"--format", "ply"}, "v.h5").exit_code, 0);
  EXPECT_NEAR(io::read(folder / "out" / "v.ply").get("x").at(1), -0.25, 1e-6);  // centre of cell -3
}

TEST_F(Run, FarFromTheOriginMovesTheOriginByWholeCellsSaysSoAndStoresIt) {
  write_scan(folder / "far.bin", {{1e6f, 2e6f, 0, 0.9f}, {1e6f + 1, 2e6f, 0, 0.1f}});
  const ProgramRun run_ = run({"--save", "features", "--json"}, "far.bin");
  ASSERT_EQ(run_.exit_code, 0) << run_.err;
  EXPECT_TRUE(contains(run_.err, "origin moved")) << run_.err;
  const Json origin = document(run_)["files"][0]["origin"];
  const io::Hdf5Reader file(folder / "out" / "far.h5");
  EXPECT_EQ(file.attribute_numbers("/", "origin"), origin.get<std::vector<double>>());
  EXPECT_NEAR(origin[0].get<double>(), 1e6, 0.1);
  EXPECT_NEAR(origin[1].get<double>(), 2e6, 0.1);
  EXPECT_EQ(file.read<std::int32_t>("/outputs/head/coordinates"),
            (std::vector<std::int32_t>{0, 0, 0, 0, 0, 10, 0, 0}));
  ASSERT_EQ(run({"--save", "features", "--json"}).exit_code, 0);
  EXPECT_EQ(io::Hdf5Reader(folder / "out" / "a.h5").attribute_numbers("/", "voxel_size"),
            (std::vector<double>{0.1, 0.1, 0.1}));
}

TEST_F(Run, ZeroPointsGiveZeroLabels) {
  write_bytes(folder / "none.bin", "");
  const ProgramRun run_ = run({"--format", "label"}, "none.bin");
  EXPECT_EQ(run_.exit_code, 0) << run_.err;
  EXPECT_TRUE(contains(run_.err, "sparseconv: warning: " + folder.text("none.bin") + ": 0 points"))
      << run_.err;
  ASSERT_TRUE(std::filesystem::exists(folder / "out" / "none.label"));
  EXPECT_EQ(read_bytes(folder / "out" / "none.label"), "");
  // A text of zero bytes tells of no intensity, which the model reads.
  write_bytes(folder / "none.xyz", "");
  for (const char* name : {"none.bin", "none.xyz"}) {
    for (const char* save : {"labels", "scores", "features"}) {
      const ProgramRun saved = run({"--save", save}, name);
      EXPECT_EQ(saved.exit_code, 0) << name << " " << save << ": " << saved.err;
    }
  }
}

TEST_F(Run, ResultsDoNotDependOnThreadsJobsOrBatches) {
  for (int i = 0; i < 5; ++i) {
    auto points = spiral(50 + i);
    for (std::size_t k = 0; k < points.size(); ++k) points[k][3] = 0.013f * static_cast<float>(k);
    write_scan(folder / "in" / ("s" + std::to_string(i) + ".bin"), points);
  }
  const auto results = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"--format", "npy", "--save", "scores"};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramRun run_ = run(words, "in");
    EXPECT_EQ(run_.exit_code, 0) << run_.err;
    std::string all;
    for (const std::string& name : names_in(folder / "out"))
      all += name + read_bytes(folder / "out" / name);
    std::filesystem::remove_all(folder / "out");
    return all;
  };
  const std::string plain = results({});
  EXPECT_EQ(results({"--threads", "1"}), plain);
  EXPECT_EQ(results({"--jobs", "4", "--threads", "2"}), plain);
  EXPECT_EQ(results({"--batch", "3"}), plain);
  const std::string half = results({"--dtype", "fp16"});
  EXPECT_NE(half, plain);
  EXPECT_EQ(results({"--dtype", "fp16", "--threads", "1"}),
            half);  // another process, the same bits
}

TEST_F(Run, AModelThatCannotBeReadIsOneErrorAndExitOne) {
  write_bytes(folder / "m.h5", "no model");
  const ProgramRun run_ = run({"--json"});
  EXPECT_EQ(run_.exit_code, 1);
  EXPECT_TRUE(contains(run_.err, "sparseconv: " + folder.text("m.h5") + ": ")) << run_.err;
  EXPECT_EQ(document(run_)["errors"][0]["path"], folder.text("m.h5"));
  EXPECT_EQ(document(run_)["files"], Json::array());
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

TEST_F(Run, AModelWithoutClassesGivesFeaturesAndRefusesLabels) {
  write_threshold_model(folder / "m.h5", "");
  ASSERT_EQ(run({}).exit_code, 0);
  EXPECT_TRUE(io::Hdf5Reader(folder / "out" / "a.h5").has("/outputs/head/features"));
  EXPECT_EQ(run({"--save", "labels"}).exit_code, 2);
}

TEST_F(Run, AFieldThatTheCloudLacksIsNamed) {
  write_bytes(folder / "a.xyz", "1 2 3\n4 5 6\n");
  const ProgramRun run_ = run({}, "a.xyz");
  EXPECT_EQ(run_.exit_code, 1);
  EXPECT_TRUE(contains(run_.err, "sparseconv: " + folder.text("a.xyz") + ": ")) << run_.err;
  EXPECT_TRUE(contains(run_.err, "intensity")) << run_.err;
  EXPECT_TRUE(names_in(folder / "out").empty());
}

TEST_F(Run, ABuildOrMachineWithoutTheDeviceSaysSo) {
  const ProgramRun run_ = run({"--device", "cuda:63"});
  EXPECT_EQ(run_.exit_code, 1);
  EXPECT_TRUE(contains(run_.err, "CUDA") || contains(run_.err, "cuda")) << run_.err;
}

// Labels in every format, and scores, give one picture; features and voxel files have pictures of
// their own.
TEST_F(Run, EveryResultCanBeDrawn) {
  auto points = spiral(60);
  for (std::size_t i = 0; i < points.size(); i += 2) points[i][3] = 0.9f;
  write_scan(folder / "scan.bin", points);
  ASSERT_EQ(run_cli({"voxelize", folder.text("scan.bin"), "-o", folder.text("voxels.h5"),
                     "--features", "intensity"})
                .exit_code,
            0);
  const auto draw = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "render");
    words.insert(words.end(), {"-o", folder.text("p.png"), "--title", "t", "--size", "400x300"});
    const ProgramRun drawn = run_cli(words);
    EXPECT_EQ(drawn.exit_code, 0) << words[1] << drawn.err;
    return read_bytes(folder / "p.png");
  };
  const auto make = [&](const std::string& input, const std::string& save,
                        const std::string& format) {
    const std::string out = folder.text(input + save + format);
    const ProgramRun made = run_cli({"run", "--model", folder.text("m.h5"), folder.text(input),
                                     "-o", out, "--save", save, "--format", format});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    return out + "/" + std::filesystem::path(input).stem().string() + "." + format;
  };
  const std::string plain = draw({folder.text("scan.bin")});
  const std::string labelled = draw({make("scan.bin", "labels", "ply")});
  EXPECT_NE(labelled, plain);
  for (const auto& [save, format] :
       std::vector<std::pair<std::string, std::string>>{{"labels", "h5"},
                                                        {"labels", "npy"},
                                                        {"labels", "label"},
                                                        {"labels", "pcd"},
                                                        {"scores", "h5"}}) {
    const std::string result = make("scan.bin", save, format);
    const bool has_points = format == "pcd";
    EXPECT_EQ(has_points ? draw({result}) : draw({folder.text("scan.bin"), "--labels", result}),
              labelled)
        << save << format;
  }
  draw({make("scan.bin", "scores", "ply")});
  draw({folder.text("scan.bin"), "--labels", make("scan.bin", "scores", "npy")});
  EXPECT_NE(draw({make("scan.bin", "features", "h5"), "--color", "intensity"}), plain);
  const std::string cells = draw({folder.text("voxels.h5")});
  EXPECT_NE(draw({folder.text("voxels.h5"), "--labels", make("voxels.h5", "labels", "h5")}), cells);
  const ProgramRun bare =
      run_cli({"render", folder.text("scan.binlabelsh5/scan.h5"), "-o", folder.text("q.png")});
  EXPECT_EQ(bare.exit_code, 1);
  EXPECT_TRUE(contains(bare.err, "--labels")) << bare.err;
}

}  // namespace
