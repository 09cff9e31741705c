// What a cloud carries beside its values, through every writable format: it comes back, or the
// writer says that it does not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "gemm_core/base/parallel.hpp"
#include "io/format.hpp"
#include "io/io.h"
#include "tests/io/generated_clouds.hpp"
#include "tests/io/temporary_folder.hpp"

namespace {

using namespace test_support;
using enum base::DType;

struct Flavour {
  std::string file;
  io::WriteOptions options = {};
};

std::vector<Flavour> flavours() {
  return {{"a.pcd"},
          {"ascii.pcd", {.ascii = true}},
          {"lzf.pcd", {.compressed = true}},
          {"a.ply"},
          {"ascii.ply", {.ascii = true}},
          {"a.npy"},
          {"a.npz"},
          {"a.csv"},
          {"a.txt"},
          {"a.xyz"},
          {"a.pts"},
          {"a.bin"},
          {"a.pcd.bin"},
          {"a.las"},
#ifdef SPARSECONV_TEST_HDF5
          {"a.h5"}
#endif
  };
}

bool says(const std::vector<std::string>& losses, const std::string& words) {
  return std::any_of(losses.begin(), losses.end(), [&](const std::string& loss) {
    return loss.find(words) != std::string::npos;
  });
}

std::string list_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "\n  " + line;
  return text;
}

io::Cloud cloud_with_extras() {
  io::Cloud cloud = random_cloud(12, f64, {u8, f32}, 3, Values::ordinary);
  for (const char* axis : {"x", "y", "z"}) {  // multiples of the scale, so that LAS holds them
    std::vector<double> values;
    for (int i = 0; i < 12; ++i) values.push_back(100 + 0.25 * i);
    cloud.add<double>(axis, std::span<const double>(values));
  }
  cloud.add(io::Field{"f_float32", f32, 1, "m/s"}, cloud.get("f_float32").values);
  cloud.width = 4;
  cloud.height = 3;
  cloud.viewpoint = {1, 2, 3, 0.5, 0.5, 0.5, 0.5};
  cloud.scale = {0.25, 0.25, 0.25};
  cloud.offset = {100, 100, 100};
  cloud.metadata = {{"comment", "two\nlines"}, {"operator", "Zoë"}};
  return cloud;
}

const char* const kWkt = "PROJCS[\"ETRS89 / UTM zone 32N\",AUTHORITY[\"EPSG\",\"25832\"]]";
const char* const kCitation = "NAD83 / Oregon Lambert (ft)|";

class KeptByFormats : public testing::TestWithParam<const char*> {};

