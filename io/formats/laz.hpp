// Compressed LAS. Chosen by CMake: laz.cpp with LASzip, no_laz.cpp without.
#pragma once
#include "io/formats/las_header.hpp"

namespace io {

Cloud read_laz(const Source& source, const LasHeader& header);

}  // namespace io
