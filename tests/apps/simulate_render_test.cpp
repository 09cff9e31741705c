// simulate and render as users call them.
#include <gtest/gtest.h>

#include "gemm_core/base/sanitizers.hpp"
#include "io/io.h"
#include "io/simulator.hpp"
#include "tests/apps/command_line.hpp"

using namespace command_line;

namespace {

TEST(Simulate, WritesScansLabelsAndPoses) {
  const ScratchFolder folder;
  const ProgramRun run = run_cli({"simulate", "--sensor", "vlp16", "--frames", "2", "--seed", "3",
                                  "-o", folder.text("out"), "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(names_in(folder / "out"),
            (std::vector<std::string>{"000000.bin", "000000.label", "000001.bin", "000001.label",
                                      "poses.txt"}));
  const io::Simulator simulator({.sensor = "vlp16", .seed = 3});
  const Json files = document(run)["files"];
  ASSERT_EQ(files.size(), 2u) << run.out;
  for (std::int64_t frame = 0; frame < 2; ++frame) {
    const io::Cloud truth = simulator.frame(frame);
    const std::string stem = "out/00000" + std::to_string(frame);
    const std::string points = read_bytes(folder / (stem + ".bin")),
                      labels = read_bytes(folder / (stem + ".label"));
    EXPECT_EQ(files[static_cast<std::size_t>(frame)]["points"], truth.size());
    ASSERT_EQ(points.size(), static_cast<std::size_t>(truth.size()) * 16);
    ASSERT_EQ(labels.size(), static_cast<std::size_t>(truth.size()) * 4);
    for (std::int64_t i = 0; i < truth.size(); ++i) {
      std::array<float, 4> point{};
      std::uint32_t label = 0;
      std::memcpy(point.data(), points.data() + 16 * i, 16);
      std::memcpy(&label, labels.data() + 4 * i, 4);
      ASSERT_EQ(point[0], truth.get("x").at(i)) << i;
      ASSERT_EQ(point[3], truth.get("intensity").at(i)) << i;
      ASSERT_EQ(label & 0xffff, truth.get("label").at(i)) << i;
      ASSERT_EQ(label >> 16, truth.get("instance").at(i)) << i;
    }
  }
  const std::string poses = read_bytes(folder / "out/poses.txt");
  EXPECT_TRUE(poses.starts_with("1 0 0 0 0 1 0 0 0 0 1 0\n")) << poses;
  EXPECT_EQ(std::count(poses.begin(), poses.end(), '\n'), 2);
}

TEST(Simulate, ThreadsChangeNoByteAndTheFirstFrameMayBeAnyOne) {
  const ScratchFolder folder;
  const auto simulate = [&](const std::string& out, std::vector<std::string> more) {
    std::vector<std::string> words = {"simulate", "--sensor", "vlp16",         "--seed",
                                      "9",        "-o",       folder.text(out)};
    words.insert(words.end(), more.begin(), more.end());
    ASSERT_EQ(run_cli(words).exit_code, 0);
  };
  simulate("a", {"--frames", "3", "--threads", "1"});
  simulate("b", {"--frames", "1", "--first", "2", "--threads", "2"});
  EXPECT_EQ(read_bytes(folder / "a/000002.bin"), read_bytes(folder / "b/000002.bin"));
  EXPECT_EQ(read_bytes(folder / "a/000002.label"), read_bytes(folder / "b/000002.label"));
}

TEST(Simulate, OtherFormatsHoldLabelsThemselves) {
  const ScratchFolder folder;
  for (const std::string format : {"pcd", "ply"}) {
    ASSERT_EQ(
        run_cli({"simulate", "--sensor", "vlp16", "--format", format, "-o", folder.text(format)})
            .exit_code,
        0);
    EXPECT_EQ(names_in(folder / format),
              (std::vector<std::string>{"000000." + format, "poses.txt"}));
    EXPECT_NE(io::read(folder / (format + "/000000." + format)).find("label"), nullptr);
  }
}

TEST(Simulate, RandomisedFramesDiffer) {
  const ScratchFolder folder;
  ASSERT_EQ(
      run_cli({"simulate", "--randomise", "--frames", "2", "-o", folder.text("out")}).exit_code, 0);
  EXPECT_NE(read_bytes(folder / "out/000000.bin"), read_bytes(folder / "out/000001.bin"));
}

TEST(Simulate, WrongUsageNamesTheOption) {
  const ScratchFolder folder;
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"simulate"}, "--output"},
      {{"simulate", "-o", folder.text("x"), "--sensor", "hdl65"}, "hdl65"},
      {{"simulate", "-o", folder.text("x"), "--frames", "-1"}, "--frames"},
      {{"simulate", "-o", folder.text("x"), "--noise", "-1"}, "--noise"},
      {{"simulate", "-o", folder.text("x"), "--waver", "101"}, "--waver: 101 is not in 0..100"},
      {{"simulate", "-o", folder.text("x"), "--wet", "2"}, "--wet: 2 is not in 0..1"},
      {{"simulate", "-o", folder.text("x"), "--rain", "1.5"}, "--rain: 1.5 is not in 0..1"},
      {{"simulate", "-o", folder.text("x"), "--format", "docx"}, "docx"},
      {{"simulate", "-o", folder.text("x"), "--randomise", "--sensor", "vlp16"}, "--randomise"}};
  for (const auto& [words, part] : cases) {
    const ProgramRun run = run_cli(words);
    EXPECT_EQ(run.exit_code, 2) << part;
    EXPECT_TRUE(contains(run.err, part)) << run.err;
  }
}

