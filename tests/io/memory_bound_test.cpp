// Reading takes the cloud and at most 64 MiB beside it, whatever the format: no reader holds its
// file, too.
#include <gtest/gtest.h>
#include <malloc.h>

#include <fstream>

#include "gemm_core/base/sanitizers.hpp"
#include "io/format.hpp"
#include "io/io.h"
#include "tests/io/temporary_folder.hpp"

namespace {

constexpr std::int64_t kAllowed = 64 << 20;

std::int64_t status_bytes(const std::string& key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  }
  return -1;
}

// From here on VmHWM is the peak since this call. False where the kernel does not let us.
bool reset_peak() {
  ::malloc_trim(0);
  std::ofstream out("/proc/self/clear_refs");
  out << "5" << std::flush;
  return out.good() && status_bytes("VmHWM") > 0;
}

std::int64_t bytes_of(const io::Cloud& cloud) {
  std::int64_t bytes = 0;
  for (const auto& column : cloud.columns()) bytes += column->values.nbytes();
  return bytes;
}

// Values with as many digits as floats have, so that text is as long as it gets.
io::Cloud long_cloud(std::int64_t points) {
  io::Cloud cloud(points);
  std::uint32_t state = 1;
  for (const char* name : {"x", "y", "z", "intensity"}) {
    auto values = base::Tensor::empty({points}, base::DType::f32);
    for (std::int64_t i = 0; i < points; ++i) {
      state = state * 1664525u + 1013904223u;
      values.data<float>()[i] = static_cast<float>(state >> 8) * 5.9604645e-6f;
    }
    cloud.add(io::Field{name, base::DType::f32, 1, ""}, std::move(values));
  }
  return cloud;
}

struct Case {
  std::string file;
  std::int64_t points;
  io::WriteOptions options = {};
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.file; }

std::vector<Case> cases() {
  // Clouds and files of 64 MiB and more: held twice, each would pass the bound.
  return {{"a.bin", 6000000},
          {"a.pcd", 6000000},
          {"lzf.pcd", 6000000, {.compressed = true}},
          {"ascii.pcd", 2500000, {.ascii = true}},
          {"a.ply", 6000000},
          {"ascii.ply", 2500000, {.ascii = true}},
          {"a.las", 4000000},
          {"a.npy", 6000000},
          {"a.npz", 6000000},
          {"deflated.npz", 6000000, {.compressed = true}},
#ifdef SPARSECONV_TEST_HDF5
          {"a.h5", 6000000},
          {"gzip.h5", 6000000, {.compressed = true}},
#endif
          {"a.csv", 2500000},
          {"a.pts", 2500000}};
}

class MemoryBound : public testing::TestWithParam<Case> {};

TEST_P(MemoryBound, IsTheCloudAndALittle) {
  const Case& one = GetParam();
  const test_support::TemporaryFolder folder;
  io::write(folder / one.file, long_cloud(one.points), one.options);
  if (!reset_peak()) GTEST_SKIP() << "the kernel does not reset VmHWM";
  const std::int64_t before = status_bytes("VmRSS");
  const io::Cloud cloud = io::read(folder / one.file);
  const std::int64_t taken = status_bytes("VmHWM") - before;
  EXPECT_EQ(cloud.size(), one.points);
  const auto file_bytes = static_cast<std::int64_t>(std::filesystem::file_size(folder / one.file));
  if (base::kIsSanitized) return;  // which keeps what was given back, and shadows what is held
  ASSERT_GT(std::max(file_bytes, bytes_of(cloud)), kAllowed) << "a second copy would go unnoticed";
  EXPECT_LE(taken, bytes_of(cloud) + kAllowed)
      << "cloud " << (bytes_of(cloud) >> 20) << " MiB, peak " << (taken >> 20);
  EXPECT_GE(taken, bytes_of(cloud) / 2) << "the peak was not measured";
}

// [N, 4] of float16, which becomes float32: all narrow columns beside all wide ones would be too
// much.
TEST(MemoryBound, HoldsWhereHalvesAreWidened) {
  constexpr std::int64_t kPoints = 10'000'000;
  const test_support::TemporaryFolder folder;
  {
    std::string text = "{'descr': '<f2', 'fortran_order': False, 'shape': (10000000, 4), }";
    text.append((64 - (10 + text.size() + 1) % 64) % 64, ' ');
    text += '\n';
    std::ofstream out(folder / "a.npy", std::ios::binary);
    out << "\x93NUMPY" << '\1' << '\0' << static_cast<char>(text.size()) << '\0' << text;
    std::string rows;
    for (int i = 0; i < 4000; ++i) rows += std::string("\x00\x3c", 2);  // 1.0
    for (std::int64_t i = 0; i < 4 * kPoints / 4000; ++i) out << rows;
  }
  if (!reset_peak()) GTEST_SKIP() << "the kernel does not reset VmHWM";
  const std::int64_t before = status_bytes("VmRSS");
  const io::Cloud cloud = io::read(folder / "a.npy");
  const std::int64_t taken = status_bytes("VmHWM") - before;
  ASSERT_EQ(cloud.size(), kPoints);
  EXPECT_EQ(cloud.get("intensity").at(kPoints - 1), 1);
  if (base::kIsSanitized) return;  // as above
  EXPECT_LE(taken, bytes_of(cloud) + kAllowed)
      << "cloud " << (bytes_of(cloud) >> 20) << " MiB, peak " << (taken >> 20);
}

INSTANTIATE_TEST_SUITE_P(Formats, MemoryBound, testing::ValuesIn(cases()),
                         [](const auto& parameter) {
                           std::string name = parameter.param.file;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
