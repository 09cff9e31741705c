// LAS 1.0 to 1.5, point formats 0 to 10 with extra bytes. LAZ: laz.cpp or no_laz.cpp.
#include <algorithm>

#include "gemm_core/base/parallel.hpp"
#include "io/format.hpp"
#include "io/formats/las_points.hpp"
#include "io/formats/las_writer.hpp"
#include "io/formats/laz.hpp"

namespace io {
namespace {

constexpr std::int64_t kBlocksAThread = 16;  // 4 MiB: smaller files are read by one thread

bool recognise_las(std::string_view head) { return head.starts_with("LASF"); }

Cloud read_las(const Source& source, const ReadOptions&) {
  const LasHeader header = read_las_header(source);
  if (header.is_compressed) return read_laz(source, header);
  LasPoints points(header, header.points);
  const std::int64_t block = std::max<std::int64_t>(kChunkBytes / header.record_bytes, 1);
  const std::int64_t run = block * kBlocksAThread;
  base::parallel_blocks(header.points, run, [&](std::int64_t from, std::int64_t to) {
    std::vector<char> buffer(
        static_cast<std::size_t>(std::min(block, to - from) * header.record_bytes));
    for (std::int64_t begin = from; begin < to; begin += block) {
      const std::int64_t count = std::min(block, to - begin);
      source.read(header.points_offset + begin * header.record_bytes, buffer.data(),
                  count * header.record_bytes);
      points.put(begin, buffer.data(), count);
    }
  });
  return points.finish();
}

}  // namespace

const Format kLasFormat{
    .name = "las",
    .extensions = {".las"},
    .recognises = recognise_las,
    .read = read_las,
    .write = write_las,
    .reading = "256 KiB a thread",
    .notes =
        "1.0 to 1.5, point formats 0 to 10, extra bytes; written as 1.2, or 1.4 where 1.2 cannot "
        "hold the fields; fields that LAS does not know become extra bytes"};
// By extension only: the signature is that of LAS, whose reader passes compressed files on.
const Format kLazFormat{
    .name = "laz",
    .extensions = {".laz"},
    .read = read_las,
    .reading = "4 MiB",
    .is_built_in = kReadsLaz,
    .library = "LASzip",
    .notes = "as LAS; also COPC, whose points are read in the order of the file"};

}  // namespace io
