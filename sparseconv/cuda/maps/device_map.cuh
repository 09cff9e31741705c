// A kernel map on the device, in the form the gather kernels want: see
// gemm_core/collective/gather_table.hpp for the meaning of slots, planes, records and lists. Built
// on the device (frame_maps.hpp), read by the executor's layers. Tile schedules are made from it by
// gemm_core (device/cuda/gather/tile_schedule.hpp), one per tile size and number of thread blocks,
// shared by the layers of a level. Sizes stay on the device; capacities are bounds known on the
// host.
//
// How rows become slots. Key of a row: its tap mask with the taps renumbered by falling frequency
// (the rarest tap is the top bit), then Gray-decoded (m ^= m >> 1; m ^= m >> 2; ... 16), sorted
// ascending and stably. One order: rows multiplied per row fall from 22 (Morton) to 10 on a street
// scan. Planes: the same key over the plane's taps only, rows without a tap of an outer plane left
// out; in the centre plane rows with a partial sum come after those without.
#pragma once
#include <cstdint>

#include "gemm_core/collective/gather_table.hpp"

namespace sparseconv::cuda {

struct DeviceMapView {
  gemm_core::GatherTable table;
  const std::int32_t* canonical = nullptr;  // [taps][row_capacity] input row or -1 by output row,
                                            // for pooling; null where not asked for
  std::int64_t row_capacity = 0;            // bound of the output rows; row pitch of `canonical`
  const std::int32_t* row_count = nullptr;  // [1] output rows
};

}  // namespace sparseconv::cuda
