#include <gtest/gtest.h>

#include "io/io.h"
#include "tests/apps/command_line.hpp"

using namespace command_line;

namespace {

TEST(Convert, KeepsPointsAndFields) {
  const ScratchFolder folder;
  write_scan(folder / "a.bin", spiral(100));
  for (const std::string name : {"a.pcd", "a.ply", "a.npy", "a.xyz"}) {
    const ProgramRun run = run_cli({"convert", folder.text("a.bin"), folder.text(name), "--json"});
    ASSERT_EQ(run.exit_code, 0) << name << run.err;
    EXPECT_EQ(document(run)["files"][0]["points"], 100);
    const io::Cloud before = io::read(folder / "a.bin"), after = io::read(folder / name);
    ASSERT_EQ(after.size(), 100);
    for (const char* field : {"x", "y", "z", "intensity"}) {
      for (std::int64_t i = 0; i < 100; ++i) {
        // Text gives the shortest digits that name the float; they come back as the same float.
        ASSERT_EQ(static_cast<float>(after.get(field).at(i)),
                  static_cast<float>(before.get(field).at(i)))
            << name << " " << field << " " << i;
      }
    }
  }
}

TEST(Convert, SaysWhatTheFormatCannotHold) {
  const ScratchFolder folder;
  write_bytes(folder / "a.csv", "x,y,z,humidity\n1,2,3,0.5\n4,5,6,0.25\n");
  const ProgramRun run = run_cli({"convert", folder.text("a.csv"), folder.text("a.bin"), "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(document(run)["files"][0]["losses"].dump(), "humidity")) << run.out;
  EXPECT_TRUE(contains(run.err, "sparseconv: warning: " + folder.text("a.csv") + ": ")) << run.err;
}

TEST(Convert, AFolderKeepsItsSubFolders) {
  const ScratchFolder folder;
  write_scan(folder / "in" / "a.bin", spiral(3));
  write_scan(folder / "in" / "sub" / "a.bin", spiral(4));
  const ProgramRun run =
      run_cli({"convert", folder.text("in"), folder.text("out"), "--format", "ply"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(io::read(folder / "out" / "a.ply").size(), 3);
  EXPECT_EQ(io::read(folder / "out" / "sub" / "a.ply").size(), 4);
  EXPECT_EQ(run_cli({"convert", folder.text("in"), folder.text("out")}).exit_code,
            2);                                               // which format?
  for (const std::string extension : {"csv", "h5", "bin"}) {  // by extension
    const std::string out = folder.text("out_" + extension);
    const ProgramRun named = run_cli({"convert", folder.text("in"), out, "--format", extension});
    EXPECT_EQ(named.exit_code, 0) << named.err;
    EXPECT_EQ(io::read(out + "/sub/a." + extension).get("intensity").at(3), 0.5) << extension;
  }
  EXPECT_EQ(
      run_cli({"convert", folder.text("in"), folder.text("out"), "--format", "nothing"}).exit_code,
      2);
}

TEST(Convert, NeverOverwritesItsInputAndLeavesNothingAfterAnError) {
  const ScratchFolder folder;
  write_scan(folder / "a.bin", spiral(3));
  const std::string before = read_bytes(folder / "a.bin");
  EXPECT_EQ(run_cli({"convert", folder.text("a.bin"), folder.text("./a.bin")}).exit_code, 2);
  EXPECT_EQ(read_bytes(folder / "a.bin"), before);
  write_bytes(folder / "bad.pcd", "no header at all\n");
  EXPECT_EQ(run_cli({"convert", folder.text("bad.pcd"), folder.text("bad.ply")}).exit_code, 1);
  EXPECT_EQ(run_cli({"convert", folder.text("a.bin"), folder.text("a.unknown")}).exit_code, 1);
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"a.bin", "bad.pcd"}));
}

}  // namespace