TEST(Simulate, AFolderThatCannotBeMadeIsAnError) {
  const ScratchFolder folder;
  write_bytes(folder / "file", "x");
  const ProgramRun run = run_cli({"simulate", "--sensor", "vlp16", "-o", folder.text("file/out")});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_TRUE(contains(run.err, "file/out")) << run.err;
}

TEST(Simulate, AFullDiskNamesTheScanAndStops) {
  const ScratchFolder folder;
  const ProgramRun run = run_cli(
      {"simulate", "--sensor", "vlp16", "--frames", "3", "-o", folder.text("out"), "--json"},
      {.max_file_bytes = 4096});
  EXPECT_EQ(run.exit_code, 1) << run.signal;
  const Json json = document(run);
  ASSERT_EQ(json["errors"].size(), 1u) << run.out;
  EXPECT_EQ(json["errors"][0]["path"], folder.text("out/000000.bin"));
  EXPECT_TRUE(contains(json["errors"][0]["message"], "File too large")) << run.err;
  EXPECT_EQ(json["stopped"]["files_left"], 2);
  EXPECT_TRUE(names_in(folder / "out").empty());
}

bool is_png(const std::filesystem::path& path) {
  return read_bytes(path).starts_with("\x89PNG\r\n\x1a\n");
}

TEST(Render, DrawsScansLabelsAndPairs) {
  const ScratchFolder folder;
  ASSERT_EQ(run_cli({"simulate", "--sensor", "vlp16", "-o", folder.text("s")}).exit_code, 0);
  const std::string scan = folder.text("s/000000.bin"), labels = folder.text("s/000000.label");
  const std::vector<std::vector<std::string>> calls = {
      {scan, "--color", "intensity"},
      {scan, "--labels", labels, "--view", "top", "--background", "light"},
      {labels, "--view", "perspective", "--camera", "-20,5,9,0,0,-1.5", "--size", "400x300"},
      {"--side-by-side", scan, labels, "--camera", "oblique", "--point-size", "2"}};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string picture = folder.text("p" + std::to_string(i) + ".png");
    std::vector<std::string> words = {"render", "-o", picture};
    words.insert(words.end(), calls[i].begin(), calls[i].end());
    const ProgramRun run = run_cli(words);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_TRUE(is_png(picture)) << i;
  }
}

TEST(Render, ZeroPointsWarnAndGiveAPicture) {
  const ScratchFolder folder;
  write_bytes(folder / "empty.bin", "");
  const ProgramRun run = run_cli({"render", folder.text("empty.bin"), "-o", folder.text("p.png")});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "0 points")) << run.err;
  EXPECT_TRUE(is_png(folder / "p.png"));
}

