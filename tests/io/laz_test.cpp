// Chunks of different sizes: their table, and a file of them. Both were made by laz-rs, which
// shares nothing with the decoders here; `data/unequal_chunks.laz` holds points of format 2 by a
// formula.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "gemm_core/base/error.hpp"
#include "io/formats/laz.hpp"
#include "io/formats/laz_chunk_table.hpp"
#include "io/io.h"
#include "tests/support/error_message.hpp"
#include "tests/support/scratch_folder.hpp"

namespace io {
namespace {

const std::string kData = SPARSECONV_TEST_DATA;

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

constexpr std::int64_t kChunks = 300;
LazChunkSize size_of_chunk(std::uint64_t i) {
  return {static_cast<std::uint32_t>(1 + i * i * 7919 % 97 * (i % 5 == 0 ? 1000003 : 1)),
          static_cast<std::uint32_t>(20 + i * 2654435761 % (std::uint64_t{1} << (1 + i % 31)))};
}

TEST(LazChunkTable, HoldsTheSizesThatWereWritten) {
  const auto sizes = decode_chunk_sizes(bytes_of(kData + "/chunk_table.bin"), kChunks);
  ASSERT_EQ(sizes.size(), kChunks);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(sizes[i].points, size_of_chunk(i).points) << i;
    EXPECT_EQ(sizes[i].bytes, size_of_chunk(i).bytes) << i;
  }
}

TEST(LazChunkTable, EndsWithAnErrorWhereItsBytesEnd) {
  const std::string table = bytes_of(kData + "/chunk_table.bin");
  for (std::size_t bytes = 0; bytes < table.size() - 8; bytes += 7)
    EXPECT_THROW(decode_chunk_sizes(table.substr(0, bytes), kChunks), base::Error) << bytes;
}

TEST(Laz, ReadsChunksOfDifferentSizesInAnOldFormat) {
  if (!kReadsLaz) GTEST_SKIP() << "built without LAZ support";
  const Cloud cloud = read(kData + "/unequal_chunks.laz");
  ASSERT_EQ(cloud.size(), 404);
  EXPECT_TRUE(cloud.warnings.empty());
  for (std::int64_t i = 0; i < 404; ++i) {
    const auto [x, y, z] = cloud.position(i);
    EXPECT_NEAR(x, 10 + 0.001 * static_cast<double>(37 * i), 1e-9) << i;
    EXPECT_NEAR(y, -20 + 0.001 * static_cast<double>(i * i % 65537 - 30000), 1e-9) << i;
    EXPECT_NEAR(z, 3 + 0.001 * static_cast<double>(i % 97), 1e-9) << i;
    EXPECT_EQ(cloud.get("b").at(i), static_cast<double>(5 * i)) << i;
  }
}

// Of one point each, and after them one without points, as laz-rs ends such files.
TEST(Laz, ReadsChunksThatAreSmallerThanARecordWhereTheyAreEmpty) {
  if (!kReadsLaz) GTEST_SKIP() << "built without LAZ support";
  const Cloud cloud = read(kData + "/small_chunks.laz");
  EXPECT_EQ(cloud.size(), 2);
  EXPECT_TRUE(cloud.warnings.empty());
}

// A bit of each byte of the table flipped: an error, or the same points.
TEST(Laz, RefusesTablesOfChunksThatDoNotAddUp) {
  if (!kReadsLaz) GTEST_SKIP() << "built without LAZ support";
  const test_support::ScratchFolder folder;
  const std::string path = folder.text("a.laz"), good = bytes_of(kData + "/unequal_chunks.laz");
  const Cloud right = read(kData + "/unequal_chunks.laz");
  const std::size_t table = 2660;
  int refused = 0;
  for (std::size_t at = table + 4; at < good.size(); ++at) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 4);
    write_bytes(path, bytes);
    const std::string message = test_support::message_of([&] {
      const Cloud got = read(path);
      ASSERT_EQ(got.size(), right.size()) << at;
      for (std::int64_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got.position(i), right.position(i)) << at;
        ASSERT_EQ(got.get("b").at(i), right.get("b").at(i)) << at;
      }
    });
    if (message.empty()) continue;
    ++refused;
    EXPECT_NE(message.find("LAZ"), std::string::npos) << message;
  }
  EXPECT_GT(refused, 20);
}

}  // namespace
}  // namespace io
