// E57 (ASTM E2807): e57.cpp reads it through libE57Format; where that is not found no_e57.cpp
// refuses it by name.
#pragma once
#include "io/io.h"
#include "io/source.hpp"

namespace io {

extern const bool kReadsE57;
Cloud read_e57(const Source& source, const ReadOptions& options);

}  // namespace io