TEST_P(KeptByFormats, EachThingComesBackOrIsSaidToBeLost) {
  const TemporaryFolder folder;
  io::Cloud cloud = cloud_with_extras();
  cloud.crs = GetParam();
  for (const Flavour& flavour : flavours()) {
    const auto losses = io::write(folder / flavour.file, cloud, flavour.options);
    const io::Cloud back = io::read(folder / flavour.file);
    SCOPED_TRACE(flavour.file + list_of(losses));
    const auto expect = [&](bool is_kept, const std::string& words) {
      EXPECT_NE(is_kept, says(losses, words)) << words << ", is kept: " << is_kept;
    };
    expect(back.width == 4 && back.height == 3, "the grid of 4 x 3");
    expect(back.viewpoint == cloud.viewpoint, "the view point");
    expect(back.scale == cloud.scale && back.offset == cloud.offset, "scale and offset");
    expect(back.crs == cloud.crs, "the coordinate reference system");
    for (const char* key : {"comment", "operator"}) {
      const auto entry = back.metadata.find(key);
      expect(entry != back.metadata.end() && entry->second == cloud.metadata.at(key), key);
    }
    const io::Column* speed = back.find("f_float32");
    const bool is_named = speed != nullptr, has_unit = is_named && speed->field.unit == "m/s";
    expect(has_unit, "the unit of f_float32");
    for (const char* name : {"f_uint8", "f_float32"}) {
      const bool is_said = says(losses, "field " + std::string(name)) ||
                           says(losses, "the names of the columns are not kept");
      EXPECT_NE(back.find(name) != nullptr, is_said) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Crs, KeptByFormats, testing::Values(kWkt, kCitation),
                         [](const auto& parameter) {
                           return std::string(parameter.index == 0 ? "wkt" : "citation");
                         });

TEST(KeptByFormats, CoordinateReferenceSystemsPassThroughLasAsOtherReadersWriteThem) {
  const TemporaryFolder folder;
  io::Cloud cloud = cloud_with_extras();
  for (const bool with_new_point_format : {false, true}) {
    if (with_new_point_format) {  // classes past 31 need point format 6
      cloud.add<std::uint8_t>("class", std::vector<std::uint8_t>(12, 200));
    }
    for (const char* crs : {kWkt, kCitation, ""}) {
      cloud.crs = crs;
      io::write(folder / "a.las", cloud);
      EXPECT_EQ(io::read(folder / "a.las").crs, crs) << with_new_point_format;
    }
  }
  cloud.crs = std::string(70000, '[');  // more than a record holds
  EXPECT_TRUE(says(io::write(folder / "a.las", cloud), "coordinate reference system of 70000"));
  EXPECT_EQ(io::read(folder / "a.las").size(), 12);
}

// Names that headers could trip over. Every value comes back under its name, or under another that
// is said.
TEST(Names, OfAnyCharactersComeBackOrAreSaidToChange) {
  const std::vector<std::string> names{
      "a b",       "a_b",    "a,b",    "a;b",        "a|b",   "it's",    "\"q\"",     "tab\tname",
      "new\nline", "cr\rx",  "_",      "__",         "/",     "a/b",     ".",         "..",
      "点群",      "é",      "X",      "i",          "red",   "comment", "list",      "property",
      "element",   "nan",    "-1",     "1",          "#",     "//",      "%",         "a\\b",
      "a'b\\",     "points", "DATA",   "end_header", " lead", "trail ",  "scalar_x",  "extra_bytes",
      "0",         "'x'",    "[N, 3]", "{}",         "a:b",   "COUNT",   "intensity", "time"};
  const TemporaryFolder folder;
  for (std::size_t begin = 0; begin < names.size(); begin += 6) {
    io::Cloud cloud = random_cloud(5, f64, {}, 1, Values::ordinary);
    const std::size_t end = std::min(begin + 6, names.size());
    for (std::size_t n = begin; n < end; ++n) {
      std::vector<double> values;
      for (int i = 0; i < 5; ++i) values.push_back(1000.5 + 10 * static_cast<double>(n) + i);
      cloud.add<double>(names[n], std::span<const double>(values));
    }
    for (const Flavour& flavour : flavours()) {
      if (flavour.file == "a.xyz" || flavour.file == "a.pts" || flavour.file.ends_with(".bin"))
        continue;  // no names
      const auto losses = io::write(folder / flavour.file, cloud, flavour.options);
      SCOPED_TRACE(flavour.file + list_of(losses));
      const io::Cloud back = io::read(folder / flavour.file);
      if (flavour.file == "a.las") {  // has fields of its own
        EXPECT_GT(back.columns().size(), cloud.columns().size());
      } else {
        EXPECT_EQ(back.columns().size(), cloud.columns().size());
      }
      for (std::size_t n = begin; n < end; ++n) {
        const double first = 1000.5 + 10 * static_cast<double>(n);
        const auto same_values =
            std::find_if(back.columns().begin(), back.columns().end(),
                         [&](const auto& column) { return column->at(0) == first; });
        ASSERT_NE(same_values, back.columns().end()) << "the values of " << names[n] << " are gone";
        const bool is_same = (*same_values)->field.name == names[n];
        EXPECT_TRUE(is_same || !losses.empty())
            << names[n] << " became " << (*same_values)->field.name;
      }
    }
  }
}

// Fields of several elements a point, and text of two encodings, in the formats that hold them.
TEST(Counts, OfSeveralElementsComeBack) {
  const TemporaryFolder folder;
  for (const std::int64_t count : {2, 3, 33}) {
    std::mt19937_64 random(5);
    io::Cloud cloud = random_cloud(101, f32, {u8}, 9, Values::ordinary);
    for (const base::DType type : {f32, f64, u8, u16, u32, u64, i8, i16, i32, i64})
      add_random(cloud, "m_" + std::string(base::name(type)), type, 101, random, Values::extreme,
                 count);
    for (const Flavour& flavour : flavours()) {
      const bool holds = flavour.file.ends_with(".pcd") || flavour.file.starts_with("a.np") ||
                         flavour.file.ends_with(".h5");
      if (!holds) continue;
      EXPECT_TRUE(io::write(folder / flavour.file, cloud, flavour.options).empty());
      const io::Cloud back = io::read(folder / flavour.file);
      for (const auto& column : cloud.columns()) {
        const io::Column& other = back.get(column->field.name);
        ASSERT_EQ(other.field.count, column->field.count) << flavour.file << column->field.name;
        ASSERT_EQ(other.field.type, column->field.type) << flavour.file << column->field.name;
        const bool is_text = flavour.options.ascii;  // a NaN has no bits there
        if (is_text && base::is_float(column->field.type)) continue;
        EXPECT_EQ(std::memcmp(other.values.data(), column->values.data(),
                              static_cast<std::size_t>(column->values.nbytes())),
                  0)
            << flavour.file << " " << column->field.name;
      }
    }
  }
}

// Files beyond 4 MiB are read by several threads, each a range of points.
TEST(Las, ReadsLargeFilesInOrder) {
  constexpr std::int64_t kPoints = 500'003;
  std::vector<double> x, bad;
  std::vector<std::uint16_t> intensity;
  for (std::int64_t i = 0; i < kPoints; ++i) {
    x.push_back(0.25 * static_cast<double>(i));
    intensity.push_back(static_cast<std::uint16_t>(i * 40503 % 65536));
    bad.push_back(i % 1000 == 7 ? std::nan("") : 1.5);
  }
  io::Cloud cloud;
  for (const char* axis : {"x", "y", "z"}) cloud.add<double>(axis, x);
  cloud.add<std::uint16_t>("intensity", intensity);
  cloud.add<double>("bad", bad);
  cloud.scale = {{0.25, 0.25, 0.25}};
  cloud.offset = {{0, 0, 0}};
  const TemporaryFolder folder;
  io::write(folder / "large.las", cloud);
  for (const int threads : {1, 3}) {
    io::Cloud read;
    base::Threads(threads).run([&] { read = io::read(folder / "large.las"); });
    ASSERT_EQ(read.size(), kPoints);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < kPoints; ++i) {
      const auto at = static_cast<std::size_t>(i);
      wrong += read.get("x").at(i) != x[at] || read.get("intensity").at(i) != intensity[at];
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_TRUE(says(read.warnings, "bad 500")) << list_of(read.warnings);
  }
}

// LAS describes two and three elements of any type, and bytes of any number; its header has room
// for two texts.
TEST(Las, KeepsElementsTextsAndTheUnitOfAngles) {
  const TemporaryFolder folder;
  std::mt19937_64 random(5);
  io::Cloud cloud = cloud_with_extras();
  cloud = [&] {
    io::Cloud plain(12);
    for (const char* axis : {"x", "y", "z"})
      plain.add(cloud.get(axis).field, cloud.get(axis).values);
    return plain;
  }();
  add_random(cloud, "pair", i16, 12, random, Values::extreme, 2);
  add_random(cloud, "three", f64, 12, random, Values::extreme, 3);
  add_random(cloud, "bytes", u8, 12, random, Values::extreme, 33);
  add_random(cloud, "scan_angle", i8, 12, random, Values::extreme);
  cloud.add(io::Field{"scan_angle", i8, 1, "degree"}, cloud.get("scan_angle").values);
  cloud.metadata = {{"system", "a scanner"}, {"software", "of the year 2031, 32 bytes long."}};
  EXPECT_EQ(io::write(folder / "a.las", cloud), std::vector<std::string>{});
  const io::Cloud back = io::read(folder / "a.las");
  EXPECT_EQ(back.metadata.at("system"), "a scanner");
  EXPECT_EQ(back.metadata.at("software"), "of the year 2031, 32 bytes long.");
  EXPECT_EQ(back.get("scan_angle").field.unit, "degree");
  for (const char* name : {"pair", "three", "bytes"}) {
    const io::Column &before = cloud.get(name), &after = back.get(name);
    ASSERT_EQ(after.field.type, before.field.type) << name;
    ASSERT_EQ(after.field.count, before.field.count) << name;
    EXPECT_EQ(std::memcmp(after.values.data(), before.values.data(),
                          static_cast<std::size_t>(before.values.nbytes())),
              0)
        << name;
  }
  add_random(cloud, "four", f32, 12, random, Values::ordinary, 4);
  EXPECT_TRUE(says(io::write(folder / "a.las", cloud), "field four: its 4 elements"));
  EXPECT_NE(io::read(folder / "a.las").find("four_3"), nullptr);
}

// Whole numbers take the bytes that the largest so far needs: what a late row changes must not
// change the rows before it.
TEST(TextColumns, KeepWhatTheyHoldWhenALateRowNeedsMoreRoom) {
  const TemporaryFolder folder;
  const struct {
    const char *early, *late;
    base::DType type;
  } kCases[] = {{"255", "256", i32},       {"65535", "65536", i32},
                {"200", "-1", i32},        {"2147483647", "2147483648", i64},
                {"7", "-2147483649", i64}, {"3", "18446744073709551615", u64},
                {"300", "0.5", f64},       {"18446744073709551615", "-1", f64}};
  for (const auto& one : kCases) {
    std::ofstream out(folder / "a.csv");
    out << "x,y,z,q\n";
    for (int i = 0; i < 100; ++i) out << i << ",0,0," << one.early << '\n';
    out << "1,2,3," << one.late << '\n';
    out.close();
    const io::Cloud cloud = io::read(folder / "a.csv");
    const io::Column& column = cloud.get("q");
    EXPECT_EQ(column.field.type, one.type) << one.late;
    for (int i = 0; i < 100; ++i) ASSERT_EQ(column.at(i), std::stod(one.early)) << one.late;
    EXPECT_EQ(column.at(100), std::stod(one.late));
  }
}

TEST(TextColumns, OfColoursTakeTheBytesOfTheLargest) {
  const TemporaryFolder folder;
  for (const auto& [largest, type] : {std::pair{"255", u8}, {"256", u16}, {"65536", i32}}) {
    std::ofstream(folder / "a.csv") << "x,y,z,r,g,b\n1,2,3,0,7," << largest << "\n4,5,6,1,2,9\n";
    const io::Cloud cloud = io::read(folder / "a.csv");
    EXPECT_EQ(cloud.get("r").field.type, u8);
    EXPECT_EQ(cloud.get("b").field.type, type) << largest;
    EXPECT_EQ(cloud.get("b").at(0), std::stod(largest));
    EXPECT_EQ(cloud.get("b").at(1), 9);
  }
}

}  // namespace
