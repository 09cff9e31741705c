// E57 (ASTM E2807). Chosen by CMake: e57.cpp with libE57Format, no_e57.cpp without.
#pragma once
#include "io/io.h"
#include "io/source.hpp"

namespace io {

Cloud read_e57(const Source& source, const ReadOptions& options);

}  // namespace io
