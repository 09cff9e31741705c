// The benchmarks' documents; no test looks at a time.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "tests/apps/command_line.hpp"

using namespace command_line;

namespace {

Json bench(std::vector<std::string> words) {
  words.insert(words.begin(), "bench");
  words.insert(words.end(), {"--repeat", "2", "--warmup", "0", "--threads", "1", "--json"});
  const ProgramRun run = run_cli(words);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const Json json = document(run);
  EXPECT_FALSE(json.is_discarded()) << run.out;
  for (const char* key : {"device", "date", "commit", "results"})
    EXPECT_TRUE(json.contains(key)) << key;
  for (const Json& result : json["results"]) {
    for (const char* key : {"name", "dtype", "voxels", "cin", "cout", "kernel", "time_ms", "min_ms",
                            "gflop", "tflops", "gbps", "floor_ms"}) {
      EXPECT_TRUE(result.contains(key)) << key;
    }
    EXPECT_GT(result["time_ms"].get<double>(), 0);
    EXPECT_LE(result["min_ms"], result["time_ms"]);
  }
  return json;
}

class Bench : public testing::Test {
 protected:
  Bench() { write_scan(folder / "a.bin", spiral(500)); }
  ScratchFolder folder;
};

TEST_F(Bench, LayerCountsPresentPairsOnly) {
  const Json json = bench({"layer", "--input", folder.text("a.bin"), "--voxel-size", "0.1",
                           "--channels", "8,4:16", "--kernel", "3"});
  ASSERT_EQ(json["results"].size(), 2u);
  const Json first = json["results"][0], second = json["results"][1];
  EXPECT_EQ(first["voxels"], 500);
  EXPECT_EQ(first["kernel"], "3x3x3");
  EXPECT_EQ(second["cin"], 4);
  EXPECT_EQ(second["cout"], 16);
  EXPECT_NEAR(first["gflop"].get<double>(), 2e-9 * first["pairs"].get<double>() * 64, 1e-12);
  EXPECT_LT(first["pairs"].get<int>(), 500 * 27);
  EXPECT_GE(first["pairs"].get<int>(), 500);
  EXPECT_EQ(first["dtype"], "fp32");
  const Json half = bench({"layer", "--input", folder.text("a.bin"), "--channels", "8", "--dtype",
                           "fp16"});  // named as it was asked for
  EXPECT_EQ(half["results"][0]["dtype"], "fp16");
}

TEST_F(Bench, ABoundedNetworkTakesThePointsInsideItsRange) {
  const Json json = bench({"network", "--arch", "second", "--width", "0.25", "--input",
                           folder.text("a.bin"), "--voxel-size", "0.2"});
  EXPECT_GT(json["results"][0]["voxels"].get<int>(), 0);
  EXPECT_LE(json["results"][0]["voxels"].get<int>(), 500);
}

TEST_F(Bench, AFileThatCannotBeReadIsNamed) {
  write_bytes(folder / "bad.bin", "abc");
  for (const char* name : {"no_such.bin", "bad.bin"}) {
    const ProgramRun run = run_cli({"bench", "layer", "--input", folder.text(name)});
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_TRUE(run.err.starts_with("sparseconv: " + folder.text(name) + ": ")) << run.err;
  }
  const ProgramRun run = run_cli({"bench", "network", "--model", folder.text("no_such.h5")});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_TRUE(run.err.starts_with("sparseconv: " + folder.text("no_such.h5") + ": ")) << run.err;
}

TEST_F(Bench, NetworkSplitsItsTime) {
  const Json json = bench(
      {"network", "--arch", "minkunet14", "--width", "0.125", "--input", folder.text("a.bin")});
  const Json result = json["results"][0];
  for (const char* key : {"maps_ms", "network_ms", "sum_of_layers_ms", "frame_ms"}) {
    EXPECT_GT(result[key].get<double>(), 0) << key;
  }
  EXPECT_GT(result["layers"].size(), 14u);
  const Json cached = bench({"network", "--arch", "minkunet14", "--width", "0.125", "--input",
                             folder.text("a.bin"), "--maps", "cached"});
  EXPECT_EQ(cached["results"][0]["gflop"], result["gflop"]);
}

TEST_F(Bench, MapAndGemm) {
  EXPECT_GE(bench({"map", "--input", folder.text("a.bin")})["results"].size(), 5u);
  const Json gemm = bench({"gemm", "--m", "100", "--n", "16", "--k", "32", "--groups", "3"});
  EXPECT_NEAR(gemm["results"][0]["gflop"].get<double>(), 2e-9 * 3 * 100 * 16 * 32, 1e-12);
}

std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(Bench, GemmSweepsShapesTypesAndConfigurationsAndVerifiesThem) {
  const Json json =
      bench({"gemm", "--m", "30:90:60", "--n", "20", "--k", "40,50", "--dtype",
             "fp32,int8,int4xfp16", "--layout", "nt,tn", "--config", "96x512_data", "--workspaces",
             "3", "--csv", folder.text("a.csv"), "--junit", folder.text("a.xml")});
  ASSERT_GE(json["results"].size(), 24u);
  for (const Json& result : json["results"]) {
    EXPECT_TRUE(result["config"].get<std::string>().starts_with("96x512_data_parallel"));
    EXPECT_LE(result["error"].get<double>(), 1);
    EXPECT_GT(result["estimate_ms"].get<double>(), 0);
  }
  const std::string csv = text_of_file(folder / "a.csv"), xml = text_of_file(folder / "a.xml");
  EXPECT_EQ(static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n')),
            json["results"].size() + 1);
  EXPECT_NE(csv.find("gemm_int4xfp16_tn_90x20x50"), std::string::npos);
  EXPECT_NE(xml.find("failures=\"0\""), std::string::npos);
  EXPECT_NE(xml.find("<testcase classname=\"gemm_fp32_nt_30x20x40\""), std::string::npos);
}

// Sums in fp32 are not those in double: a tolerance of 0 must find them wrong, and one that is wide
// enough must not; the floor decides where results are small.
TEST_F(Bench, GemmHoldsResultsToTheToleranceThatIsAskedFor) {
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"bench", "gemm",   "--m",      "40", "--n",      "30", "--k",
                                   "700",   "--json", "--repeat", "1",  "--warmup", "0"};
    words.insert(words.end(), more.begin(), more.end());
    return run_cli(words);
  };
  const Json wide = document(with({"--epsilon", "1e-3", "--nonzero-floor", "0.5"}))["results"][0];
  EXPECT_EQ(wide["epsilon"].get<double>(), 1e-3);
  EXPECT_EQ(wide["nonzero_floor"].get<double>(), 0.5);
  EXPECT_EQ(wide["reference"], "host");
  EXPECT_GT(wide["error"].get<double>(), 0);
  EXPECT_LE(wide["error"].get<double>(), 1);
  const Json wider = document(with({"--epsilon", "2e-3", "--nonzero-floor", "0.5"}))["results"][0];
  EXPECT_NEAR(wider["error"].get<double>(), wide["error"].get<double>() / 2, 1e-9);
  // With a floor above every result the error is the largest difference over epsilon * floor.
  const Json high = document(with({"--epsilon", "1e-9", "--nonzero-floor", "1e6"}))["results"][0];
  const Json higher = document(with({"--epsilon", "1e-9", "--nonzero-floor", "4e6"}))["results"][0];
  EXPECT_NEAR(higher["error"].get<double>(), high["error"].get<double>() / 4, 1e-9);

  const ProgramRun wrong = with({"--epsilon", "1e-12", "--junit", folder.text("w.xml"),
                                 "--save-failures", folder.text("w_")});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_NE(wrong.err.find("1 of 1 results differ from the naive ones"), std::string::npos)
      << wrong.err;
  EXPECT_NE(text_of_file(folder / "w.xml").find("failures=\"1\""), std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(folder / "w_gemm_fp32_nt_40x30x700.a"), 4u * 40 * 700);
  EXPECT_EQ(std::filesystem::file_size(folder / "w_gemm_fp32_nt_40x30x700.b"), 4u * 30 * 700);
  EXPECT_EQ(std::filesystem::file_size(folder / "w_gemm_fp32_nt_40x30x700.d"), 4u * 40 * 30);
  // Sums of integers are exact.
  EXPECT_EQ(with({"--dtype", "int8", "--epsilon", "0"}).exit_code, 0);
  EXPECT_EQ(with({"--epsilon", "0"}).exit_code, 1);
}

