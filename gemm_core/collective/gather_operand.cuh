// What the gathers of a sparse convolution read: the tiles of one thread block and the matrices
// whose rows the map names.
#pragma once
#include <cstdint>

#include "gemm_core/collective/gather_table.hpp"

namespace gemm_core {

// The tiles of one thread block.
struct TileList {
  const TileRecord* records;
  std::uint32_t own_tap = 0;  // bit of the tap that every group with rows has beside the map's

  __device__ __forceinline__ TileRecord operator[](int i) const {
    const int4 raw = __ldg(reinterpret_cast<const int4*>(records) + i);
    TileRecord record;
    record.slot = raw.x;
    record.masks[0] = static_cast<std::uint32_t>(raw.y);
    record.masks[1] = static_cast<std::uint32_t>(raw.z);
    record.flags = static_cast<std::uint32_t>(raw.w);
    record.masks[0] |= record.masks[0] != 0 ? own_tap : 0;
    record.masks[1] |= record.masks[1] != 0 ? own_tap : 0;
    return record;
  }
};

struct GatheredRows {
  const char* input = nullptr;
  std::uint32_t pitch = 0;      // bytes between rows
  std::uint32_t row_bytes = 0;  // input channels in bytes, a multiple of 16
  int slices = 1;               // stages a tap needs
};

struct GatherOperand : GatheredRows {
  // Another matrix, of which each output row's own row is one more tap: the bit of its number (the
  // taps of the map), 0 where there is none. For maps that give every row some tap.
  GatheredRows own;
  std::uint32_t own_tap = 0;
  const std::int32_t* slot_rows = nullptr;   // GatherTable::rows
  const std::int32_t* neighbours = nullptr;  // of a GatherTable
  std::uint32_t neighbour_pitch = 0;         // taps * pitch < 2^31
  // The predecessor on the stream writes nothing that is gathered here (the outer planes' launch
  // before the centre's).
  bool input_is_older = false;
};

}  // namespace gemm_core
