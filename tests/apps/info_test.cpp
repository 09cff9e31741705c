#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/apps/command_line.hpp"

using namespace command_line;

namespace {

TEST(Info, JsonHasTheDocumentedKeysAndFigures) {
  const ScratchFolder folder;
  write_scan(folder / "a.bin",
             {{NAN, 0, 0, 1}, {1, -2, 3, 4}, {-5, 6, 7.5, 8}, {0, INFINITY, 0, 0}});
  const ProgramRun run = run_cli({"info", folder.text("a.bin"), "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json file = document(run)["files"][0];
  EXPECT_EQ(file["path"], folder.text("a.bin"));
  EXPECT_EQ(file["format"], "kitti");
  EXPECT_EQ(file["points"], 4);
  EXPECT_EQ(file["finite"], 2);
  EXPECT_EQ(file["min"], Json({-5.0, -2.0, 3.0}));
  EXPECT_EQ(file["max"], Json({1.0, 6.0, 7.5}));
  EXPECT_EQ(file["first"], Json({1.0, -2.0, 3.0}));
  EXPECT_EQ(file["last"], Json({-5.0, 6.0, 7.5}));
  EXPECT_EQ(file["fields"][3], Json({{"name", "intensity"}, {"type", "float32"}}));
  EXPECT_EQ(file["ranges"]["intensity"], Json({0.0, 8.0}));
  EXPECT_EQ(document(run)["errors"], Json::array());
  EXPECT_TRUE(contains(run.err, "sparseconv: warning: " + folder.text("a.bin") + ": ")) << run.err;
  EXPECT_TRUE(contains(run.err, "2 of 4")) << run.err;
}

TEST(Info, ZeroPointsWarnAndHaveNoBounds) {
  const ScratchFolder folder;
  write_bytes(folder / "none.bin", "");
  const ProgramRun run = run_cli({"info", folder.text("none.bin"), "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json file = document(run)["files"][0];
  EXPECT_EQ(file["points"], 0);
  for (const char* key : {"min", "max", "first", "last"}) EXPECT_TRUE(file[key].is_null()) << key;
  EXPECT_TRUE(contains(run.err, "0 points")) << run.err;
}

TEST(Info, ABadFileIsNamedOnceAndTheOthersStillComeOut) {
  const ScratchFolder folder;
  write_scan(folder / "a.bin", spiral(3));
  write_bytes(folder / "b.bin", "12345");
  write_scan(folder / "c.bin", spiral(4));
  const ProgramRun run = run_cli({"info", folder.text("a.bin"), folder.text("b.bin"),
                                  folder.text("missing.bin"), folder.text("c.bin"), "--json"});
  EXPECT_EQ(run.exit_code, 1);
  const Json json = document(run);
  ASSERT_EQ(json["files"].size(), 2u);
  EXPECT_EQ(json["files"][1]["points"], 4);
  ASSERT_EQ(json["errors"].size(), 2u);
  EXPECT_EQ(json["errors"][0]["path"], folder.text("b.bin"));
  for (const Json& error : json["errors"]) {
    const std::string line = "sparseconv: " + error["path"].get<std::string>() + ": " +
                             error["message"].get<std::string>() + "\n";
    EXPECT_TRUE(contains(run.err, line)) << run.err;
  }
}

TEST(Info, TextPrintsTheSameFigures) {
  const ScratchFolder folder;
  write_scan(folder / "a.bin", spiral(3));
  const ProgramRun run = run_cli({"info", folder.text("a.bin")});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.err, "");
  EXPECT_TRUE(run.out.starts_with(folder.text("a.bin") + "\n")) << run.out;
  EXPECT_TRUE(contains(run.out, "points           3\n")) << run.out;
  EXPECT_TRUE(contains(run.out, "x float32, y float32, z float32, intensity float32")) << run.out;
}

TEST(Info, LabelsAreReadWithTheirScan) {
  const ScratchFolder folder;
  write_scan(folder / "velodyne" / "7.bin", spiral(3));
  const std::uint32_t labels[3]{10, 10u | 5u << 16, 252};
  write_bytes(folder / "labels" / "7.label",
              {reinterpret_cast<const char*>(labels), sizeof labels});
  const ProgramRun run = run_cli({"info", folder.text("labels/7.label"), "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json file = document(run)["files"][0];
  EXPECT_EQ(file["points"], 3);
  EXPECT_EQ(file["classes"], Json({10, 10, 252}));
  EXPECT_EQ(file["instances"], Json({0, 5, 0}));
}

TEST(Info, FoldersPatternsAndOddFilesDoNotHang) {
  const ScratchFolder folder;
  write_scan(folder / "scans" / "deep" / "a.bin", spiral(3));
  write_scan(folder / "scans" / "b.bin", spiral(2));
  write_bytes(folder / "scans" / "notes.md", "no scan");
  write_bytes(folder / "scans" / "calib.txt", "1 2 3\n");
  std::filesystem::create_directories(folder / "scans" /
                                      "named.bin");  // a folder named like a scan
  std::filesystem::create_directory_symlink("..", folder / "scans" / "loop");
  ASSERT_EQ(mkfifo((folder / "scans" / "fifo.bin").c_str(), 0600), 0);
  const ProgramRun all = run_cli({"info", folder.text("scans"), "--json"});
  EXPECT_EQ(all.exit_code, 0) << all.err;
  ASSERT_EQ(document(all)["files"].size(), 2u) << all.out;
  EXPECT_EQ(document(all)["files"][0]["points"], 2);
  const ProgramRun some = run_cli({"info", folder.text("scans/*/*.bin"), "--json"});
  EXPECT_EQ(document(some)["files"].size(), 1u) << some.out;
  const ProgramRun none = run_cli({"info", folder.text("scans/*.ply"), "--json"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_EQ(document(none)["errors"].size(), 1u);
  const ProgramRun fifo = run_cli({"info", folder.text("scans/fifo.bin")});
  EXPECT_EQ(fifo.exit_code, 1);
  EXPECT_TRUE(contains(fifo.err, "not a regular file")) << fifo.err;
}

TEST(Info, ALinkInAFolderThatLeadsToNoFileIsNamed) {
  const ScratchFolder folder;
  write_scan(folder / "scans" / "a.bin", spiral(3));
  std::filesystem::create_symlink("absent", folder / "scans" / "b.bin");
  std::filesystem::create_symlink("c.bin", folder / "scans" / "c.bin");  // to itself
  std::filesystem::create_symlink("absent", folder / "scans" / "notes.md");
  const ProgramRun run = run_cli({"info", folder.text("scans"), "--json"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(document(run)["files"].size(), 1u) << run.out;
  ASSERT_EQ(document(run)["errors"].size(), 2u) << run.err;
  EXPECT_EQ(document(run)["errors"][0]["path"], folder.text("scans/b.bin"));
  EXPECT_EQ(document(run)["errors"][1]["path"], folder.text("scans/c.bin"));
}

TEST(Info, PathsArePrintedWholeWhateverTheirBytes) {
  const ScratchFolder folder;
  for (const std::string name :
       {"点群 äß.bin", "it's \"quoted\".bin", "[a]*.bin", "new\nline.bin"}) {
    write_scan(folder / name, spiral(2));
    const ProgramRun run = run_cli({"info", folder.text(name), "--json"});
    ASSERT_EQ(run.exit_code, 0) << name << run.err;
    EXPECT_EQ(document(run)["files"][0]["path"], folder.text(name));
    EXPECT_TRUE(contains(run_cli({"info", folder.text(name)}).out, folder.text(name)));
  }
  const std::string latin1 = "gr\xfc\xdf\x65.bin";  // no UTF-8
  write_scan(folder / latin1, spiral(2));
  const ProgramRun run = run_cli({"info", folder.text(latin1), "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_FALSE(document(run).is_discarded()) << run.out;
  EXPECT_TRUE(contains(run_cli({"info", folder.text(latin1)}).out, latin1));
}

TEST(Info, ADecimalCommaLocaleChangesNothing) {
  const ScratchFolder folder;
  write_bytes(folder / "a.xyz", "1.5 -2.25 0.5\n3.5 4.75 5.125\n");
  const ProgramRun plain =
      run_cli({"info", folder.text("a.xyz"), "--json"}, {.environment = {{"LC_ALL", "C"}}});
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_EQ(document(plain)["files"][0]["first"], Json({1.5, -2.25, 0.5}));
  if (!std::filesystem::exists(std::filesystem::path(SPARSECONV_LOCALES) / "de_DE.UTF-8")) {
    GTEST_SKIP() << "no locale with a decimal comma could be made";
  }
  const ProgramOptions comma{
      .environment = {{"LOCPATH", SPARSECONV_LOCALES}, {"LC_ALL", "de_DE.UTF-8"}}};
  EXPECT_EQ(run_cli({"info", folder.text("a.xyz"), "--json"}, comma).out, plain.out);
  EXPECT_EQ(run_cli({"convert", folder.text("a.xyz"), folder.text("b.csv")}, comma).exit_code, 0);
  EXPECT_EQ(read_bytes(folder / "b.csv"), "x,y,z\n1.5,-2.25,0.5\n3.5,4.75,5.125\n");
  EXPECT_EQ(run_cli({"voxelize", folder.text("a.xyz"), "--voxel-size", "0.5", "-o",
                     folder.text("v.h5"), "--json"},
                    comma)
                .exit_code,
            0);
}

}  // namespace
