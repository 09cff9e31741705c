// Points to voxels: floor((x - origin) / size) in double, merged in a defined order (file order),
// rows in canonical order. The same points, order and sums on every backend and for any thread
// count.
//
// Where cells do not fit the key with the origin asked for, it moves by whole cells so that the
// smallest cell is 0 (or the lowest that a key holds, where the extent needs more than half of its
// range); a warning says so, `origin` is the new one, and the features x y z are relative to the
// shift. Points with a non-finite coordinate are dropped and counted; any other non-finite value
// counts as 0 and is named in a warning.
//
// Features: x y z, dx dy dz (offset from the voxel's centre), r g b (integers: 0..1 of the type's
// range), one (1), and any scalar field of the cloud. Sums are taken in double.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gemm_core/base/tensor.hpp"
#include "io/cloud.hpp"
#include "sparseconv/sparse_tensor.hpp"

namespace sparseconv {

enum class Reduce : std::uint8_t { mean, sum, max, first };
Reduce parse_reduce(std::string_view text);

struct VoxelizeOptions {
  std::array<double, 3> voxel_size{0.1, 0.1, 0.1};
  std::array<double, 3> origin{0, 0, 0};  // of cell 0; `range` overrides it with its lower bound
  std::optional<std::array<double, 6>> range;  // x0 y0 z0 x1 y1 z1: lower bound in, upper bound out
  std::optional<SpatialShape> spatial_shape;   // points outside are dropped and counted
  Reduce reduce = Reduce::mean;
  // Points of one voxel and voxels of one cloud; 0: no limit. Points are kept in file order, voxels
  // by their first point.
  std::int64_t max_points = 0, max_voxels = 0;
  std::vector<std::string> features;       // empty: x y z and every other scalar field
  std::map<std::string, double> defaults;  // for features the cloud lacks
  base::BlockCachePtr cache = nullptr;     // where the voxels and all scratch get their memory
};

struct Voxels {
  SparseTensor tensor;                        // f32 features, batch id given to voxelize
  base::Buffer<std::int64_t> point_to_voxel;  // [points]: row, or -1 for a dropped point
  std::vector<std::string> feature_names;
  std::array<double, 3> voxel_size{},
      origin{};  // origin after a whole-cell shift, where one was needed
  std::vector<std::array<double, 3>> origins;  // of each cloud; `origin` is that of the first
  std::int64_t points = 0, dropped = 0, non_finite = 0, out_of_range = 0, over_max_points = 0,
               over_max_voxels = 0;
  std::vector<std::string> warnings;
};

// Error: a feature that the cloud lacks, an extent beyond the key range, a voxel size that is not
// positive and finite.
Voxels voxelize(const io::Cloud& cloud, const VoxelizeOptions& options);
// Several clouds as one batch; batch id = position. point_to_voxel is the concatenation. Each cloud
// is shifted, limited and reduced as if it were alone.
Voxels voxelize(std::span<const io::Cloud* const> clouds, const VoxelizeOptions& options);

}  // namespace sparseconv
