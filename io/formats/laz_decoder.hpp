// LASzip's work: compressed points become records as LAS stores them.
#pragma once
#include <algorithm>
#include <functional>
#include <vector>

#include "io/formats/laz_layout.hpp"

namespace io {

// Points that are decoded before they are given away.
inline std::int64_t laz_block(const LasHeader& header) {
  return std::min(header.points, std::max<std::int64_t>(kChunkBytes / header.record_bytes, 1));
}

using TakeRecords = std::function<void(const char* records, std::int64_t count)>;

// Gives all points in file order, at most laz_block() at once. Error where LASzip refuses a point.
// On damaged bytes the library may crash, or call itself until the stack ends.
void decode_laz(const Source& source, const LasHeader& header, const LazLayout& layout,
                const std::vector<LazChunk>& chunks, const TakeRecords& take);

}  // namespace io
