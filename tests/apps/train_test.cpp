// train as users call it: small networks on scans that take milliseconds.
#include <gtest/gtest.h>

#include <csignal>

#include "sparseconv/model.hpp"
#include "tests/apps/command_line.hpp"

using namespace command_line;

namespace {

// A level floor (label 1) and walls (label 2): a voxel's class follows from its height.
void write_room(const std::filesystem::path& folder, int number, std::uint32_t floor_label = 1) {
  std::vector<std::array<float, 4>> points;
  std::string labels;
  const auto add = [&](float x, float y, float z, std::uint32_t label) {
    points.push_back({x, y, z, 0.5f});
    labels.append(reinterpret_cast<const char*>(&label), 4);
  };
  const float side = 1.5f + 0.1f * static_cast<float>(number % 5);
  for (float x = 0; x < side; x += 0.1f) {
    for (float y = 0; y < side; y += 0.1f) add(x, y, -1.55f, floor_label);
    for (float z = -1.3f; z < 0.5f; z += 0.1f) add(x, side, z, 2);
  }
  const std::string stem = "room" + std::to_string(number);
  write_scan(folder / "velodyne" / (stem + ".bin"), points);
  write_bytes(folder / "labels" / (stem + ".label"), labels);
}

class Train : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 10; ++i) write_room(folder / "d", i);
    write_bytes(folder / "map.json", R"({"classes": [{"id": 1, "name": "floor"},
        {"id": 2, "name": "wall"}], "ignore": [0]})");
  }
  std::vector<std::string> words(const std::string& out, const std::string& epochs,
                                 const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"train",
                                    "--arch",
                                    "minkunet14",
                                    "--width",
                                    "0.125",
                                    "--data",
                                    folder.text("d"),
                                    "--classes",
                                    folder.text("map.json"),
                                    "--epochs",
                                    epochs,
                                    "--batch",
                                    "3",
                                    "--seed",
                                    "4",
                                    "-o",
                                    folder.text(out)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<Json> log_of(const std::string& name) const {
    std::ifstream file(folder / name);
    std::vector<Json> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
    return lines;
  }
  ScratchFolder folder;
};

