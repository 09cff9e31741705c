// Names that are no ordinary files, and claims that no file can keep.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <clocale>
#include <fstream>

#include "io/io.h"
#include "tests/io/generated_clouds.hpp"
#include "tests/io/temporary_folder.hpp"
#include "tests/support/file_permissions.hpp"

namespace {

using test_support::TemporaryFolder;

std::string message_of(const std::filesystem::path& path) {
  try {
    io::read(path);
  } catch (const base::Error& error) {
    return error.what();
  }
  return "read";
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(HostilePaths, AreNamedForWhatTheyAre) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "folder.pcd");
  EXPECT_EQ(message_of(folder / "folder.pcd"), "not a regular file but a folder");
  ASSERT_EQ(::mkfifo((folder / "fifo.bin").c_str(), 0600), 0);
  EXPECT_EQ(message_of(folder / "fifo.bin"), "not a regular file but a FIFO");
  std::filesystem::create_symlink(folder / "b.ply", folder / "a.ply");
  std::filesystem::create_symlink(folder / "a.ply", folder / "b.ply");
  EXPECT_EQ(message_of(folder / "a.ply"), "cannot open: Too many levels of symbolic links");
  EXPECT_EQ(message_of(folder / "absent.ply"), "cannot open: No such file or directory");
  EXPECT_EQ(message_of("/dev/null"), "not a regular file but a device");
}

TEST(HostilePaths, WithoutPermissionAreAnErrorInEveryFormat) {
  const TemporaryFolder folder;
  for (const char* name : {"a.bin", "a.pcd.bin", "a.xyz", "a.pts", "a.ptx", "a.pcd", "a.ply",
                           "a.las", "a.laz", "a.npy", "a.npz", "a.h5", "a.e57", "a"}) {
    write_file(folder / name, std::string(16, '\0'));
    std::filesystem::permissions(folder / name, std::filesystem::perms::none);
    const test_support::ObeyFilePermissions obey;
    EXPECT_EQ(message_of(folder / name), "cannot open: Permission denied") << name;
  }
}

TEST(HostilePaths, WhereNothingMayBeWrittenAreAnErrorInEveryFormat) {
  const TemporaryFolder folder;
  write_file(folder / "a.xyz", "1 2 3 4\n");
  const io::Cloud cloud = io::read(folder / "a.xyz");
  std::filesystem::create_directory(folder / "closed");
  std::filesystem::permissions(
      folder / "closed", std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const test_support::ObeyFilePermissions obey;
  int refused = 0;
  for (const io::FormatInfo& format : io::formats()) {
    if (!format.writable) continue;
    const auto path = folder / "closed" / ("a" + format.extensions.front());
    try {
      io::write(path, cloud, {.format = format.name});
      ADD_FAILURE() << path << " was written";
    } catch (const base::Error& error) {
      EXPECT_NE(std::string(error.what()).find("Permission denied"), std::string::npos)
          << error.what();
      ++refused;
    }
  }
  EXPECT_GE(refused, 8);
  EXPECT_TRUE(std::filesystem::is_empty(folder / "closed"));
}

TEST(HostilePaths, MayHoldAnyCharacters) {
  const TemporaryFolder folder;
  for (const char* name :
       {"with space.xyz", "quote\"s'.xyz", "点群_äß.xyz", "new\nline.xyz", "-dash.XYZ"}) {
    write_file(folder / name, "1 2 3\n");
    EXPECT_EQ(io::read(folder / name).size(), 1) << name;
  }
}

TEST(Detection, ContentComesBeforeTheExtension) {
  const TemporaryFolder folder;
  write_file(folder / "a.bin",
             "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float "
             "y\nproperty float z\nend_header\n1 2 3\n");
  EXPECT_EQ(io::read(folder / "a.bin").format, "ply");
  write_file(folder / "noextension", "1 2 3\n4 5 6\n");
  EXPECT_EQ(io::read(folder / "noextension").format, "text");
  write_file(folder / "b.dat", std::string("\0\1\2", 3));
  EXPECT_NE(message_of(folder / "b.dat").find("unknown format"), std::string::npos);
}

TEST(ZeroBytes, AreZeroPointsWhereThereIsNoHeader) {
  const TemporaryFolder folder;
  for (const char* name : {"a.bin", "a.pcd.bin", "a.xyz", "a.csv", "a.txt", "a.pts"}) {
    write_file(folder / name, "");
    const io::Cloud cloud = io::read(folder / name);
    EXPECT_EQ(cloud.size(), 0) << name;
    EXPECT_EQ(cloud.warnings, std::vector<std::string>{"0 points"}) << name;
  }
  for (const char* name : {"a.pcd", "a.ply", "a.las", "a.npy", "a.npz", "a.h5", "a.e57", "a.ptx"}) {
    write_file(folder / name, "");
    EXPECT_NE(message_of(folder / name).find("0 bytes"), std::string::npos) << name;
  }
}

TEST(NonFinite, ValuesAreCountedAndNamedForEveryField) {
  const TemporaryFolder folder;
  write_file(folder / "a.csv",
             "x,y,z,intensity,ring\n1,2,3,nan,1\nnan,1,2,0.5,2\n1,1,-inf,0.25,inf\n4,5,6,7,8\n");
  EXPECT_EQ(io::read(folder / "a.csv").warnings,
            std::vector<std::string>{"non-finite values: x 1, z 1, intensity 1, ring 1; 2 of 4 "
                                     "points have a non-finite coordinate"});
}

// x y z of doubles, or with swapped bytes, or another record size, under the name of a scan.
TEST(ImplausibleLayout, IsSaid) {
  const TemporaryFolder folder;
  std::mt19937_64 random(1);
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random() % 1000003) / 1000003;
  };
  const auto doubts = [&](const std::string& name, const std::string& bytes) {
    write_file(folder / name, bytes);
    for (const auto& line : io::read(folder / name).warnings) {
      if (line.starts_with("implausible layout: ")) return true;
    }
    return false;
  };
  const auto append = [](std::string& out, auto value, bool swapped = false) {
    std::string bytes(reinterpret_cast<const char*>(&value), sizeof(value));
    if (swapped) std::reverse(bytes.begin(), bytes.end());
    out += bytes;
  };
  for (const int points : {8, 40, 400}) {
    for (const double step :
         {0.0, 0.25}) {  // 0.25: values of few digits, whose low halves as doubles are 0
      const auto value = [&](double low, double high) {
        const double v = uniform(low, high);
        return step > 0 ? std::round(v / step) * step : v;
      };
      std::string floats, swapped, doubles, five, six, ring;
      for (int i = 0; i < points; ++i) {
        const double p[] = {value(-50, 50), value(-50, 50), value(-2, 2), value(0, 1)};
        for (const double v : p) {
          append(floats, static_cast<float>(v));
          append(swapped, static_cast<float>(v), true);
          append(doubles, v);
          append(five, static_cast<float>(v));
          append(six, static_cast<float>(v));
          append(ring, static_cast<float>(v));
        }
        append(five, static_cast<float>(random() % 32));
        append(ring, 0.37f);
        append(six, static_cast<float>(random() % 32));
        append(six, static_cast<float>(1e4 + i));
      }
      SCOPED_TRACE(testing::Message() << points << " points, step " << step);
      EXPECT_FALSE(doubts("good.bin", floats));
      EXPECT_FALSE(doubts("good.pcd.bin", five));
      EXPECT_TRUE(doubts("swapped.bin", swapped));
      EXPECT_TRUE(doubts("doubles.bin", doubles));
      EXPECT_TRUE(doubts("ring.pcd.bin", ring));
      if (points == 8) continue;  // too few to tell record sizes apart
      EXPECT_TRUE(doubts("five_as_four.bin", five));
      EXPECT_TRUE(doubts("six_as_four.bin", six));
      EXPECT_TRUE(doubts("four_as_five.pcd.bin", floats));
    }
  }
}