TEST(Render, TenMillionPointsTakeTheirCloudAndAPicture) {
  if (base::kIsSanitized) GTEST_SKIP() << "the sanitizer's own memory is counted too";
  const ScratchFolder folder;
  const auto some = spiral(100000);
  const std::string bytes(reinterpret_cast<const char*>(some.data()), some.size() * sizeof some[0]);
  {
    std::ofstream file(folder / "ten.bin", std::ios::binary);
    for (int i = 0; i < 100; ++i) file << bytes;
  }
  const ProgramRun run =
      run_cli({"render", folder.text("ten.bin"), "-o", folder.text("p.png"), "--color", "height"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(is_png(folder / "p.png"));
  EXPECT_LT(run.peak_bytes, 160'000'000 + (96 << 20));
}

TEST(Render, FailuresLeaveNothingBehind) {
  const ScratchFolder folder;
  write_bytes(folder / "short.pcd", "# .PCD v0.7\nVERSION 0.7\n");
  write_scan(folder / "a.bin", spiral(10));
  write_bytes(folder / "a.label", std::string(8, '\0'));
  EXPECT_EQ(run_cli({"render", folder.text("short.pcd"), "-o", folder.text("p.png")}).exit_code, 1);
  EXPECT_EQ(run_cli({"render", folder.text("none.bin"), "-o", folder.text("p.png")}).exit_code, 1);
  const ProgramRun unequal = run_cli({"render", folder.text("a.bin"), "--labels",
                                      folder.text("a.label"), "-o", folder.text("p.png")});
  EXPECT_EQ(unequal.exit_code, 1);
  EXPECT_TRUE(contains(unequal.err, "2 labels for 10 points")) << unequal.err;
  EXPECT_EQ(run_cli({"render", folder.text("a.bin"), "-o", folder.text("no/p.png")}).exit_code, 1);
  EXPECT_EQ(run_cli({"render", folder.text("a.bin")}).exit_code, 2);
  EXPECT_EQ(run_cli({"render", folder.text("a.bin"), "-o", folder.text("p.png"), "--camera", "1,2"})
                .exit_code,
            2);
  EXPECT_EQ(run_cli({"render", "--side-by-side", folder.text("a.bin"), "-o", folder.text("p.png")})
                .exit_code,
            2);
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"a.bin", "a.label", "short.pcd"}));
}

TEST(Layout, IsPrintedAndDrawn) {
  const ScratchFolder folder;
  const ProgramRun text = run_cli({"layout", "(2,(2,2)):(2,(1,4))"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_EQ(text.out, "(2,(2,2)):(2,(1,4))\n 0 1 4 5\n 2 3 6 7\n");
  const ProgramRun swizzled = run_cli({"layout", "(1,8):(8,1)", "--swizzle", "1,0,-2"});
  EXPECT_EQ(swizzled.out, "Sw<1,0,-2> o (1,8):(8,1)\n 0 5 2 7 4 1 6 3\n") << swizzled.err;
  const ProgramRun tile = run_cli({"layout", "(2,2):(1,4)", "--tile", "2x4"});
  EXPECT_EQ(tile.out, "(2,2):(1,4)\n T0V0    . T0V1    .\n T1V0    . T1V1    .\n") << tile.err;
  ASSERT_EQ(run_cli({"layout", "(4,8):(8,1)", "-o", folder.text("a.png")}).exit_code, 0);
  ASSERT_EQ(run_cli({"layout", "(4,8):(8,1)", "-o", folder.text("a.svg")}).exit_code, 0);
  EXPECT_TRUE(is_png(folder / "a.png"));
  EXPECT_TRUE(read_bytes(folder / "a.svg").starts_with("<svg "));
}

TEST(Layout, WhatIsNoneIsWrongUsage) {
  const ScratchFolder folder;
  const std::vector<std::vector<std::string>> calls = {
      {"4"},
      {"4:1"},
      {"(2,2):(1,9)", "--tile", "2x2"},
      {"(2,2):(1,2)", "--tile", "2"},
      {"(2,2):(1,2)", "--swizzle", "3,0,1"},
      {"(2,2):(1,2)", "--swizzle", "1,0,2", "--tile", "2x2"},
      {"(2,2):(1,2)", "-o", folder.text("a.bmp")},
      {"(1000000,1000000):(1,1)"}};
  for (std::vector<std::string> words : calls) {
    words.insert(words.begin(), "layout");
    const ProgramRun run = run_cli(words);
    EXPECT_EQ(run.exit_code, 2) << words[1] << run.err;
    EXPECT_TRUE(contains(run.err, "layout")) << run.err;
  }
  EXPECT_EQ(run_cli({"layout", "(2,2):(1,2)", "-o", folder.text("no/a.png")}).exit_code, 1);
  EXPECT_TRUE(names_in(folder.path()).empty());
}

}  // namespace
