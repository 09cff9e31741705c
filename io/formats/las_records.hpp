// Parts of a LAS file that the writer puts together: blocks of fixed places, variable length
// records.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "io/cloud.hpp"

namespace io {

// Bytes at fixed places.
class LasBlock {
 public:
  explicit LasBlock(std::size_t bytes) : bytes_(bytes, '\0') {}
  template <class T>
  void put(std::size_t at, T value) {
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
  }
  void put_text(std::size_t at, std::size_t size, std::string_view text) {
    std::memcpy(bytes_.data() + at, text.data(), std::min(size, text.size()));
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// The head of a variable length record with `bytes` bytes after it.
std::string las_record_head(const char* user, int id, std::size_t bytes);

bool is_wkt(const std::string& crs);
// Text that is no WKT, as GeoTIFF keys do: a directory of one key, the citation, and the text that
// it points to.
std::string las_citation_records(const std::string& crs);

// Whether extra bytes hold all elements of a field: of bytes as many as the entry's options can say
// (code 0), of other types two or three (codes from 11 and 21).
bool las_holds_elements(const Field& field);
std::uint8_t las_extra_code(const Field& field);

}  // namespace io
