// The shortest decimal that reads back as the same double, where that has at most 15 digits, such
// as centimetres in metres: the very text of std::to_chars in two thirds of its time.
#pragma once

namespace io {

// Writes at most 40 characters to `out` and returns the end of the text; nullptr where the value is
// not one of these (more digits, magnitude below 0.001 or from 100000, no finite number): then
// std::to_chars has to do it.
char* write_short_decimal(char* out, double value);

}  // namespace io
