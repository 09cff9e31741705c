#include "apps/render/results.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "apps/voxel_cloud.hpp"
#include "gemm_core/base/error.hpp"
#include "io/hdf5_container.hpp"

namespace render {
namespace {

std::array<double, 3> three_numbers(const io::Hdf5Reader& file, const char* attribute) {
  const std::vector<double> values = file.attribute_numbers("/", attribute);
  ENSURE(values.size() == 3, "attribute ", attribute, " has ", values.size(),
         " values, expected 3");
  return {values[0], values[1], values[2]};
}

struct Place {  // of cell 0, and how large cells are
  std::array<double, 3> voxel_size, origin;
};

io::Cloud sparse_output(const io::Hdf5Reader& file, const std::string& group, const Place& place) {
  const auto numbers = file.read<std::int32_t>(group + "/coordinates");
  std::vector<sparseconv::Coord> cells;
  for (std::size_t i = 0; i + 4 <= numbers.size(); i += 4)
    cells.push_back({numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3]});
  const base::Tensor features = file.read_tensor(group + "/features").to(base::DType::f32);
  const auto rows = static_cast<std::int64_t>(cells.size());
  ENSURE(features.shape().rank() == 2 && features.size(0) == rows, group, ": ", rows,
         " coordinates do not fit the features");
  io::Cloud cloud = apps::cell_centres(cells, place.voxel_size, place.origin);
  std::vector<float> first;
  for (std::int64_t row = 0; row < rows && features.size(1) > 0; ++row)
    first.push_back(features.data<float>()[row * features.size(1)]);
  if (features.size(1) > 0) cloud.add("intensity", std::span<const float>(first));
  return cloud;
}

// [N, C, H, W]: H is y, W is x.
io::Cloud dense_output(const io::Hdf5Reader& file, const std::string& group, const Place& place) {
  const base::Tensor dense = file.read_tensor(group + "/dense").to(base::DType::f32);
  ENSURE(dense.shape().rank() == 4, group, "/dense: expected [N, C, H, W]");
  const std::int64_t batch = dense.size(0), channels = dense.size(1), height = dense.size(2),
                     width = dense.size(3);
  std::vector<sparseconv::Coord> cells;
  std::vector<float> strongest;
  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t cell = 0; cell < height * width; ++cell) {
      float most = 0;
      for (std::int64_t c = 0; c < channels; ++c) {
        const float value = dense.data<float>()[(n * channels + c) * height * width + cell];
        if (std::fabs(value) > std::fabs(most)) most = value;
      }
      if (most == 0) continue;
      cells.push_back({static_cast<std::int32_t>(n), static_cast<std::int32_t>(cell % width),
                       static_cast<std::int32_t>(cell / width), 0});
      strongest.push_back(most);
    }
  }
  io::Cloud cloud = apps::cell_centres(cells, place.voxel_size, place.origin);
  cloud.add("intensity", std::span<const float>(strongest));
  return cloud;
}

}  // namespace

std::optional<io::Cloud> cloud_of_result(const std::filesystem::path& path) {
  if (!io::is_hdf5_file(path)) return {};
  if (sparseconv::is_voxel_file(path))
    return apps::cloud_of_cells(sparseconv::read_voxel_file(path));
  const io::Hdf5Reader file(path);
  if (!file.has_attribute("/", "sparseconv_result")) return {};
  const Place place{three_numbers(file, "voxel_size"), three_numbers(file, "origin")};
  if (file.has("/outputs")) {
    for (const std::string& node : file.children("/outputs")) {
      const std::string group = "/outputs/" + node;
      if (file.has(group + "/coordinates")) return sparse_output(file, group, place);
      if (file.has(group + "/dense")) return dense_output(file, group, place);
    }
  }
  base::fail("values of points without the points: name the scan and give this file as --labels");
}

}  // namespace render
