#include "io/formats/laz_layout.hpp"

#include <algorithm>
#include <cstring>

#include "gemm_core/base/error.hpp"
#include "io/formats/laz_chunk_table.hpp"

namespace io {
namespace {

constexpr int kByte = 0, kPoint10 = 6, kTime11 = 7, kColour12 = 8, kWave13 = 9, kPoint14 = 10,
              kColour14 = 11, kColourNir14 = 12, kWave14 = 13, kByte14 = 14;
// A chunk of 50,000 equal points takes some 60 bytes; a claim beyond this is no file.
constexpr std::int64_t kMaxPointsPerByte = 1024;
constexpr std::int64_t kCoderEnd = 4;  // bytes of a chunk without points, as some writers end with

template <class T>
T field(std::string_view bytes, std::size_t at) {
  ENSURE(at + sizeof(T) <= bytes.size(), "LAZ: the record 'laszip encoded' ends after ",
         bytes.size(), " bytes");
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

template <class T>
T value_at(const Source& source, std::int64_t offset) {
  T value;
  source.read(offset, &value, sizeof(T));
  return value;
}

// The items that a record of the point format is made of, without versions.
std::vector<LazItem> expected_items(const LasHeader& header) {
  const bool is_new = header.is_new();
  std::vector<LazItem> items{{is_new ? kPoint14 : kPoint10, is_new ? 30 : 20}};
  if (!is_new && header.time_offset() >= 0) items.push_back({kTime11, 8});
  if (header.nir_offset() >= 0) {
    items.push_back({kColourNir14, 8});
  } else if (header.colour_offset() >= 0) {
    items.push_back({is_new ? kColour14 : kColour12, 6});
  }
  if (header.wave_offset() >= 0) items.push_back({is_new ? kWave14 : kWave13, 29});
  const auto extra = static_cast<int>(header.record_bytes - las_record_bytes(header.point_format));
  if (extra > 0) items.push_back({is_new ? kByte14 : kByte, extra});
  return items;
}

// Layers of an item: their sizes stand at the head of a chunk, in this number.
std::int64_t layers_of(const LazItem& item) {
  switch (item.type) {
    case kPoint14:
      return 9;
    case kColourNir14:
      return 2;
    case kByte14:
      return item.bytes;
    default:
      return 1;
  }
}

void check_items(const LazLayout& layout, const LasHeader& header) {
  const std::vector<LazItem> expected = expected_items(header);
  ENSURE(layout.items.size() == expected.size(), "LAZ: ", layout.items.size(),
         " items in a record, point format ", header.point_format, " of ", header.record_bytes,
         " bytes has ", expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const LazItem &claimed = layout.items[i], &right = expected[i];
    ENSURE(claimed.type == right.type && claimed.bytes == right.bytes, "LAZ: item ", i,
           " has type ", claimed.type, " and ", claimed.bytes, " bytes, point format ",
           header.point_format, " has type ", right.type, " and ", right.bytes);
  }
}

// Where the chunk table starts, or -1: the writer was interrupted, or has put it outside the file
// (single chunks can be read without).
std::int64_t chunk_table(const Source& source, const LasHeader& header) {
  auto at = value_at<std::int64_t>(source, header.points_offset);
  if (at == -1) at = value_at<std::int64_t>(source, source.size() - 8);
  return at < header.points_offset + 8 || at > source.size() - 8 ? -1 : at;
}

// Walks from chunk to chunk; `begin` is the first one. The layout of a chunk of layers: a record as
// it is, the number of points, the size of every layer, the layers.
std::vector<LazChunk> chunks_of_layers(const Source& source, const LasHeader& header,
                                       const LazLayout& layout, std::int64_t begin) {
  std::vector<LazChunk> chunks;
  std::int64_t layers = 0;
  for (const LazItem& item : layout.items) layers += layers_of(item);
  const std::int64_t head = header.record_bytes + 4 + 4 * layers;
  std::vector<std::uint32_t> sizes(static_cast<std::size_t>(layers));
  std::int64_t points = 0;
  for (std::int64_t chunk = 0; points < header.points; ++chunk) {
    ENSURE(head <= source.size() - begin, "LAZ: the header claims ", header.points,
           " points, the file ends after ", points, " in chunk ", chunk, " at byte ", begin,
           " (truncated?)");
    const auto count = value_at<std::uint32_t>(source, begin + header.record_bytes);
    source.read(begin + header.record_bytes + 4, sizes.data(), 4 * layers);
    std::int64_t bytes = head;
    for (const std::uint32_t size : sizes) bytes += size;
    ENSURE(bytes <= source.size() - begin, "LAZ: chunk ", chunk, " at byte ", begin, " claims ",
           bytes, " bytes, ", source.size() - begin, " are left");
    ENSURE(count > 0 && (layout.has_unequal_chunks() || count <= layout.chunk_points),
           "LAZ: chunk ", chunk, " at byte ", begin, " claims ", count, " points, a chunk has ",
           layout.chunk_points);
    chunks.push_back({begin, bytes, std::min<std::int64_t>(count, header.points - points)});
    points += count;
    begin += bytes;
  }
  return chunks;
}

// By the table, whose sums must be what the header claims and lie before the table.
std::vector<LazChunk> chunks_of_table(const Source& source, const LasHeader& header,
                                      std::int64_t begin, std::int64_t table) {
  const auto count = static_cast<std::int64_t>(value_at<std::uint32_t>(source, table + 4));
  // Two numbers a chunk, each at most 33 bits and what models that do not fit yet add.
  const std::int64_t bytes = std::min(source.size() - table - 8, 64 + 16 * count);
  std::string coded(static_cast<std::size_t>(bytes), '\0');
  source.read(table + 8, coded.data(), bytes);
  std::vector<LazChunk> chunks;
  std::int64_t points = 0;
  for (const LazChunkSize& size : decode_chunk_sizes(coded, count)) {
    const auto chunk = chunks.size();
    ENSURE(size.bytes <= table - begin, "LAZ: chunk ", chunk, " at byte ", begin, " claims ",
           size.bytes, " bytes, ", table - begin, " are left before the chunk table");
    ENSURE(size.points <= header.points - points, "LAZ: chunk ", chunk, " at byte ", begin,
           " claims ", size.points, " points, the header ", header.points - points,
           " more than those before");
    ENSURE(size.points == 0 || size.bytes >= header.record_bytes, "LAZ: chunk ", chunk, " claims ",
           size.points, " points in ", size.bytes, " bytes");
    if (size.points > 0) chunks.push_back({begin, size.bytes, size.points});
    points += size.points;
    begin += size.bytes;
  }
  ENSURE(points == header.points, "LAZ: the header claims ", header.points,
         " points, the chunk table ", points);
  return chunks;
}

}  // namespace

LazLayout read_laz_layout(const LasHeader& header) {
  const std::string_view record = header.laz_record;
  ENSURE(!record.empty(), "LAZ: the record 'laszip encoded' is missing");
  LazLayout layout;
  layout.compressor = field<std::uint16_t>(record, 0);
  ENSURE(layout.compressor >= 1 && layout.compressor <= 3, "LAZ: compressor ", layout.compressor,
         " is not known");
  const int coder = field<std::uint16_t>(record, 2);
  ENSURE(coder == 0, "LAZ: coder ", coder, " is not known");
  layout.chunk_points = field<std::uint32_t>(record, 12);
  ENSURE(layout.compressor == 1 || layout.chunk_points > 0, "LAZ: chunks of 0 points");
  ENSURE((layout.compressor == 3) == header.is_new(), "LAZ: compressor ", layout.compressor,
         " does not go with point format ", header.point_format);
  const int items = field<std::uint16_t>(record, 32);
  for (int i = 0; i < items; ++i) {
    const std::size_t at = 34 + 6 * static_cast<std::size_t>(i);
    layout.items.push_back({field<std::uint16_t>(record, at), field<std::uint16_t>(record, at + 2),
                            field<std::uint16_t>(record, at + 4)});
  }
  check_items(layout, header);
  return layout;
}

LazChunks find_laz_chunks(const Source& source, const LasHeader& header, const LazLayout& layout) {
  if (header.points == 0) return {};
  const bool has_place = layout.compressor != 1;  // of a chunk table
  const std::int64_t begin = header.points_offset + (has_place ? 8 : 0),
                     bytes = source.size() - begin;
  ENSURE(bytes >= header.record_bytes, "LAZ: the header claims ", header.points, " points, ",
         std::max<std::int64_t>(bytes, 0), " bytes are there from byte ", begin);
  ENSURE(header.points / kMaxPointsPerByte <= bytes, "LAZ: the header claims ", header.points,
         " points, ", bytes, " compressed bytes cannot hold them");
  LazChunks found{.chunks = {{begin, bytes, header.points}}};
  if (!has_place) return found;
  const std::int64_t table = chunk_table(source, header);
  found.has_table = table >= 0;
  ENSURE(found.has_table || !layout.has_unequal_chunks(),
         "LAZ: the chunk table is said to be at byte ",
         value_at<std::int64_t>(source, header.points_offset), ", the file has ", source.size());
  if (found.has_table) {
    const auto chunks = static_cast<std::int64_t>(value_at<std::uint32_t>(source, table + 4)),
               most = bytes / (layout.has_unequal_chunks() ? kCoderEnd : header.record_bytes);
    ENSURE(chunks <= most, "LAZ: the chunk table at byte ", table, " claims ", chunks,
           " chunks, the file has room for ", most);
  }
  if (layout.compressor == 3) {
    found.chunks = chunks_of_layers(source, header, layout, begin);
  } else if (layout.has_unequal_chunks()) {
    found.chunks = chunks_of_table(source, header, begin, table);
  }
  return found;
}

}  // namespace io