std::int64_t peak_kilobytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST(EnormousClaims, TakeNoMemory) {
  const TemporaryFolder folder;
  const std::string xyz = "property double x\nproperty double y\nproperty double z\n";
  write_file(folder / "a.ply",
             "ply\nformat binary_little_endian 1.0\nelement vertex 9223372036854775807\n" + xyz +
                 "end_header\n");
  write_file(folder / "b.ply", "ply\nformat ascii 1.0\nelement vertex 4611686018427387905\n" + xyz +
                                   "end_header\n1 2 3\n");
  write_file(folder / "c.ply",
             "ply\nformat binary_little_endian 1.0\nelement face 2\nproperty list uint64 double "
             "v\nelement vertex 1\n" +
                 xyz + "end_header\n\xff\xff\xff\xff\xff\xff\xff\xff");
  const std::string pcd = "FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\n";
  for (const char* data : {"ascii", "binary", "binary_compressed"}) {
    write_file(folder / (std::string(data) + ".pcd"),
               pcd + "COUNT 1 1 1\nWIDTH 4294967296\nHEIGHT 4294967296\nPOINTS 0\nDATA " + data +
                   "\n123456789");
    write_file(folder / (std::string(data) + "2.pcd"),
               pcd + "COUNT 1 1 1\nWIDTH 1000000000000\nHEIGHT 1\nPOINTS 1000000000000\nDATA " +
                   data + "\n123456789");
  }
  write_file(folder / "count.pcd",
             "FIELDS x y z f\nSIZE 4 4 4 8\nTYPE F F F F\nCOUNT 1 1 1 2305843009213693952\nWIDTH "
             "1\nHEIGHT 1\nPOINTS 1\nDATA binary\n123");
  const auto npy = [](const std::string& shape, const std::string& descr = "'<f4'") {
    const std::string text =
        "{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + "}";
    return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(text.size()) + '\0' + text;
  };
  write_file(folder / "a.npy", npy("(4611686018427387904, 4)"));
  write_file(folder / "b.npy", npy("(2, 4611686018427387904, 4)"));
  write_file(folder / "c.npy", npy("(1000000000, 16)"));
  write_file(folder / "d.npy",
             npy("(1,)", "[('x','<f4'),('y','<f4'),('z','<f4'),('s','S4000000000')]"));
  write_file(folder / "a.pts", "9000000000000000000\n1 2 3\n");
  write_file(folder / "a.ptx",
             "4000000000\n4000000000\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n1 0 0 0\n0 1 0 0\n0 0 1 0\n0 0 0 "
             "1\n1 2 3\n");
  const std::int64_t before = peak_kilobytes();
  int refused = 0, files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    ++files;
    const std::string message = message_of(entry.path());
    EXPECT_NE(message, "read") << entry.path();
    refused += message != "read";
  }
  EXPECT_EQ(refused, files);
  EXPECT_LT(peak_kilobytes() - before, 16 * 1024);
}

