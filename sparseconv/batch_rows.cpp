#include "sparseconv/batch_rows.hpp"

#include <algorithm>

namespace sparseconv {
namespace {

base::Tensor rows_of(const base::Tensor& tensor, RowRange rows, const base::BlockCachePtr& cache) {
  base::Dims shape = tensor.shape();
  shape[0] = rows.size();
  auto part = base::Tensor::empty(shape, tensor.dtype(), cache);
  const std::int64_t stride = tensor.shape()[0] == 0 ? 0 : tensor.numel() / tensor.shape()[0];
  const float* from = tensor.numel() == 0 ? nullptr : tensor.data<float>() + rows.begin * stride;
  if (part.numel() > 0) std::copy(from, from + part.numel(), part.data<float>());
  return part;
}

CoordinatesPtr coordinates_of_batch(const Coordinates& all, RowRange rows,
                                    const base::BlockCachePtr& cache) {
  base::Buffer<Key> keys(cache);
  keys.reserve(static_cast<std::size_t>(rows.size()));
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    Coord c = all.coords()[static_cast<std::size_t>(row)];
    c.batch = 0;
    keys.push_back(pack(c));
  }
  return Coordinates::from_sorted_keys(
      std::move(keys), {.batch_size = 1, .spatial_shape = all.spatial_shape(), .cache = cache});
}

}  // namespace

RowRange rows_of_batch(const Coordinates& coordinates, std::int32_t batch) {
  const auto coords = coordinates.coords();
  const auto first = std::partition_point(coords.begin(), coords.end(),
                                          [&](const Coord& c) { return c.batch < batch; });
  const auto last =
      std::partition_point(first, coords.end(), [&](const Coord& c) { return c.batch == batch; });
  return {first - coords.begin(), last - coords.begin()};
}

RowRange points_of_cloud(std::span<const io::Cloud* const> clouds, std::int32_t cloud) {
  RowRange points;
  for (std::int32_t i = 0; i < cloud; ++i)
    points.begin += clouds[static_cast<std::size_t>(i)]->size();
  points.end = points.begin + clouds[static_cast<std::size_t>(cloud)]->size();
  return points;
}

Output output_of_batch(const Output& whole, std::int32_t batch, RowRange points,
                       const base::BlockCachePtr& cache) {
  Output part;
  part.node = whole.node;
  part.per_point = whole.per_point;
  part.on_input = whole.on_input;
  if (whole.dense.defined()) {
    part.dense = rows_of(whole.dense, {batch, batch + 1}, cache);
  } else if (whole.per_point) {
    part.sparse.features = rows_of(whole.sparse.features, points, cache);
  } else {
    const RowRange rows = rows_of_batch(*whole.sparse.coordinates, batch);
    part.sparse.coordinates = coordinates_of_batch(*whole.sparse.coordinates, rows, cache);
    part.sparse.features = rows_of(whole.sparse.features, rows, cache);
  }
  return part;
}

std::vector<std::string> warnings_of_cloud(const std::vector<std::string>& all, std::size_t cloud,
                                           std::size_t clouds) {
  if (clouds == 1) return all;
  const std::string prefix = base::concat("cloud ", cloud, ": ");
  std::vector<std::string> own;
  for (const std::string& text : all) {
    if (text.starts_with(prefix)) own.push_back(text.substr(prefix.size()));
  }
  return own;
}

}  // namespace sparseconv
