// The stages of a voxelisation, on whatever runs steps.
#pragma once
#include <bit>

#include "sparseconv/cuda/voxel_layout.hpp"

namespace sparseconv::cuda {

// The region `zeros` is cleared and `constant` uploaded.
template <class Runner>
void build_voxels(Runner& runner, const VoxelizeOptions& options, const VoxelLayout& v,
                  std::int32_t points, std::int32_t clouds) {
  const auto channels = static_cast<std::int32_t>(options.features.size());
  const auto max_points = static_cast<std::int32_t>(options.max_points),
             max_voxels = static_cast<std::int32_t>(options.max_voxels);
  runner.run(AssignCells{v.clouds, clouds, points, v.keys, v.order, v.status});
  const int bits = 3 * kAxisBits + std::bit_width(static_cast<std::uint32_t>(clouds));
  const auto sorted =
      runner.sort(Sorted<Key>{v.keys, v.order}, Sorted<Key>{v.sorted_keys, v.sorted_order},
                  {points, nullptr}, bits);
  runner.scan(FirstOfVoxel{sorted.keys}, v.sums, points);
  runner.run(ListRuns{sorted.keys, v.sums, points, v.all_runs});
  if (max_voxels > 0) {
    runner.run(MarkFirstPoints{v.all_runs, sorted.values, v.is_first, points});
    runner.scan(FirstPoints{v.is_first}, v.ranks, points);
    const KeptVoxels kept{v.all_runs, v.clouds, sorted.values, v.ranks, max_voxels};
    runner.scan(kept, v.kept_sums, points);
    runner.run(CompactRuns{kept, v.kept_sums, v.runs, v.kept_rows, points});
  }
  runner.run(AssignPoints{sorted.keys, sorted.values, v.sums,
                          max_voxels > 0 ? v.kept_rows : nullptr, v.all_runs, points, max_points,
                          v.point_to_voxel, v.status + kWarp});
  runner.run(ReduceVoxels{v.runs, v.clouds, v.columns, v.feature_jobs, sorted.values, points,
                          channels, max_points, options.reduce, v.features, v.status + 2 * kWarp,
                          v.status + 3 * kWarp + 1});
}

}  // namespace sparseconv::cuda
