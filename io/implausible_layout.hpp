// Doubts about headerless float32 files: they say nothing about themselves, so their values are all
// there is to judge.
#pragma once
#include <cstdint>
#include <string>

#include "io/cloud.hpp"
#include "io/source.hpp"

namespace io {

// What is odd about a file read as `columns` float32 values a point, "" when nothing is: values
// that doubles or swapped bytes give, a ring that is no small whole number, or a regularity that
// another record size explains better.
std::string implausible_layout(const Source& source, std::int64_t columns, const Cloud& cloud);

}  // namespace io
