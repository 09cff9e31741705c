// What the compressed points of a LAZ file say about themselves, checked before any decompressor
// sees them: the record "laszip encoded" (how records are cut into items), the chunk table, and the
// layers of every chunk. Source: "LASzip: lossless compression of LiDAR data" (Isenburg 2013) and
// LAZ's specification 1.4.
#pragma once
#include <string>
#include <vector>

#include "io/formats/las_header.hpp"

namespace io {

struct LazItem {
  int type = 0, bytes = 0, version = 0;
};

struct LazLayout {
  int compressor = 0;             // 1 pointwise, 2 chunks, 3 chunks of layers
  std::int64_t chunk_points = 0;  // 2^32 - 1: every chunk says its own
  std::vector<LazItem> items;

  bool has_unequal_chunks() const { return compressor != 1 && chunk_points == 0xffffffff; }
};

// Points that a decoder of their own can start on.
struct LazChunk {
  std::int64_t begin = 0, bytes = 0, points = 0;  // in the file
};

struct LazChunks {
  bool has_table = true;         // false: said to be outside the file, so not there
  std::vector<LazChunk> chunks;  // of layers or unequal: each; otherwise all of them as one
};

// Error: no such record, items that are not those of the point format, a coder or compressor that
// is not known.
LazLayout read_laz_layout(const LasHeader& header);

// Error: more points than the compressed bytes can hold, a chunk table larger than the file, layers
// that pass the end, unequal chunks that do not add up to what the header claims. Takes one read of
// a few bytes a chunk.
LazChunks find_laz_chunks(const Source& source, const LasHeader& header, const LazLayout& layout);

}  // namespace io
