// PCL packs colours into one 32-bit field: 0xAARRGGBB, as an integer or as the bits of a float.
#pragma once
#include "io/cloud.hpp"

namespace io {

// Replaces a 4-byte field rgb or rgba by r, g, b (and alpha) of 8 bits, where the cloud has no such
// fields.
void unpack_colours(Cloud& cloud);

// The packed field for r, g, b (and alpha) of 8 bits: 0xAARRGGBB, alpha 0 without one.
base::Tensor packed_colours(const Cloud& cloud, bool with_alpha);

}  // namespace io
