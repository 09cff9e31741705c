// The stages of a voxelisation, on whatever runs steps.
#pragma once
#include <algorithm>
#include <bit>

#include "sparseconv/cuda/voxels/voxel_layout.hpp"
#include "sparseconv/voxel_grid.hpp"

namespace sparseconv::cuda {

// Bits that tell points' keys apart. Keys that stand for no voxel come last: no batch has all of
// its bits. Where cells are bounded from 0 on, they differ in few bits of each axis.
inline SortBits bits_of_voxels(const VoxelizeOptions& options, std::int32_t clouds) {
  const int batch_bits = static_cast<int>(std::bit_width(static_cast<std::uint32_t>(clouds)));
  const sparseconv::detail::VoxelGrid grid = sparseconv::detail::make_grid(options);
  int axis_bits = 0;
  for (std::size_t a = 0; a < 3; ++a) {
    const bool is_bounded = grid.low[a] >= 0 && grid.high[a] <= kAxisMax;
    const auto last = is_bounded ? static_cast<std::uint64_t>(std::max(1.0, grid.high[a]) - 1) : 0;
    axis_bits =
        std::max(axis_bits, is_bounded ? static_cast<int>(std::bit_width(last)) : kAxisBits);
  }
  if (axis_bits >= kAxisBits) return {.low = 3 * kAxisBits + batch_bits};
  return {.low = 3 * axis_bits, .from = 3 * kAxisBits, .high = batch_bits};
}

// The region `zeros` is cleared and `constant` uploaded; how many points there are stands in the
// latter.
template <class Runner>
void build_voxels(Runner& runner, const VoxelizeOptions& options, const VoxelLayout& v,
                  std::int32_t clouds) {
  const ItemCount points{v.point_capacity, v.point_count};
  const auto capacity = static_cast<std::int32_t>(v.point_capacity);
  const auto channels = static_cast<std::int32_t>(options.features.size());
  const auto max_points = static_cast<std::int32_t>(options.max_points),
             max_voxels = static_cast<std::int32_t>(options.max_voxels);
  runner.run(AssignCells{v.clouds, clouds, points, v.keys, v.order, v.status});
  const SortBits bits = bits_of_voxels(options, clouds);
  const auto sorted = runner.sort(Sorted<Key>{v.keys, v.order},
                                  Sorted<Key>{v.sorted_keys, v.sorted_order}, points, bits);
  runner.scan(FirstOfVoxel{sorted.keys, points}, v.sums, capacity);
  runner.run(ListRuns{sorted.keys, v.sums, points, v.all_runs});
  if (max_voxels > 0) {
    runner.run(MarkFirstPoints{v.all_runs, sorted.values, v.is_first, capacity});
    runner.scan(FirstPoints{v.is_first}, v.ranks, capacity);
    const KeptVoxels kept{v.all_runs, v.clouds, sorted.values, v.ranks, max_voxels};
    runner.scan(kept, v.kept_sums, capacity);
    runner.run(CompactRuns{kept, v.kept_sums, v.runs, v.kept_rows, capacity});
  }
  runner.run(AssignPoints{sorted.keys, sorted.values, v.sums,
                          max_voxels > 0 ? v.kept_rows : nullptr, v.all_runs, points, max_points,
                          v.point_to_voxel, v.status + kWarp});
  runner.run(ReduceVoxels{v.runs, v.clouds, v.columns, v.feature_jobs, sorted.values, capacity,
                          channels, max_points, options.reduce, v.features, v.status + 2 * kWarp,
                          v.status + 3 * kWarp + 1});
  if (v.positions != nullptr) runner.run(PlacePoints{v.clouds, clouds, points, v.positions});
}

}  // namespace sparseconv::cuda