TEST(Text, NegativeCountsAndPosesThatAreNotFiniteAreRefused) {
  const TemporaryFolder folder;
  write_file(folder / "a.pts", "-1\n1 2 3\n");
  EXPECT_EQ(message_of(folder / "a.pts"), "line 1 claims -1 points");
  const std::string pose = "1\n1\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n1 0 0 0\n0 1 0 0\n0 0 1 0\n";
  write_file(folder / "a.ptx", pose + "nan 0 0 1\n1 2 3 0.5\n");
  EXPECT_EQ(message_of(folder / "a.ptx"), "line 10: 'nan' in the transformation is not finite");
  write_file(folder / "b.ptx", pose + "7 0 0 1\n1 2 3 0.5\n");
  EXPECT_EQ(io::read(folder / "b.ptx").get("x").at(0), 8);
}

TEST(Pcd, AViewPointThatIsNoneIsSaid) {
  const TemporaryFolder folder;
  const auto warnings = [&](const std::string& viewpoint) {
    write_file(folder / "a.pcd",
               "FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nWIDTH 1\nHEIGHT 1\n" +
                   viewpoint + "POINTS 1\nDATA ascii\n1 2 3\n");
    return io::read(folder / "a.pcd").warnings.size();
  };
  EXPECT_EQ(warnings(""), 0u);
  EXPECT_EQ(warnings("VIEWPOINT 0 0 0 1 0 0 0\n"), 0u);
  for (const char* odd :
       {"VIEWPOINT 0 0 0 1 0 0\n", "VIEWPOINT 0 0 nan 1 0 0 0\n", "VIEWPOINT a b c d e f g\n"})
    EXPECT_EQ(warnings(odd), 1u) << odd;
}

TEST(Locale, ChangesNothing) {
  const TemporaryFolder folder;
  ::setenv("LOCPATH", SPARSECONV_LOCALES, 1);
  const bool has_comma_locale = std::setlocale(LC_ALL, "de_DE.UTF-8") != nullptr;
  if (has_comma_locale) {
    ASSERT_STREQ(std::localeconv()->decimal_point, ",");
  }
  write_file(folder / "a.xyz", "1.5 -2.25 0.5 7.125\n");
  const io::Cloud cloud = io::read(folder / "a.xyz");
  io::write(folder / "b.csv", cloud);
  std::ifstream in(folder / "b.csv");
  const std::string text(std::istreambuf_iterator<char>(in), {});
  std::setlocale(LC_ALL, "C");
  ::unsetenv("LOCPATH");
  EXPECT_EQ(cloud.get("intensity").at(0), 7.125);
  EXPECT_EQ(text, "x,y,z,intensity\n1.5,-2.25,0.5,7.125\n");
  if (!has_comma_locale) GTEST_SKIP() << "no locale with a decimal comma could be made";
}

TEST(Text, TakesEveryKindOfLineEnd) {
  const TemporaryFolder folder;
  for (const char* end : {"\n", "\r\n", "\r"}) {
    for (const char* mark : {"", "\xEF\xBB\xBF"}) {
      const std::string e = end;
      write_file(folder / "a.txt",
                 mark + ("x y z i" + e) + "1 2 3 4" + e + e + "# words" + e + "5 6 7 8");
      const io::Cloud cloud = io::read(folder / "a.txt");
      ASSERT_EQ(cloud.size(), 2);
      EXPECT_EQ(cloud.get("intensity").at(1), 8);
      write_file(folder / "a.ply", mark[0]
                                       ? ""
                                       : "ply" + e + "format ascii 1.0" + e + "element vertex 1" +
                                             e + "property float x" + e + "property float y" + e +
                                             "property float z" + e + "end_header" + e + "1 2 3");
      if (!mark[0]) {
        EXPECT_EQ(io::read(folder / "a.ply").get("z").at(0), 3);
      }
      write_file(folder / "a.pcd", mark + ("VERSION .7" + e) + "FIELDS x y z" + e + "SIZE 4 4 4" +
                                       e + "TYPE F F F" + e + "COUNT 1 1 1" + e + "WIDTH 1" + e +
                                       "HEIGHT 1" + e + "POINTS 1" + e + "DATA ascii" + e +
                                       "1 2 3");
      EXPECT_EQ(io::read(folder / "a.pcd").get("z").at(0), 3);
    }
  }
}

}  // namespace
