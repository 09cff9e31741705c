// The benchmarks' documents; no test looks at a time.
#include <gtest/gtest.h>

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

}  // namespace
