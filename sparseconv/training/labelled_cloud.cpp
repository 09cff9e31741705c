#include "sparseconv/training/labelled_cloud.hpp"

#include <algorithm>

namespace sparseconv::training {

std::vector<std::int32_t> majority_labels(std::span<const std::int32_t> labels,
                                          std::span<const std::int64_t> point_to_voxel,
                                          std::int64_t voxels) {
  ENSURE(labels.size() == point_to_voxel.size(), "majority_labels: ", labels.size(), " labels for ",
         point_to_voxel.size(), " points");
  // Votes of a voxel lie together: [first[v], first[v + 1]).
  std::vector<std::size_t> first(static_cast<std::size_t>(voxels) + 1, 0);
  for (const std::int64_t voxel : point_to_voxel)
    if (voxel >= 0) ++first[static_cast<std::size_t>(voxel) + 1];
  for (std::size_t v = 1; v < first.size(); ++v) first[v] += first[v - 1];
  std::vector<std::size_t> next(first.begin(), first.end() - 1);
  std::vector<std::int32_t> votes(first.back());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::int64_t voxel = point_to_voxel[i];
    if (voxel >= 0) votes[next[static_cast<std::size_t>(voxel)]++] = labels[i];
  }
  std::vector<std::int32_t> majority(static_cast<std::size_t>(voxels), kIgnore);
  for (std::size_t v = 0; v < majority.size(); ++v) {
    const auto begin = votes.begin() + static_cast<std::ptrdiff_t>(first[v]);
    const auto end = votes.begin() + static_cast<std::ptrdiff_t>(first[v + 1]);
    std::sort(begin, end);
    std::ptrdiff_t most = 0;
    for (auto run = begin; run != end;) {
      const auto stop = std::upper_bound(run, end, *run);
      if (stop - run > most) {  // labels ascend, so a tie keeps the lower one
        most = stop - run;
        majority[v] = *run;
      }
      run = stop;
    }
  }
  return majority;
}

Batch make_batch(const LabelledCloud& scan, const ModelInput& input) {
  ENSURE(static_cast<std::int64_t>(scan.labels.size()) == scan.cloud.size(),
         "make_batch: ", scan.labels.size(), " labels for ", scan.cloud.size(), " points");
  Voxels voxels = voxelize(scan.cloud, voxelize_options(input));
  Batch batch;
  batch.labels = majority_labels(scan.labels, voxels.point_to_voxel, voxels.tensor.rows());
  batch.voxels = std::move(voxels.tensor);
  return batch;
}

Batch make_batch(std::span<const LabelledCloud> scans, const ModelInput& input) {
  std::vector<Batch> batches;
  for (const LabelledCloud& scan : scans) batches.push_back(make_batch(scan, input));
  return joined(batches);
}

Batch joined(std::span<const Batch> batches) {
  if (batches.size() == 1) return batches[0];
  Batch all;
  std::int32_t entries = 0;
  std::int64_t channels = -1, rows = 0;
  std::optional<SpatialShape> shape;
  bool are_sorted = true;
  for (const Batch& batch : batches) {
    const Coordinates& own = *batch.voxels.coordinates;
    if (channels < 0) {
      channels = batch.voxels.channels();
      shape = own.spatial_shape();
    }
    ENSURE(batch.voxels.channels() == channels, "joined: batches of ", channels, " and ",
           batch.voxels.channels(), " channels");
    ENSURE(own.spatial_shape() == shape, "joined: batches of unequal spatial shapes");
    are_sorted = are_sorted && own.is_sorted();
    entries += own.batch_size();
    rows += batch.voxels.rows();
  }
  ENSURE(entries <= kBatchMax, "joined: ", entries, " batch entries, at most ", kBatchMax);
  all.labels.reserve(static_cast<std::size_t>(rows));
  all.voxels.features =
      base::Tensor::empty({rows, std::max<std::int64_t>(channels, 0)}, base::DType::f32);
  std::int64_t at = 0;
  for (const Batch& batch : batches) {
    all.labels.insert(all.labels.end(), batch.labels.begin(), batch.labels.end());
    const std::int64_t count = batch.voxels.features.numel();
    if (count == 0) continue;
    const float* from = batch.voxels.features.data<float>();
    std::copy(from, from + count, all.voxels.features.data<float>() + at);
    at += count;
  }
  const Coordinates::Options options{.batch_size = entries, .spatial_shape = shape};
  std::int32_t before = 0;  // entries of the batches so far
  if (!are_sorted) {
    std::vector<Coord> coords;
    coords.reserve(static_cast<std::size_t>(rows));
    for (const Batch& batch : batches) {
      for (Coord c : batch.voxels.coordinates->coords()) {
        c.batch += before;
        coords.push_back(c);
      }
      before += batch.voxels.coordinates->batch_size();
    }
    all.voxels.coordinates = Coordinates::create(std::move(coords), options);
    return all;
  }
  // The batch stands in the highest bits of a key.
  base::Buffer<Key> keys;
  keys.reserve(static_cast<std::size_t>(rows));
  for (const Batch& batch : batches) {
    const Key step = static_cast<Key>(before) << (3 * kAxisBits);
    for (const Key key : batch.voxels.coordinates->keys()) keys.push_back(key + step);
    before += batch.voxels.coordinates->batch_size();
  }
  all.voxels.coordinates = Coordinates::from_sorted_keys(std::move(keys), options);
  return all;
}

}  // namespace sparseconv::training
