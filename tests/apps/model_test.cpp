#include <gtest/gtest.h>

#include "sparseconv/model.hpp"
#include "tests/apps/command_line.hpp"
#include "tests/apps/tiny_model.hpp"

using namespace command_line;

namespace {

TEST(ModelInit, WritesTheSameModelForTheSameSeed) {
  const ScratchFolder folder;
  const auto init = [&](const std::string& name, const std::string& seed) {
    return run_cli({"model", "init", "minkunet14", "-o", folder.text(name), "--width", "0.125",
                    "--seed", seed, "--classes", "road,car", "--in-channels", "5", "--voxel-size",
                    "0.2"});
  };
  ASSERT_EQ(init("a.h5", "1").exit_code, 0);
  ASSERT_EQ(init("b.h5", "1").exit_code, 0);
  ASSERT_EQ(init("c.h5", "2").exit_code, 0);
  const auto a = sparseconv::load_model(folder / "a.h5"),
             b = sparseconv::load_model(folder / "b.h5"),
             c = sparseconv::load_model(folder / "c.h5");
  EXPECT_EQ(a.classes, (std::vector<std::string>{"road", "car"}));
  EXPECT_EQ(a.input.features, (std::vector<std::string>{"x", "y", "z", "intensity", "r"}));
  EXPECT_EQ(a.input.voxel_size[0], 0.2);
  bool differs = false;
  for (std::size_t i = 0; i < a.nodes.size(); ++i) {
    for (const auto& [name, weight] : a.nodes[i].weights) {
      const auto bytes = [&name = name, i](const sparseconv::Model& m) {
        const auto& tensor = m.nodes[i].weights.at(name);
        return std::string(static_cast<const char*>(tensor.data()),
                           static_cast<std::size_t>(tensor.nbytes()));
      };
      EXPECT_EQ(bytes(a), bytes(b)) << a.nodes[i].name << " " << name;
      differs = differs || bytes(a) != bytes(c);
    }
  }
  EXPECT_TRUE(differs);
}

TEST(ModelInit, EveryArchitectureIsWrittenAndDescribed) {
  const ScratchFolder folder;
  for (const std::string& name : sparseconv::architecture_names()) {
    const std::string path = folder.text(name + ".h5");
    const ProgramRun init =
        run_cli({"model", "init", name, "-o", path, "--width", "0.125", "--classes", "3"});
    ASSERT_EQ(init.exit_code, 0) << name << init.err;
    const ProgramRun info = run_cli({"model", "info", path, "--json"});
    ASSERT_EQ(info.exit_code, 0) << info.err;
    const Json file = document(info)["files"][0];
    EXPECT_EQ(file["parameters"], sparseconv::load_model(path).parameters()) << name;
    EXPECT_GT(file["macs_per_row"].get<double>(), 0) << name;
    EXPECT_EQ(document(run_cli({"info", path, "--json"}))["files"][0], file)
        << "info knows models too";
  }
}

TEST(ModelInfo, NamesWhatIsWrong) {
  const ScratchFolder folder;
  write_bytes(folder / "m.h5", "not HDF5");
  for (const std::string name : {"m.h5", "missing.h5"}) {
    const ProgramRun run = run_cli({"model", "info", folder.text(name), "--json"});
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_TRUE(contains(run.err, "sparseconv: " + folder.text(name) + ": ")) << run.err;
    EXPECT_EQ(document(run)["errors"].size(), 1u);
  }
}

TEST(ModelEdit, NewFeaturesChangeNothingAndFeaturesLeftOutCountAsZero) {
  const ScratchFolder folder;
  write_threshold_model(folder / "m.h5");
  write_scan(folder / "a.bin", {{0, 0, 7, 0.9f}, {1, 0, 7, 0.1f}, {2, 0, 7, 0.7f}});
  const auto edit = [&](const std::string& from, const std::string& features, const std::string& to,
                        const std::string& weights = "fp32") {
    return run_cli({"model", "edit", folder.text(from), "--features", features, "--weights",
                    weights, "-o", folder.text(to)});
  };
  const auto labels = [&](const std::string& model) {
    const ProgramRun run = run_cli({"run", "--model", folder.text(model), folder.text("a.bin"),
                                    "--format", "label", "-o", folder.text("out." + model)});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    std::string seen;
    for (const char byte : read_bytes(folder / ("out." + model) / "a.label"))
      if (byte != 0) seen += static_cast<char>('0' + byte);
    return seen;
  };
  EXPECT_EQ(labels("m.h5"), "939");
  ASSERT_EQ(edit("m.h5", "z,intensity,y", "more.h5").exit_code, 0);
  EXPECT_EQ(labels("more.h5"), "939");
  ASSERT_EQ(edit("more.h5", "intensity", "back.h5", "fp16").exit_code, 0);
  EXPECT_EQ(labels("back.h5"), "939");
  ASSERT_EQ(edit("more.h5", "y,z", "blind.h5").exit_code, 0);
  EXPECT_EQ(labels("blind.h5"), "333");
  EXPECT_TRUE(sparseconv::load_model(folder / "blind.h5").input.defaults.contains("z"));
  const ProgramRun twice = edit("m.h5", "z,z", "x.h5");
  EXPECT_EQ(twice.exit_code, 1);
  EXPECT_TRUE(contains(twice.err, "z is named twice")) << twice.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "x.h5"));
}