TEST_F(Bench, GemmHoldsResultsToThePeersWhereThereIsOne) {
  const ProgramRun run = run_cli({"bench", "gemm", "--m", "40", "--n", "30", "--k", "70",
                                  "--groups", "2", "--reference", "peer", "--json"});
  if (run.exit_code == 1 && run.err.find("OpenBLAS") != std::string::npos) return;
  const Json result = document(run)["results"][0];
  EXPECT_EQ(result["reference"], "peer");
  EXPECT_LE(result["error"].get<double>(), 1);
}

TEST_F(Bench, GemmPreparesOrRunsConfigurationsWithoutAClock) {
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"bench", "gemm", "--m", "40", "--n", "30", "--k", "50"};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramRun run = run_cli(words);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.out;
  };
  const auto lines = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  const std::string all = with({"--list", "--all-configs"});
  EXPECT_GT(lines(all), 8);
  const std::string dry = with({"--dry-run", "--all-configs"});
  EXPECT_EQ(lines(dry), lines(all));
  EXPECT_NE(dry.find("gemm_fp32_nt_40x30x50 96x512_data_parallel"), std::string::npos) << dry;
  EXPECT_NE(dry.find(" bytes of workspace"), std::string::npos) << dry;
  const std::string trace = with({"--trace", "--dtype", "fp32,int8"});
  EXPECT_EQ(lines(trace), 2) << trace;
  EXPECT_NE(trace.find("gemm_int8_nt_40x30x50"), std::string::npos) << trace;
  EXPECT_NE(trace.find("ran once"), std::string::npos) << trace;
  // Patterns: a word, a whole name with any text for "*", and what is excluded.
  const std::string some = with({"--list", "--config", "*x512_data*"});
  EXPECT_GE(lines(some), 4) << some;
  EXPECT_EQ(some.find("x1024"), std::string::npos) << some;
  EXPECT_EQ(lines(with({"--list", "--config", "96x512_data_parallel,24x*,!24x1024,!24x128*"})), 3);
}

