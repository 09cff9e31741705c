#include "apps/voxel_labels.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "gemm_core/base/error.hpp"

namespace apps {

std::vector<std::int32_t> majority_labels(const io::Column& labels,
                                          std::span<const std::int64_t> point_to_voxel,
                                          std::int64_t voxels) {
  std::vector<std::pair<std::int64_t, std::int32_t>> votes;  // (voxel, label)
  votes.reserve(point_to_voxel.size());
  for (std::size_t point = 0; point < point_to_voxel.size(); ++point) {
    if (point_to_voxel[point] < 0) continue;
    const double label = labels.at(static_cast<std::int64_t>(point));
    ENSURE(label >= std::numeric_limits<std::int32_t>::min() &&
               label <= std::numeric_limits<std::int32_t>::max(),
           "label of point ", point, " is ", label, ", which is no 32-bit number");
    votes.emplace_back(point_to_voxel[point], static_cast<std::int32_t>(label));
  }
  std::ranges::sort(votes);
  std::vector<std::int32_t> majority(static_cast<std::size_t>(voxels), 0);
  std::vector<std::int64_t> most(static_cast<std::size_t>(voxels), 0);
  for (auto begin = votes.begin(); begin != votes.end();) {
    const auto end =
        std::find_if(begin, votes.end(), [&](const auto& vote) { return vote != *begin; });
    const auto voxel = static_cast<std::size_t>(begin->first);
    if (end - begin > most[voxel]) {  // labels of a voxel ascend, so a tie keeps the lower one
      most[voxel] = end - begin;
      majority[voxel] = begin->second;
    }
    begin = end;
  }
  return majority;
}

}  // namespace apps
