// E57 (ASTM E2807). no_e57.cpp refuses it by name; a reader through libE57Format takes its place in CMake.
#pragma once
#include "io/io.h"
#include "io/source.hpp"

namespace io {

Cloud read_e57(const Source& source, const ReadOptions& options);

}  // namespace io