TEST_F(Bench, GemmWritesATableAndUsesOneOnlyWhereItIsNamed) {
  const std::vector<std::string> shape{"gemm", "--m", "50", "--n", "40", "--k", "60"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> words = shape;
    words.insert(words.end(), more.begin(), more.end());
    return bench(words)["results"];
  };
  const std::string selected = with({})[0]["config"];
  EXPECT_GT(with({"--tune", folder.text("t")}).size(), 8u);
  std::string table = text_of_file(folder / "t");
  const std::size_t tab = table.find('\t', table.find('\n'));
  ASSERT_NE(tab, std::string::npos);
  const std::string other =
      selected == "24x1024_data_parallel" ? "24x512_data_parallel" : "24x1024_data_parallel";
  std::ofstream(folder / "t") << table.substr(0, tab + 1) << other << "\n";
  EXPECT_EQ(with({"--tuning", folder.text("t")})[0]["config"], other);
  EXPECT_EQ(with({})[0]["config"], selected);
}

// With a GPU: every kernel is verified, cold and warm, and a table made there is used. Without one,
// or without CUDA: an error that says so.
TEST_F(Bench, GemmRunsOnAGpuOrSaysWhyNot) {
  const std::vector<std::string> shape{"bench",  "gemm",     "--m", "100",          "--n",
                                       "72",     "--k",      "64",  "--device",     "cuda",
                                       "--json", "--repeat", "2",   "--workspaces", "2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), shape.begin(), shape.end());
    return run_cli(more);
  };
  const ProgramRun first = with({"--dtype", "fp16", "--tune", folder.text("t")});
  if (first.exit_code != 0) {
    EXPECT_EQ(first.exit_code, 1) << first.err;
    EXPECT_NE(first.err.find("CUDA"), std::string::npos) << first.err;
    return;
  }
  EXPECT_NE(text_of_file(folder / "t").find("float16 x float16"), std::string::npos);
  EXPECT_EQ(document(with({"--dtype", "fp16", "--tuning", folder.text("t")}))["results"].size(),
            1u);
  for (const char* types : {"fp32,tf32,bf16,fp64,int8", "e4m3,int4xbf16,e4m3xbf16"}) {
    for (const char* more : {"--all-configs", "--cold-l2"}) {
      const ProgramRun run = with({"--dtype", types, more});
      ASSERT_EQ(run.exit_code, 0) << run.err;
      for (const Json& result : document(run)["results"])
        EXPECT_LE(result["error"].get<double>(), 1);
    }
  }
  EXPECT_EQ(with({"--groups", "3", "--dtype", "fp16"}).exit_code, 0);
  EXPECT_EQ(with({"--dtype", "fp16", "--epsilon", "1e-2"}).exit_code, 0);
  EXPECT_EQ(with({"--dtype", "fp32", "--epsilon", "1e-14"}).exit_code, 1);
  const ProgramRun peer = with({"--dtype", "fp16", "--reference", "peer"});
  EXPECT_TRUE(peer.exit_code == 0 || peer.err.find("cuBLAS") != std::string::npos) << peer.err;
  for (const auto& [mode, words] :
       {std::pair{"--dry-run", "bytes of workspace"}, std::pair{"--trace", "ran once"}}) {
    const ProgramRun run = with({"--dtype", "fp16", "--all-configs", mode});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_NE(run.out.find(words), std::string::npos) << run.out;
  }
}

