// One tile of output rows of a gathered convolution: per tap the rows that are present are listed,
// multiplied against the packed weights into an fp32 tile that stays in L2, and the epilogue stores
// the tile.
#pragma once
#include <cstdint>

#include "gemm_core/collective/gather_conv_arguments.hpp"

namespace gemm_core {

// Rows of a tile: enough that one tap's weights are used many times, few enough that the tile stays
// in L2.
std::int64_t gather_tile_rows(const GatherConvArguments& arguments, int threads);

// What a visitor is told: tiles of gather_tile_rows, which do not depend on the number of threads
// where there is a visitor.
TileGrid gather_grid(const GatherConvArguments& arguments);

void run_gather_tile(const GatherConvArguments& arguments, std::int64_t begin, std::int64_t end);

}  // namespace gemm_core
