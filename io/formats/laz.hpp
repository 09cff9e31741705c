// Compressed LAS: laz.cpp reads it through LASzip; where that is not found no_laz.cpp refuses it by
// name.
#pragma once
#include "io/formats/las_header.hpp"

namespace io {

extern const bool kReadsLaz;
Cloud read_laz(const Source& source, const LasHeader& header);

}  // namespace io
