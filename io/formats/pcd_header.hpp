// The header of a PCD file (PCL): what it claims, checked as far as it can be without the data.
#pragma once
#include <array>
#include <optional>

#include "io/records.hpp"

namespace io {

struct PcdHeader {
  enum class Data { ascii, binary, binary_compressed } data = Data::ascii;
  std::vector<std::string> raw_names;
  RecordLayout layout;  // names as in the file; padding is skipped
  std::int64_t width = 0, height = 1, points = 0;
  std::optional<std::array<double, 7>> viewpoint;
  bool has_odd_viewpoint = false;  // a line that is no seven finite numbers
  std::int64_t data_offset = 0;    // of the first byte after the DATA line
  std::int64_t next_line = 1;      // its line number
};

PcdHeader read_pcd_header(const Source& source);

}  // namespace io
