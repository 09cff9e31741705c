// The chunk table of a LAZ file whose chunks differ in size and hold no layers (point formats 0 to
// 5): nowhere else stands where a chunk begins. LASzip reads its own past the end when the table
// claims too little, so it never sees it. Sources: "LASzip: lossless compression of LiDAR data"
// (Isenburg 2013), LAZ specification 1.4; the coder is "Introduction to Arithmetic Coding" (Said
// 2004).
#pragma once
#include <string_view>
#include <vector>

#include "io/formats/laz_layout.hpp"

namespace io {

struct LazChunkSize {
  std::uint32_t points = 0, bytes = 0;
};

// Sizes of `chunks` chunks; `table` is what follows the table's head of 8 bytes. Error: the table
// ends before. O(chunks).
std::vector<LazChunkSize> decode_chunk_sizes(std::string_view table, std::int64_t chunks);

}  // namespace io
