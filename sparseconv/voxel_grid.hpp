// Which cell a point lies in: the part of voxelize() that decides origin, range and keys.
#pragma once
#include <span>
#include <string>

#include "sparseconv/coord.hpp"
#include "sparseconv/voxelize.hpp"

namespace sparseconv::detail {

using Triple = std::array<double, 3>;

inline constexpr std::int64_t kPointBlock = 2048;  // points whose columns are converted at a time

// cell = floor((p - origin) / size) - shift, for one cloud; shift is whole.
struct VoxelGrid {
  Triple origin{}, size{}, shift{};
  std::optional<std::array<double, 6>> range;
  Triple low{}, high{};  // whole: allowed cells before the shift, [low, high)
  Triple shifted_origin() const {
    return {origin[0] + shift[0] * size[0], origin[1] + shift[1] * size[1],
            origin[2] + shift[2] * size[2]};
  }
};

struct CellStatistics {
  std::int64_t non_finite = 0, outside = 0, kept = 0;
  bool fit = true;  // cells of all points kept fit the key
};

VoxelGrid make_grid(const VoxelizeOptions& options);  // unshifted; Error names size, range or shape

// Keys of all points of a cloud; kNoKey for dropped ones and for those whose cell does not fit.
CellStatistics assign_keys(const io::Cloud& cloud, const VoxelGrid& grid, std::int32_t batch,
                           std::span<Key> keys);

// Moves the grid so that the cells of a cloud fit the key; Error when no shift does.
void shift_to_fit(const io::Cloud& cloud, VoxelGrid& grid);

// What a user should know of a cloud's cells, and of values that counted as 0.
std::vector<std::string> cell_warnings(const io::Cloud& cloud, const CellStatistics& statistics);
std::string replaced_warning(std::int64_t values, const std::string& feature);

std::string to_string(const Triple& values);  // "1, 2.5, 3", shortest digits

}  // namespace sparseconv::detail
