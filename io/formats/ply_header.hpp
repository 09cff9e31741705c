// The header of a PLY file: its elements and their properties, in file order.
#pragma once
#include <map>

#include "io/records.hpp"

namespace io {

struct PlyProperty {
  std::string name;
  base::DType type = base::DType::f32;
  bool is_list = false;
  base::DType count_type = base::DType::u8;
};

struct PlyElement {
  std::string name;
  std::int64_t count = 0;
  std::vector<PlyProperty> properties;
  bool has_lists() const;
  std::int64_t smallest_bytes() const;  // of one entry in a binary file, its lists empty
};

struct PlyHeader {
  enum class Body { ascii, little_endian, big_endian } body = Body::ascii;
  std::vector<PlyElement> elements;
  std::map<std::string, std::string> metadata;  // comments and obj_info lines
  std::int64_t body_offset = 0, body_line = 1;
};

PlyHeader read_ply_header(const Source& source);

}  // namespace io
