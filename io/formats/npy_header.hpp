// The header of a NumPy array file: element type, order and shape. Parsed by hand; nothing is ever
// unpickled.
#pragma once
#include <optional>

#include "io/records.hpp"

namespace io {

struct NpyHeader {
  // Plain arrays have one field without a name; structured ones a field a member, strings and
  // padding skipped.
  RecordLayout element;
  bool is_structured = false;
  bool is_fortran = false;
  std::vector<std::int64_t> shape;
  std::int64_t elements = 0;             // product of the shape
  std::vector<std::string> text_fields;  // members that hold text
};

// Reads the header from the start of the stream and checks shape x size against what is left in it.
NpyHeader read_npy_header(ByteStream& stream);
std::string shape_text(const std::vector<std::int64_t>& shape);

// float16 has no place in clouds: it is read as 16-bit words and widened.
inline constexpr base::DType kNpyHalf = base::DType::f16;

}  // namespace io
