#include "apps/voxel_labels.hpp"

#include <limits>

#include "gemm_core/base/error.hpp"
#include "sparseconv/training/labelled_cloud.hpp"

namespace apps {

std::vector<std::int32_t> majority_labels(const io::Column& labels,
                                          std::span<const std::int64_t> point_to_voxel,
                                          std::int64_t voxels) {
  std::vector<std::int32_t> numbers(point_to_voxel.size(), 0);
  for (std::size_t point = 0; point < point_to_voxel.size(); ++point) {
    if (point_to_voxel[point] < 0) continue;
    const double label = labels.at(static_cast<std::int64_t>(point));
    ENSURE(label >= std::numeric_limits<std::int32_t>::min() &&
               label <= std::numeric_limits<std::int32_t>::max(),
           "label of point ", point, " is ", label, ", which is no 32-bit number");
    numbers[point] = static_cast<std::int32_t>(label);
  }
  return sparseconv::training::majority_labels(numbers, point_to_voxel, voxels);
}

}  // namespace apps
