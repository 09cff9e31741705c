// Makes the static schedules of persistent gather kernels on the device: tiles of a table dealt to
// lists, longest first to the least loaded list. One launch makes all schedules of a frame.
#pragma once
#include <cuda_runtime_api.h>

#include <span>

#include "gemm_core/collective/gather_table.hpp"

namespace gemm_core::cuda {

enum class TilePart : std::uint8_t { outer, centre };

struct TileScheduleJob {
  GatherTable table;
  TilePart part = TilePart::centre;
  std::int32_t tile = 128, lists = 132, pitch = 0;  // pitch >= schedule_pitch(...)
  TileRecord* records = nullptr;                    // [lists * pitch]
  std::int32_t* order = nullptr;                    // scratch [capacity / tile]
};
inline constexpr int kMaxScheduleJobs = 32, kMaxScheduleLists = 1024;

// Records a list may need, end records included, whatever the masks are.
std::int32_t schedule_pitch(std::int64_t capacity, int tile, int lists);
void build_tile_schedules(std::span<const TileScheduleJob> jobs, cudaStream_t stream);

}  // namespace gemm_core::cuda
