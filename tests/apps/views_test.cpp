// --views of run and eval, end to end, against files that the test turns itself.
#include <gtest/gtest.h>

#include <cmath>

#include "io/hdf5_container.hpp"
#include "sparseconv/voxel_file.hpp"
#include "tests/apps/command_line.hpp"
#include "tests/apps/tiny_model.hpp"

using namespace command_line;

namespace {

using Points = std::vector<std::array<float, 4>>;

// Several points a voxel, so that how cells cut them decides their means. The last has no place.
Points cluster(unsigned seed) {
  Points points;
  const auto next = [&] {
    seed = seed * 1664525u + 1013904223u;
    return static_cast<float>(seed >> 8) / static_cast<float>(1 << 24);
  };
  for (int i = 0; i < 80; ++i) points.push_back({1 + next() / 2, next() / 2, 0.05f, next()});
  points.push_back({NAN, 0, 0, 1});
  return points;
}

Points turned(Points points, double degrees) {
  const double angle = degrees * std::acos(-1.0) / 180;
  for (auto& [x, y, z, intensity] : points) {
    const double old_x = static_cast<double>(x), old_y = static_cast<double>(y);
    x = static_cast<float>(old_x * std::cos(angle) - old_y * std::sin(angle));
    y = static_cast<float>(old_x * std::sin(angle) + old_y * std::cos(angle));
  }
  return points;
}

class ViewsOption : public testing::Test {
 protected:
  ViewsOption() {
    write_threshold_model(folder / "m.h5");
    write_scan(folder / "in/a.bin", cluster(1));
    write_scan(folder / "in/b.bin", cluster(2));
  }
  ProgramRun run(std::vector<std::string> more, const std::string& input = "in",
                 const std::string& output = "out") {
    std::vector<std::string> words{
        "run", "--model", folder.text("m.h5"), folder.text(input), "-o", folder.text(output)};
    words.insert(words.end(), more.begin(), more.end());
    return run_cli(words);
  }
  ProgramRun eval(const std::string& views, const std::string& where) {
    return run_cli(
        {"eval", "--model", folder.text("m.h5"), folder.text(where), "--json", "--views", views});
  }
  std::vector<float> scores(const std::string& file) {
    return io::Hdf5Reader(folder / file).read<float>("/scores");
  }
  std::string results(const std::string& output) {
    std::string all;
    for (const std::string& name : names_in(folder / output))
      all += name + read_bytes(folder / output / name);
    return all;
  }
  ScratchFolder folder;
};

TEST_F(ViewsOption, RunGivesTheMeansOfFilesThatWereTurned) {
  ASSERT_EQ(run({"--views", "4", "--save", "scores"}).exit_code, 0);
  ASSERT_EQ(run({"--views", "4", "--format", "label"}).exit_code, 0);
  std::vector<double> means(2 * 81);
  for (int k = 0; k < 4; ++k) {
    write_scan(folder / "by_hand/t.bin", turned(cluster(1), 45.0 * k));
    ASSERT_EQ(run({"--save", "scores"}, "by_hand", "turned").exit_code, 0);
    const auto once = scores("turned/t.h5");
    for (std::size_t i = 0; i < means.size(); ++i) means[i] += static_cast<double>(once.at(i)) / 4;
  }
  const auto found = scores("out/a.h5");
  ASSERT_EQ(found.size(), means.size());
  const std::string bytes = read_bytes(folder / "out/a.label");
  ASSERT_EQ(bytes.size(), 4u * 81);
  for (std::size_t p = 0; p < 81; ++p) {
    EXPECT_NEAR(found[2 * p], means[2 * p], 1e-5) << p;
    EXPECT_NEAR(found[2 * p + 1], means[2 * p + 1], 1e-5) << p;
    const int expected = p == 80 ? 0 : means[2 * p + 1] > means[2 * p] ? 9 : 3;
    if (p == 80 || std::abs(means[2 * p] - means[2 * p + 1]) > 1e-5) {
      EXPECT_EQ(bytes[4 * p], expected) << p;
    }
  }
  ASSERT_EQ(run({"--save", "scores"}).exit_code, 0);
  EXPECT_NE(scores("out/a.h5"), found) << "turning changes which points share a voxel";
}

TEST_F(ViewsOption, OneViewIsAsWithoutAndMoreDoNotDependOnJobsOrBatches) {
  ASSERT_EQ(run({"--save", "scores"}, "in", "plain").exit_code, 0);
  ASSERT_EQ(run({"--save", "scores", "--views", "1"}, "in", "one").exit_code, 0);
  EXPECT_EQ(results("one"), results("plain"));
  ASSERT_EQ(run({"--save", "scores", "--views", "3"}, "in", "three").exit_code, 0);
  ASSERT_EQ(run({"--save", "scores", "--views", "3", "--batch", "2", "--jobs", "4"}, "in", "other")
                .exit_code,
            0);
  EXPECT_EQ(results("other"), results("three"));
}

TEST_F(ViewsOption, ResumeDoesFilesOfOtherViewsAgain) {
  ASSERT_EQ(run({"--views", "2"}).exit_code, 0);
  EXPECT_EQ(document(run({"--views", "2", "--resume", "--json"}))["skipped"].size(), 2u);
  EXPECT_EQ(document(run({"--views", "3", "--resume", "--json"}))["files"].size(), 2u);
  EXPECT_EQ(document(run({"--resume", "--json"}))["files"].size(), 2u);
  EXPECT_EQ(document(run({"--views", "1", "--resume", "--json"}))["skipped"].size(), 2u);
}

TEST_F(ViewsOption, SweepsHelpInEveryViewAndTheFilesOwnPointsGetLabels) {
  write_bytes(folder / "poses.txt", "1 0 0 0 0 1 0 0 0 0 1 0\n1 0 0 0 0 1 0 0 0 0 1 0\n");
  const std::vector<std::string> sweeps{"--sweeps", "2", "--poses", folder.text("poses.txt")};
  auto words = sweeps;
  words.insert(words.end(), {"--views", "4", "--save", "scores", "--json"});
  const ProgramRun joined = run(words, "in", "joined");
  ASSERT_EQ(joined.exit_code, 0) << joined.err;
  EXPECT_EQ(document(joined)["files"][1]["points"], 81);
  EXPECT_EQ(document(joined)["files"][1]["dropped"], 1);
  // With the same pose, b after a is b and a in one file.
  Points both = cluster(2);
  const Points before = cluster(1);
  both.insert(both.end(), before.begin(), before.end());
  write_scan(folder / "both/b.bin", both);
  ASSERT_EQ(run({"--views", "4", "--save", "scores"}, "both", "by_hand").exit_code, 0);
  auto expected = scores("by_hand/b.h5");
  expected.resize(2 * 81);
  const auto found = scores("joined/b.h5");
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << i;
}

TEST_F(ViewsOption, EvalScoresTheLabelsThatRunGives) {
  ASSERT_EQ(run({"--views", "4", "--format", "label"}, "in", "d/labels").exit_code, 0);
  for (const char* name : {"a.bin", "b.bin"})
    write_bytes(folder / "d/velodyne" / name, read_bytes(folder / "in" / name));
  const ProgramRun four = eval("4", "d");
  ASSERT_EQ(four.exit_code, 0) << four.err;
  EXPECT_DOUBLE_EQ(document(four)["accuracy"], 1);
  EXPECT_EQ(document(four)["points"], 160);
  const ProgramRun one = eval("1", "d");
  ASSERT_EQ(one.exit_code, 0) << one.err;
  EXPECT_LT(document(one)["accuracy"], 1);
}

TEST_F(ViewsOption, WrongNumbersAndPairsAreWrongUsage) {
  for (const std::string views : {"0", "65", "-1", "2.5", "x", ""}) {
    for (const ProgramRun& wrong : {run({"--views", views}), eval(views, "in")}) {
      EXPECT_EQ(wrong.exit_code, 2) << views;
      EXPECT_TRUE(contains(wrong.err, "--views")) << wrong.err;
    }
  }
  EXPECT_EQ(run({"--views", "2", "--save", "features"}).exit_code, 2);
  EXPECT_EQ(run({"--views", "1", "--save", "features"}).exit_code, 0);
  write_threshold_model(folder / "m.h5", "");
  const ProgramRun bare = run({"--views", "2"});
  EXPECT_EQ(bare.exit_code, 2);
  EXPECT_TRUE(contains(bare.err, "--views")) << bare.err;
  EXPECT_EQ(eval("2", "in").exit_code, 1);
}

TEST_F(ViewsOption, AFeatureThatTurnsIsNamed) {
  sparseconv::Model model = sparseconv::load_model(folder / "m.h5");
  model.input.features = {"nx"};
  sparseconv::save_model(folder / "m.h5", model);
  for (const ProgramRun& refused : {run({"--views", "2"}), eval("2", "in")}) {
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_TRUE(contains(refused.err, "'nx'")) << refused.err;
  }
}

TEST_F(ViewsOption, AVoxelFileIsAnErrorOfItsOwn) {
  write_bytes(folder / "v/c.ply",
              "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\n"
              "property float z\nproperty float intensity\nproperty int label\nend_header\n"
              "0 0 0 0.1 3\n");
  ASSERT_EQ(run_cli({"voxelize", folder.text("v/c.ply"), "--labels", "--features", "intensity",
                     "-o", folder.text("v/d.h5")})
                .exit_code,
            0);
  for (const ProgramRun& mixed : {run({"--views", "2", "--json"}, "v"), eval("2", "v")}) {
    EXPECT_EQ(mixed.exit_code, 1);
    EXPECT_TRUE(contains(mixed.err, "d.h5: --views turns clouds")) << mixed.err;
    EXPECT_EQ(document(mixed)["files"].size(), 1u);
  }
}

}  // namespace