TEST_F(Train, LearnsARoomAndWritesModelLogAndCurves) {
  const ProgramRun run = run_cli(words("m.h5", "8", {"--json"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json scores = document(run);
  EXPECT_GT(scores["miou"], 0.95) << run.out;
  EXPECT_EQ(scores["classes"][1]["name"], "wall");
  const auto log = log_of("m.log.jsonl");
  ASSERT_EQ(log.size(), 8u);
  for (const char* key : {"epoch", "loss", "miou", "accuracy", "seconds"})
    EXPECT_TRUE(log[7].contains(key)) << key;
  EXPECT_LT(log[7]["loss"], log[0]["loss"]);
  EXPECT_TRUE(contains(run.err, "voxels/s busy ")) << run.err;
  EXPECT_TRUE(read_bytes(folder / "m.curves.png").starts_with("\x89PNG"));
  // The trained model scores as well through the command that users score with.
  const ProgramRun eval =
      run_cli({"eval", "--model", folder.text("m.h5"), folder.text("d"), "--json"});
  ASSERT_EQ(eval.exit_code, 0) << eval.err;
  EXPECT_GT(document(eval)["accuracy"], 0.97);
  EXPECT_EQ(document(eval)["classes"][1]["id"], 2);
}

TEST_F(Train, ResumingGivesTheWeightsOfARunInOnePiece) {
  ASSERT_EQ(run_cli(words("whole.h5", "3")).exit_code, 0);
  // Stopped by a signal in the middle of it, as Ctrl-C would.
  const std::vector<std::string> same = words("part.h5", "3");
  ASSERT_EQ(run_cli(same).exit_code, 0);
  const std::string last = read_bytes(folder / "part.h5");
  const auto is_equal = [&](const std::string& a, const std::string& b) {
    const auto x = sparseconv::load_model(folder / a), y = sparseconv::load_model(folder / b);
    for (std::size_t n = 0; n < x.nodes.size(); ++n) {
      for (const auto& [name, tensor] : x.nodes[n].weights) {
        const auto& other = y.nodes[n].weights.at(name);
        if (std::memcmp(tensor.data(), other.data(), static_cast<std::size_t>(tensor.nbytes())) !=
            0)
          return false;
      }
    }
    return true;
  };
  EXPECT_TRUE(is_equal("whole.h5", "part.h5"));  // with other threads
  ASSERT_EQ(run_cli(words("cut.h5", "3", {"--stop-after", "4", "--threads", "1"})).exit_code, 1);
  const ProgramRun resumed = run_cli(words("cut.h5", "3", {"--resume", "--jobs", "1"}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_TRUE(is_equal("whole.h5", "cut.h5"));
  EXPECT_EQ(log_of("cut.log.jsonl").size(), 3u);
}

TEST_F(Train, ACheckpointOfAnotherCommandIsRefused) {
  ASSERT_EQ(run_cli(words("m.h5", "1")).exit_code, 0);
  const ProgramRun other = run_cli(words("m.h5", "2", {"--resume"}));
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_TRUE(contains(other.err, "--epochs 1")) << other.err;
  const ProgramRun none = run_cli(words("n.h5", "2", {"--resume"}));
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_TRUE(contains(none.err, "n.checkpoint.h5: no checkpoint")) << none.err;
  std::vector<std::string> wide = words("m.h5", "1", {"--resume"});
  wide[4] = "0.25";
  const ProgramRun shape = run_cli(wide);
  EXPECT_EQ(shape.exit_code, 1);
  EXPECT_TRUE(contains(shape.err, "has shape")) << shape.err;
}

TEST_F(Train, ALabelOutsideTheMapStopsAndNamesTheFile) {
  write_room(folder / "d", 3, 77);
  const ProgramRun run = run_cli(words("m.h5", "1"));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_TRUE(contains(run.err, "room3.bin: label 77")) << run.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "m.h5"));
}

TEST_F(Train, ABadFileLateInARunKeepsWhatWasLearntBefore) {
  write_room(folder / "d", 3, 77);
  std::vector<std::string> one_a_step = words("m.h5", "1", {"--class-weights", "none"});
  one_a_step[static_cast<std::size_t>(std::find(one_a_step.begin(), one_a_step.end(), "--batch") -
                                      one_a_step.begin() + 1)] = "1";
  const ProgramRun run = run_cli(one_a_step);
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_TRUE(contains(run.err, "room3.bin: label 77")) << run.err;
  ASSERT_TRUE(std::filesystem::exists(folder / "m.checkpoint.h5"));
  write_room(folder / "d", 3);
  one_a_step.push_back("--resume");
  const ProgramRun resumed = run_cli(one_a_step);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
}

TEST_F(Train, UnequalLengthsStopAndNameTheFile) {
  write_bytes(folder / "d/labels/room5.label", std::string(8, '\1'));
  const ProgramRun run = run_cli(words("m.h5", "1"));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_TRUE(contains(run.err, "room5")) << run.err;
  EXPECT_TRUE(contains(run.err, "2 labels")) << run.err;
}

TEST_F(Train, EveryPointIgnoredIsAnError) {
  write_bytes(folder / "map.json", R"({"classes": [{"id": 5, "name": "none"}], "ignore": [1, 2]})");
  const ProgramRun run = run_cli(words("m.h5", "1"));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_TRUE(contains(run.err, "every point is ignored")) << run.err;
}

TEST_F(Train, ALossThatIsNotFiniteStopsAndKeepsTheCheckpoint) {
  ASSERT_EQ(run_cli(words("m.h5", "1")).exit_code, 0);
  const std::string before = read_bytes(folder / "m.checkpoint.h5");
  const ProgramRun run = run_cli(
      words("m.h5", "4",
            {"--optimiser", "sgd", "--rate", "100", "--clip", "0", "--schedule", "constant"}));
  ASSERT_EQ(run.exit_code, 1) << run.err;
  EXPECT_TRUE(contains(run.err, "step ")) << run.err;
  EXPECT_TRUE(contains(run.err, "not finite") || contains(run.err, "beyond float") ||
              contains(run.err, "the loss is"))
      << run.err;
  EXPECT_FALSE(read_bytes(folder / "m.checkpoint.h5").empty());
}

TEST_F(Train, AFullDiskIsNamedAndLosesNothing) {
  ASSERT_EQ(run_cli(words("m.h5", "1")).exit_code, 0);
  const std::string model = read_bytes(folder / "m.h5"),
                    checkpoint = read_bytes(folder / "m.checkpoint.h5"),
                    log = read_bytes(folder / "m.log.jsonl");
  const ProgramRun run = run_cli(words("m.h5", "2"), {.max_file_bytes = 100000});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_TRUE(contains(run.err, "m.h5: ")) << run.err;
  EXPECT_TRUE(contains(run.err, "File too large")) << run.err;
  EXPECT_EQ(read_bytes(folder / "m.h5"), model);
  EXPECT_EQ(read_bytes(folder / "m.checkpoint.h5"), checkpoint);
  EXPECT_EQ(read_bytes(folder / "m.log.jsonl"), log);
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"d", "m.checkpoint.h5", "m.curves.png", "m.h5", "m.log.jsonl",
                                      "map.json"}));
}

