// LAZ: what can be checked is checked here, the rest is LASzip's in a process of its own.
#include "io/formats/laz.hpp"

#include "io/formats/las_points.hpp"
#include "io/formats/laz_decoder.hpp"

#ifdef SPARSECONV_OWN_PROCESS
#include "io/formats/own_process.hpp"
#endif

namespace io {
namespace {

#ifdef SPARSECONV_OWN_PROCESS
constexpr std::size_t kChunksASecond = 4000;  // half of what starting a decoder takes here

// In the process that decodes.
void serve_laz(int file, const hdf5::Channel& channel) {
  serve_library("LAZ", channel, [&] {
    const Source source(path_of(file));
    const LasHeader header = read_las_header(source);
    const LazLayout layout = read_laz_layout(header);
    const LazChunks found = find_laz_chunks(source, header, layout);
    decode_laz(source, header, layout, found.chunks, [&](const char* records, std::int64_t count) {
      const auto bytes = static_cast<std::size_t>(count * header.record_bytes);
      ENSURE(channel.send(hdf5::Tag::block, {records, bytes}), "LAZ: nobody takes the points");
    });
    channel.send(hdf5::Tag::answer, {});
  });
}

void decode(const Source& source, const LasHeader& header, const LazLayout&, const LazChunks& found,
            LasPoints& points) {
  const auto bytes = static_cast<std::uint64_t>(source.size()),
             decoded = static_cast<std::uint64_t>(header.points * header.record_bytes);
  const HandedFile file(source);
  ask_library("LAZ", [&] {
    hdf5::Process process(
        serve_laz, file.descriptor(),
        {.memory = (32 << 20) + 4 * bytes,
         .seconds = static_cast<unsigned>(2 + (bytes + decoded) / hdf5::kBytesASecond +
                                          found.chunks.size() / kChunksASecond)});
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
  });
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
