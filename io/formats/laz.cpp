// LAZ: what can be checked is checked here, the rest is LASzip's in a process of its own.
#include "io/formats/laz.hpp"

#include "io/formats/las_points.hpp"
#include "io/formats/laz_decoder.hpp"

#ifdef SPARSECONV_LAZ_PROCESS
#include <sys/mman.h>
#include <unistd.h>

#include <new>

#include "io/hdf5_process.hpp"
#endif

namespace io {
namespace {

#ifdef SPARSECONV_LAZ_PROCESS
// In the process that decodes.
void serve_laz(int file, const hdf5::Channel& channel) {
  std::string reason;
  try {
    const Source source(base::concat("/proc/self/fd/", file));
    const LasHeader header = read_las_header(source);
    const LazLayout layout = read_laz_layout(header);
    const LazChunks found = find_laz_chunks(source, header, layout);
    decode_laz(source, header, layout, found.chunks, [&](const char* records, std::int64_t count) {
      const auto bytes = static_cast<std::size_t>(count * header.record_bytes);
      ENSURE(channel.send(hdf5::Tag::block, {records, bytes}), "LAZ: nobody takes the points");
    });
    channel.send(hdf5::Tag::answer, {});
    return;
  } catch (const std::bad_alloc&) {
    reason = "LAZ: decoding takes more memory than a file of this size explains";
  } catch (const std::exception& error) {
    reason = error.what();
  }
  channel.send(hdf5::Tag::error, reason);
}

// A file that another process can open: the source's own, or a copy of its memory.
class OpenFile {
 public:
  explicit OpenFile(const Source& source) : descriptor_(source.descriptor()) {
    if (source.is_file()) return;
    copy_ = ::memfd_create("laz", MFD_CLOEXEC);
    descriptor_ = copy_;
    std::vector<char> buffer(static_cast<std::size_t>(std::min(kChunkBytes, source.size())));
    for (std::int64_t at = 0; at < source.size();) {
      const std::int64_t bytes = std::min(kChunkBytes, source.size() - at);
      source.read(at, buffer.data(), bytes);
      ENSURE(::pwrite(copy_, buffer.data(), static_cast<std::size_t>(bytes), at) == bytes,
             "LAZ: cannot hand the bytes to another process");
      at += bytes;
    }
  }
  ~OpenFile() {
    if (copy_ >= 0) ::close(copy_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1, copy_ = -1;
};

void decode(const Source& source, const LasHeader& header, const LazLayout&, const LazChunks&,
            LasPoints& points) {
  const auto bytes = static_cast<std::uint64_t>(source.size()),
             decoded = static_cast<std::uint64_t>(header.points * header.record_bytes);
  const OpenFile file(source);
  try {
    hdf5::Process process(
        serve_laz, file.descriptor(),
        {.memory = (32 << 20) + 4 * bytes,
         .seconds = static_cast<unsigned>(2 + (bytes + decoded) / hdf5::kBytesASecond)});
    const auto block = static_cast<std::uint64_t>(laz_block(header) * header.record_bytes);
    std::vector<char> records(block);
    std::int64_t done = 0;
    while (const std::uint64_t given = process.next_block()) {
      const auto count = static_cast<std::int64_t>(given) / header.record_bytes;
      ENSURE(given <= block && given == static_cast<std::uint64_t>(count * header.record_bytes) &&
                 count <= header.points - done,
             "LAZ: the decoding process gives a block of ", given, " bytes, ", header.points - done,
             " points are missing");
      process.receive(records.data(), given);
      points.put(done, records.data(), count);
      done += count;
    }
    ENSURE(done == header.points, "LAZ: ", header.points - done, " of ", header.points,
           " points are missing");
  } catch (const Hdf5Damage& damage) {
    const std::string_view text = damage.what();
    base::fail("LAZ", text.substr(text.find(':')));
  }
}
#else
void decode(const Source& source, const LasHeader& header, const LazLayout& layout,
            const LazChunks& found, LasPoints& points) {
  std::int64_t done = 0;
  decode_laz(source, header, layout, found.chunks, [&](const char* records, std::int64_t count) {
    points.put(done, records, count);
    done += count;
  });
}
#endif

}  // namespace

const bool kReadsLaz = true;

Cloud read_laz(const Source& source, const LasHeader& header) {
  const LazLayout layout = read_laz_layout(header);
  const LazChunks found = find_laz_chunks(source, header, layout);
  LasPoints points(header, header.points);
  if (header.points > 0) decode(source, header, layout, found, points);
  Cloud cloud = points.finish();
  if (!found.has_table)
    cloud.warnings.push_back("LAZ: the chunk table is not in the file; points were read in order");
  return cloud;
}

}  // namespace io
