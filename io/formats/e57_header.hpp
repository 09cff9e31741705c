// The page structure and XML text of an E57 file (ASTM E2807), checked before the library parses
// them.
#pragma once
#include <string>

#include "io/source.hpp"

namespace io {

// The XML section without the checksums of its pages. Error: signature, version, length or pages
// that are wrong; XML that declares entities or names schemas, with which a file could reach other
// files or grow without bound.
std::string read_e57_xml(const Source& source);

}  // namespace io
