// Compressed LAS. no_laz.cpp refuses it by name; a reader through LASzip takes its place in CMake.
#pragma once
#include "io/formats/las_header.hpp"

namespace io {

Cloud read_laz(const Source& source, const LasHeader& header);

}  // namespace io
