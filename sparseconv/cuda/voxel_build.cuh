// The stages of a voxelisation, on whatever runs steps.
#pragma once
#include <bit>

#include "sparseconv/cuda/voxel_layout.hpp"

namespace sparseconv::cuda {

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
  // Keys that stand for no voxel come last: no batch has all of these bits.
  const SortBits bits{.low = 3 * kAxisBits +
                             static_cast<int>(std::bit_width(static_cast<std::uint32_t>(clouds)))};
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
