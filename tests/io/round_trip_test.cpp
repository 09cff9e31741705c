// read(write(cloud)) == cloud for every writable format and every field type that it holds, and
// what happens to the bytes on the way when they are cut or flipped. Walks the registry: a new
// format is asked for the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <fstream>

#include "io/fit_columns.hpp"
#include "io/format.hpp"
#include "io/io.h"
#include "tests/io/generated_clouds.hpp"
#include "tests/io/temporary_folder.hpp"

namespace {

using namespace test_support;
using enum base::DType;

#ifdef SPARSECONV_TEST_HDF5
constexpr bool kHasHdf5 = true;
#else
constexpr bool kHasHdf5 = false;
#endif

const std::vector<base::DType> kAllTypes{f32, f64, u8, u16, u32, u64, i8, i16, i32, i64};

struct Flavour {
  std::string format, file;
  std::vector<base::DType> coordinates;
  std::vector<base::DType> types;  // of further fields
  io::WriteOptions options;
  bool keeps_types = true;  // text finds its own types, which hold the same values
  bool holds_non_finite = true;
  std::vector<std::string> fixed_names;  // formats that hold these fields only
};

std::vector<Flavour> flavours() {
  const std::vector<base::DType> floats{f32, f64}, ply{f32, f64, u8, u16, u32, i8, i16, i32};
  return {
      {"pcd", "a.pcd", floats, kAllTypes, {}},
      {"pcd", "ascii.pcd", floats, kAllTypes, {.ascii = true}},
      {"pcd", "lzf.pcd", floats, kAllTypes, {.compressed = true}},
      {"ply", "a.ply", floats, ply, {}},
      {"ply", "ascii.ply", floats, ply, {.ascii = true}},
      {"npy", "a.npy", floats, kAllTypes, {}},
      {"npz", "a.npz", floats, kAllTypes, {}},
      {"npz", "deflated.npz", floats, kAllTypes, {.compressed = true}},
#ifdef SPARSECONV_TEST_HDF5
      {"hdf5", "a.h5", floats, kAllTypes, {}},
      {"hdf5", "gzip.h5", floats, kAllTypes, {.compressed = true}},
#endif
      {"text", "a.csv", {f64}, kAllTypes, {}, false},
      {"text", "a.txt", {f64}, kAllTypes, {}, false},
      {"text", "a.xyz", {f64}, {}, {}, false},
      {"pts", "a.pts", {f64}, {}, {}, false, true, {"intensity"}},
      {"kitti", "a.bin", {f32}, {}, {}, true, true, {"intensity"}},
      {"nuscenes", "a.pcd.bin", {f32}, {}, {}, true, true, {"intensity", "ring"}},
      {"las", "a.las", {f64}, kAllTypes, {}, true, false},
      {"label", "a.label", {f32}, {}, {}, true, true, {"intensity", "label"}},
  };
}

io::Cloud make_cloud(const Flavour& flavour, std::int64_t points, base::DType coordinates,
                     std::uint64_t seed, Values values) {
  io::Cloud cloud = random_cloud(points, coordinates, flavour.types, seed, values);
  std::mt19937_64 random(seed + 1);
  for (const std::string& name : flavour.fixed_names) {
    add_random(cloud, name, name == "label" ? u16 : coordinates, points, random,
               name == "ring" || name == "label" ? Values::ordinary : values);
  }
  if (!flavour.holds_non_finite) {
    // LAS: multiples of the scale, within reach of 32 bits.
    for (const char* axis : {"x", "y", "z"}) {
      auto tensor = base::Tensor::empty({points}, f64);
      for (std::int64_t i = 0; i < points; ++i)
        tensor.data<double>()[i] = static_cast<std::int32_t>(random()) * 0.001 + 5e6;
      cloud.add(io::Field{axis, f64, 1, ""}, tensor);
    }
    cloud.scale = {0.001, 0.001, 0.001};
    cloud.offset = {5e6, 5e6, 5e6};
  }
  return cloud;
}

template <class A, class B>
bool is_same(A a, B b) {
  if (static_cast<double>(a) != static_cast<double>(a))
    return static_cast<double>(b) != static_cast<double>(b);
  if constexpr (std::is_integral_v<A> && std::is_integral_v<B>) return std::cmp_equal(a, b);
  // A float read back as a double is the nearest double to its shortest text: compare in the type
  // that was written.
  else if constexpr (std::is_floating_point_v<A>)
    return a == static_cast<A>(b) && std::signbit(a) == std::signbit(static_cast<double>(b));
  else
    return static_cast<double>(a) == static_cast<double>(b);
}

void expect_same(const io::Cloud& before, const io::Cloud& after, bool keeps_types,
                 const std::string& what) {
  ASSERT_EQ(after.size(), before.size()) << what;
  for (const auto& column : before.columns()) {
    const io::Column* other = after.find(column->field.name);
    ASSERT_NE(other, nullptr) << what << ": " << column->field.name;
    ASSERT_EQ(other->field.count, column->field.count) << what << ": " << column->field.name;
    if (keeps_types) {
      EXPECT_EQ(other->field.type, column->field.type) << what << ": " << column->field.name;
    }
    std::int64_t differences = 0, first = -1;
    io::visit_field_type(column->field.type, [&]<class A>() {
      io::visit_field_type(other->field.type, [&]<class B>() {
        for (std::int64_t i = 0; i < column->values.numel(); ++i) {
          if (is_same(column->values.data<A>()[i], other->values.data<B>()[i])) continue;
          if (differences++ == 0) first = i;
        }
      });
    });
    EXPECT_EQ(differences, 0) << what << ": " << column->field.name << " from element " << first;
  }
}

// What label files need beside them.
void write_companion(const TemporaryFolder& folder, const Flavour& flavour,
                     const io::Cloud& cloud) {
  if (flavour.format == "label") io::write(folder / "a.bin", cloud);
}

class RoundTrip : public testing::TestWithParam<Flavour> {};

TEST_P(RoundTrip, GivesTheSameCloud) {
  const Flavour& flavour = GetParam();
  const TemporaryFolder folder;
  std::uint64_t seed = 1;
  for (const base::DType coordinates : flavour.coordinates) {
    for (const std::int64_t points : {0, 1, 7, 1000, 100000}) {
      for (const Values values : {Values::ordinary, Values::extreme}) {
        const io::Cloud cloud = make_cloud(flavour, points, coordinates, seed++, values);
        write_companion(folder, flavour, cloud);
        io::write(folder / flavour.file, cloud, flavour.options);
        const io::Cloud back = io::read(folder / flavour.file);
        if (points == 0 && flavour.format == "pts")
          continue;  // without rows and names, its columns are unknown
        expect_same(cloud, back, flavour.keeps_types && points > 0,
                    base::concat(flavour.file, " ", points, " points, seed ", seed - 1));
        const bool said = std::any_of(back.warnings.begin(), back.warnings.end(),
                                      [](const auto& line) { return line == "0 points"; });
        EXPECT_EQ(said, points == 0);
      }
    }
  }
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Reads damaged bytes: any cloud or base::Error is right, everything else is a failure of the test
// program.
void read_damaged(const TemporaryFolder& folder, const Flavour& flavour, const std::string& bytes) {
  const auto path = folder / flavour.file;
  try {
    if (flavour.format == "hdf5" || flavour.format == "label") {  // these open files by name
      std::ofstream(path, std::ios::binary) << bytes;
      io::read(path);
    } else {
      io::read_source(io::Source(bytes, path), {.format = flavour.format});
    }
  } catch (const base::Error&) {
  }
}

std::string small_file(const TemporaryFolder& folder, const Flavour& flavour) {
  const io::Cloud cloud = make_cloud(flavour, 6, flavour.coordinates.front(), 5, Values::ordinary);
  write_companion(folder, flavour, cloud);
  io::write(folder / flavour.file, cloud, flavour.options);
  return bytes_of(folder / flavour.file);
}

TEST_P(RoundTrip, SurvivesTruncationAtEveryByte) {
  const TemporaryFolder folder;
  const std::string whole = small_file(folder, GetParam());
  // HDF5 opens files by name, which is slow; its container is cut at every byte in a test of its
  // own.
  const std::size_t step = GetParam().format == "hdf5" ? 61 : 1;
  const std::clock_t begin = std::clock();
  for (std::size_t size = 0; size < whole.size(); size += step)
    read_damaged(folder, GetParam(), whole.substr(0, size));
  EXPECT_LT(std::clock() - begin, 20 * CLOCKS_PER_SEC);
}

TEST_P(RoundTrip, SurvivesFlippedBits) {
  const TemporaryFolder folder;
  const std::string whole = small_file(folder, GetParam());
  std::mt19937_64 random(11);
  // A process of its own reads each HDF5 file (hdf5_process.hpp).
  const int rounds = GetParam().format == "hdf5" ? 500 : 5000;
  for (int round = 0; round < rounds; ++round) {
    std::string bytes = whole;
    for (std::uint64_t flips = 1 + random() % 4; flips > 0; --flips) {
      bytes[random() % bytes.size()] ^= static_cast<char>(1u << (random() % 8));
    }
    read_damaged(folder, GetParam(), bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, RoundTrip, testing::ValuesIn(flavours()),
                         [](const auto& parameter) {
                           std::string name = parameter.param.file;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(Registry, EveryWritableFormatIsTested) {
  const auto all = flavours();
  for (const io::FormatInfo& format : io::formats()) {
    const bool is_tested = std::any_of(
        all.begin(), all.end(), [&](const auto& flavour) { return flavour.format == format.name; });
    EXPECT_TRUE(is_tested || !format.writable || (format.name == "hdf5" && !kHasHdf5))
        << format.name;
  }
}

TEST(Registry, TableInTheDocumentationIsCurrent) {
  const std::string text =
      bytes_of(std::filesystem::path(SPARSECONV_SOURCE_DIR) / "docs/formats.md");
  EXPECT_NE(text.find(io::formats_table()), std::string::npos) << "docs/formats.md should hold:\n"
                                                               << io::formats_table();
}

TEST(Convert, KeepsWhatTheTargetHolds) {
  const TemporaryFolder folder;
  io::Cloud cloud = random_cloud(12, f32, {u8, f64}, 3, Values::ordinary);
  cloud.width = 4;
  cloud.height = 3;
  cloud.viewpoint = {1, 2, 3, 1, 0, 0, 0};
  EXPECT_TRUE(io::write(folder / "a.pcd", cloud).empty());
  const io::Cloud pcd = io::read(folder / "a.pcd");
  EXPECT_EQ(pcd.width, 4);
  EXPECT_EQ(pcd.height, 3);
  EXPECT_EQ(pcd.viewpoint, cloud.viewpoint);
  const auto losses = io::write(folder / "a.bin", pcd);
  EXPECT_EQ(losses, (std::vector<std::string>{
                        "field intensity is missing: written as 0", "field f_uint8 is dropped",
                        "field f_float64 is dropped", "the grid of 4 x 3 points is not kept",
                        "the view point is not kept"}));
}

TEST(Convert, PacksColoursForPcdAndBack) {
  const TemporaryFolder folder;
  io::Cloud cloud = random_cloud(100, f32, {}, 3, Values::ordinary);
  std::mt19937_64 random(4);
  for (const char* name : {"r", "g", "b"})
    add_random(cloud, name, u8, 100, random, Values::extreme);
  for (const io::WriteOptions& options : {io::WriteOptions{}, io::WriteOptions{.ascii = true},
                                          io::WriteOptions{.compressed = true}}) {
    io::write(folder / "a.pcd", cloud, options);
    EXPECT_NE(bytes_of(folder / "a.pcd").find("FIELDS x y z rgb\n"), std::string::npos);
    expect_same(cloud, io::read(folder / "a.pcd"), true, "pcd");
  }
}

// From format to format and back: fields that all of them hold come home unchanged, in any order of
// the chain.
TEST(Convert, ChainsOfFormatsLoseNothingThatAllHold) {
  const TemporaryFolder folder;
  std::vector<Flavour> chain;
  for (const Flavour& flavour : flavours()) {
    // Headerless and survey formats have fields of their own; text comes last, it finds types anew.
    const bool has_any_field =
        flavour.fixed_names.empty() && flavour.format != "las" && flavour.file != "a.xyz";
    if (has_any_field) chain.push_back(flavour);
  }
  std::mt19937_64 random(7);
  for (int round = 0; round < 5; ++round) {
    const io::Cloud cloud =
        random_cloud(101, round % 2 == 0 ? f32 : f64, {f32, f64, u8, u16, u32, i8, i16, i32},
                     static_cast<std::uint64_t>(round), Values::extreme);
    std::shuffle(chain.begin(), chain.end(), random);
    std::stable_partition(chain.begin(), chain.end(),
                          [](const Flavour& one) { return one.format != "text"; });
    io::Cloud carried = cloud;
    std::string way;
    bool keeps_types = true;
    for (const Flavour& flavour : chain) {
      io::write(folder / flavour.file, carried, flavour.options);
      carried = io::read(folder / flavour.file);
      keeps_types = keeps_types && flavour.keeps_types;
      way += " -> " + flavour.file;
      expect_same(cloud, carried, keeps_types, way);
    }
  }
}

TEST(Write, LeavesNothingBehindOnFailure) {
  const TemporaryFolder folder;
  const io::Cloud nothing;
  EXPECT_THROW(io::write(folder / "a.pcd", nothing), base::Error);
  EXPECT_THROW(io::write(folder / "a.unknown", random_cloud(1, f32, {}, 1, Values::ordinary)),
               base::Error);
  EXPECT_THROW(
      io::write(folder / "absent" / "a.pcd", random_cloud(1, f32, {}, 1, Values::ordinary)),
      base::Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  std::filesystem::create_directory(folder / "b.pcd");
  EXPECT_THROW(io::write(folder / "b.pcd", random_cloud(1, f32, {}, 1, Values::ordinary)),
               base::Error);
}

}  // namespace