TEST_F(Train, ControlCWritesACheckpointAndSaysHowToGoOn) {
  bool is_sent = false;
  const ProgramRun run = run_cli(words("m.h5", "5000"), {.while_running = [&](pid_t process) {
                                   if (is_sent || !std::filesystem::exists(folder / "m.log.jsonl"))
                                     return;
                                   kill(process, SIGINT);
                                   is_sent = true;
                                 }});
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_TRUE(contains(run.err, "--resume goes on from")) << run.err;
  EXPECT_TRUE(std::filesystem::exists(folder / "m.checkpoint.h5"));
}

TEST_F(Train, VoxelFilesWithLabelsAreLearntFrom) {
  for (int i = 0; i < 4; ++i) {
    const std::string stem = "room" + std::to_string(i);
    ASSERT_EQ(run_cli({"voxelize", folder.text("d/labels/" + stem + ".label"), "--labels",
                       "--features", "z,dx,dy,dz,one", "-o", folder.text("v/" + stem + ".h5")})
                  .exit_code,
              0);
  }
  std::vector<std::string> call = words("m.h5", "1", {"--validation-share", "0", "--json"});
  *std::find(call.begin(), call.end(), folder.text("d")) = folder.text("v");
  const ProgramRun run = run_cli(call);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_GT(document(run)["points"], 4 * 200);
}

TEST_F(Train, OwnModelsAreTunedAndMayGetMoreFeatures) {
  ASSERT_EQ(run_cli(words("m.h5", "2", {"--weights", "fp16"})).exit_code, 0);
  const auto tune = [&](std::vector<std::string> more) {
    std::vector<std::string> all = {"train",
                                    "--model",
                                    folder.text("m.h5"),
                                    "--data",
                                    folder.text("d"),
                                    "--classes",
                                    folder.text("map.json"),
                                    "--epochs",
                                    "1",
                                    "--rate",
                                    "1e-9",
                                    "--schedule",
                                    "constant",
                                    "-o",
                                    folder.text("t.h5")};
    all.insert(all.end(), more.begin(), more.end());
    return run_cli(all);
  };
  const ProgramRun wider = tune({"--features", "z,dx,dy,dz,one,intensity"});
  ASSERT_EQ(wider.exit_code, 0) << wider.err;
  EXPECT_EQ(sparseconv::load_model(folder / "t.h5").input.features.size(), 6u);
  const ProgramRun other = tune({"--features", "z,z"});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_TRUE(contains(other.err, "z is named twice")) << other.err;
  write_bytes(folder / "map.json",
              R"({"classes": [{"id": 1}, {"id": 3, "from": [2]}], "ignore": [0]})");
  const ProgramRun classes = tune({});
  EXPECT_EQ(classes.exit_code, 1);
  EXPECT_TRUE(contains(classes.err, "are not those of the class map")) << classes.err;
}

TEST_F(Train, WrongUsageNamesTheOption) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"train", "--data", "simulator", "--epochs", "1", "-o", "x.h5"}, "--arch"},
      {words("m.h5", "0"), "--epochs"},
      {words("m.h5", "1", {"--augment", "spin=3"}), "spin"},
      {words("m.h5", "1", {"--augment", "drop=2"}), "drop=2"},
      {words("m.h5", "1", {"--optimiser", "adam"}), "adam"},
      {words("m.h5", "1", {"--width", "-1"}), "--width"},
      {words("m.h5", "1", {"--model", "m.h5"}), "--model"}};
  for (const auto& [call, part] : cases) {
    const ProgramRun run = run_cli(call);
    EXPECT_EQ(run.exit_code, 2) << part << run.err;
    EXPECT_TRUE(contains(run.err, part)) << run.err;
  }
}

TEST_F(Train, WhereNothingCanBeWrittenIsSaidBeforeTheFirstStep) {
  for (const auto& [output, part] :
       {std::pair{"no/m.h5", "No such file or directory"}, std::pair{"d", "is a folder"}}) {
    const ProgramRun run = run_cli(words(output, "1"));
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_TRUE(contains(run.err, folder.text(output) + ": ")) << run.err;
    EXPECT_TRUE(contains(run.err, part)) << run.err;
    EXPECT_FALSE(contains(run.err, "step 1/")) << run.err;
  }
}

TEST_F(Train, SimulatedStreetsNeedNoFiles) {
  const ProgramRun run =
      run_cli({"train", "--arch", "minkunet14", "--width", "0.125", "--voxel-size", "0.4", "--data",
               "simulator", "--scans", "3", "--validation-scans", "1", "--epochs", "1", "-o",
               folder.text("s.h5"), "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(document(run)["classes"].size(), 10u);
  EXPECT_EQ(sparseconv::load_model(folder / "s.h5").class_ids.front(), 1);
}

}  // namespace