TEST(ModelEdit, MixesTwoTrainingsOfOneNetworkByShares) {
  const ScratchFolder folder;
  const auto init = [&](const std::string& name, const std::string& seed,
                        const std::string& classes) {
    ASSERT_EQ(run_cli({"model", "init", "minkunet14", "-o", folder.text(name), "--width", "0.125",
                       "--seed", seed, "--classes", classes})
                  .exit_code,
              0);
  };
  init("a.h5", "1", "2");
  init("b.h5", "2", "2");
  init("other.h5", "2", "3");
  const auto mix = [&](const std::string& other, std::vector<std::string> options) {
    std::vector<std::string> words{"model",
                                   "edit",
                                   folder.text("a.h5"),
                                   "--mix",
                                   folder.text(other),
                                   "-o",
                                   folder.text("m.h5")};
    words.insert(words.end(), options.begin(), options.end());
    return run_cli(words);
  };
  const auto a = sparseconv::load_model(folder / "a.h5"),
             b = sparseconv::load_model(folder / "b.h5");
  for (const auto& [options, share] :
       {std::pair{std::vector<std::string>{}, 0.5}, {{"--share", "0.25"}, 0.25}}) {
    const ProgramRun run = mix("b.h5", options);
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const auto mixed = sparseconv::load_model(folder / "m.h5");
    for (std::size_t n = 0; n < a.nodes.size(); ++n) {
      for (const auto& [name, weight] : a.nodes[n].weights) {
        for (std::int64_t i = 0; i < weight.numel(); ++i) {
          const double own = weight.data<float>()[i],
                       others = b.nodes[n].weights.at(name).data<float>()[i];
          ASSERT_NEAR(mixed.nodes[n].weights.at(name).data<float>()[i],
                      own + share * (others - own), 1e-6)
              << a.nodes[n].name << " " << name;
        }
      }
    }
  }
  std::filesystem::remove(folder / "m.h5");
  const ProgramRun differs = mix("other.h5", {});
  EXPECT_EQ(differs.exit_code, 1);
  EXPECT_TRUE(contains(differs.err, "other.h5: two networks can be mixed only where"))
      << differs.err;
  const ProgramRun none = mix("none.h5", {});  // errors name the file that they are about
  EXPECT_TRUE(contains(none.err, "none.h5: cannot open")) << none.err;
  EXPECT_EQ(mix("b.h5", {"--share", "1.5"}).exit_code, 2);
  EXPECT_EQ(
      run_cli({"model", "edit", folder.text("a.h5"), "--share", "0.5", "-o", folder.text("m.h5")})
          .exit_code,
      2);
  EXPECT_FALSE(std::filesystem::exists(folder / "m.h5"));
}

}  // namespace
