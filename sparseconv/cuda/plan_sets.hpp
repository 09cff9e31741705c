// How the levels of a plan become coordinate sets on the device, and how many rows they may have.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "sparseconv/cuda/maps/frame_maps.hpp"
#include "sparseconv/plan.hpp"

namespace sparseconv::cuda {

struct PlanSets {
  explicit PlanSets(const Plan& plan);
  std::vector<int> set_of_level;    // -1: no coordinates on the device
  std::vector<int> levels_of_sets;  // level of a set
};
std::vector<SetSpec> set_specs(const Plan& plan, const std::vector<int>& set_of_level,
                               const std::vector<int>& levels_of_sets);

// Bounds of every level's rows: what geometry allows and earlier frames had, with room. A guess
// where windows overlap: how many cells a scan then touches depends on the scan.
class RowBounds {
 public:
  explicit RowBounds(const Plan& plan) : plan_(plan) {}
  // For frames of at most `rows` input rows.
  std::vector<std::int64_t> operator()(std::int64_t rows, std::int64_t points,
                                       std::int32_t batch_size) const;
  // Rows of each set of a frame, the input's first, as shares of the input's. Shares only grow.
  void learn(std::span<const std::int64_t> rows_of_sets, const std::vector<int>& levels_of_sets);

 private:
  const Plan& plan_;
  std::vector<double> seen_;  // most rows of a level for a row of the input
};
// Rows that a level has where the input has `input_rows`, those of a street scan, whatever the
// frame: kernels and orders are chosen by the plan alone, so that a frame's bits depend on nothing
// that ran before it.
inline constexpr std::int64_t kNominalRows = 100000;
std::int64_t nominal_rows(const Plan& plan, int level, std::int64_t input_rows = kNominalRows);

std::optional<SpatialShape> spatial_shape_of(const Plan& plan, int level,
                                             const std::optional<SpatialShape>& input);

}  // namespace sparseconv::cuda
