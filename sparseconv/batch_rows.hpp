// What belongs to one cloud of a batch: its points, its rows, its part of an output and of the
// warnings. Rows are sorted by batch first, as voxelised and derived coordinates are.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/cloud.hpp"
#include "sparseconv/result.hpp"

namespace sparseconv {

struct RowRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

// Empty where the batch entry has no rows.
RowRange rows_of_batch(const Coordinates& coordinates, std::int32_t batch);

// The points of clouds[cloud] among those of all clouds, one after the other.
RowRange points_of_cloud(std::span<const io::Cloud* const> clouds, std::int32_t cloud);

// A copy, as the output of a run of that cloud alone: batch id 0. `points`: points_of_cloud().
Output output_of_batch(const Output& whole, std::int32_t batch, RowRange points,
                       const base::BlockCachePtr& cache);

// What voxelize() says of several clouds begins with "cloud 1: "; here without it.
std::vector<std::string> warnings_of_cloud(const std::vector<std::string>& all, std::size_t cloud,
                                           std::size_t clouds);

}  // namespace sparseconv