TEST_F(Bench, GemmNamesWhatItCannotSweep) {
  const auto message = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"bench", "gemm"});
    const ProgramRun run = run_cli(words);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    return run.err;
  };
  EXPECT_NE(message({"--m", "5:1:1"}).find("--m"), std::string::npos);
  EXPECT_NE(message({"--dtype", "int3"}).find("int3"), std::string::npos);
  EXPECT_NE(message({"--layout", "xy"}).find("xy"), std::string::npos);
  EXPECT_NE(message({"--m", "4", "--n", "4", "--k", "4", "--config", "nonsense"}).find("--config"),
            std::string::npos);
  EXPECT_NE(message({"--epsilon", "-1"}).find("--epsilon"), std::string::npos);
  EXPECT_NE(message({"--epsilon", "nan"}).find("--epsilon"), std::string::npos);
  EXPECT_NE(message({"--nonzero-floor", "1"}).find("--nonzero-floor"), std::string::npos);
  EXPECT_NE(message({"--epsilon", "1", "--nonzero-floor", "0"}).find("--nonzero-floor"),
            std::string::npos);
  EXPECT_NE(message({"--epsilon", "1", "--no-verify"}).find("--no-verify"), std::string::npos);
  EXPECT_NE(message({"--groups", "1048576", "--m", "1073741824", "--k", "1048576", "--dry-run"})
                .find("more than 2^60 bytes"),
            std::string::npos);
  EXPECT_NE(message({"--list", "--trace"}).find("--trace"), std::string::npos);
  EXPECT_NE(message({"--dry-run", "--tune", "t"}).find("--tune"), std::string::npos);
  EXPECT_NE(message({"--reference", "device"}).find("--reference"), std::string::npos);
  const ProgramRun list =
      run_cli({"bench", "gemm", "--m", "4", "--n", "4", "--k", "4", "--list", "--all-configs"});
  EXPECT_EQ(list.exit_code, 0);
  EXPECT_NE(list.out.find("gemm_fp32_nt_4x4x4 96x512_data_parallel"), std::string::npos)
      << list.out;
}

}  // namespace
