#include "apps/info/describe.hpp"

#include <algorithm>
#include <cmath>

#include "apps/read_options.hpp"
#include "io/hdf5_container.hpp"
#include "sparseconv/voxel_file.hpp"

namespace apps {
namespace fs = std::filesystem;

namespace {

template <std::size_t N>
Json array_of(const std::array<double, N>& values) {
  return Json(std::vector<double>(values.begin(), values.end()));
}

Json position_or_null(const io::Cloud& cloud, std::int64_t point) {
  return point >= 0 ? array_of(cloud.position(point)) : Json(nullptr);
}

Json fields_of(const io::Cloud& cloud) {
  Json fields = Json::array();
  for (const auto& column : cloud.columns()) {
    Json field{{"name", column->field.name}, {"type", std::string(base::name(column->field.type))}};
    if (column->field.count != 1) field["count"] = column->field.count;
    if (!column->field.unit.empty()) field["unit"] = column->field.unit;
    fields.push_back(std::move(field));
  }
  return fields;
}

// Least and greatest finite value of each scalar field: an intensity of 0 .. 255 shows here.
Json ranges_of(const io::Cloud& cloud) {
  Json ranges = Json::object();
  for (const auto& column : cloud.columns()) {
    if (column->field.count != 1) continue;
    double low = INFINITY, high = -INFINITY;
    for (std::int64_t i = 0; i < cloud.size(); ++i) {
      const double value = column->at(i);
      if (!std::isfinite(value)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
    ranges[column->field.name] = low <= high ? Json({low, high}) : Json(nullptr);
  }
  return ranges;
}

}  // namespace

bool is_model_file(const fs::path& path) {
  if (!io::is_hdf5_file(path)) return false;
  try {
    return io::Hdf5Reader(path).has_attribute("/", "sparseconv_model");
  } catch (const io::Hdf5Damage&) {
    throw;  // not to be tried again
  } catch (const base::Error&) {
    return false;  // damaged: io::read says how
  }
}

Json describe_cloud(const fs::path& path, const io::Cloud& cloud) {
  std::int64_t first = 0, last = cloud.size() - 1;
  const std::int64_t finite = cloud.finite_points();
  if (finite == 0) first = last = -1;
  while (finite > 0 && !cloud.is_finite(first)) ++first;
  while (finite > 0 && !cloud.is_finite(last)) --last;
  const auto bounds = cloud.bounds();
  Json entry{{"path", text_of(path)},
             {"format", cloud.format},
             {"points", cloud.size()},
             {"finite", finite},
             {"fields", fields_of(cloud)},
             {"min", bounds ? array_of(bounds->min) : Json(nullptr)},
             {"max", bounds ? array_of(bounds->max) : Json(nullptr)},
             {"first", position_or_null(cloud, first)},
             {"last", position_or_null(cloud, last)},
             {"clouds", cloud.clouds},
             {"ranges", ranges_of(cloud)}};
  if (cloud.height > 1) {
    entry["width"] = cloud.width;
    entry["height"] = cloud.height;
  }
  if (cloud.viewpoint) entry["viewpoint"] = array_of(*cloud.viewpoint);
  if (cloud.scale) entry["scale"] = array_of(*cloud.scale);
  if (cloud.offset) entry["offset"] = array_of(*cloud.offset);
  if (!cloud.crs.empty()) entry["crs"] = cloud.crs;
  if (!cloud.metadata.empty()) entry["metadata"] = cloud.metadata;
  return entry;
}

Json describe_labels(const fs::path& path, const io::Cloud& cloud) {
  const io::Column& label = cloud.get("label");
  const io::Column* instance = cloud.find("instance");
  std::vector<std::int64_t> classes, instances;
  std::map<std::int64_t, std::int64_t> counts;
  for (std::int64_t i = 0; i < cloud.size(); ++i) {
    classes.push_back(static_cast<std::int64_t>(label.at(i)));
    instances.push_back(instance ? static_cast<std::int64_t>(instance->at(i)) : 0);
    ++counts[classes.back()];
  }
  Json points_of_class = Json::object();
  for (const auto& [id, count] : counts) points_of_class[std::to_string(id)] = count;
  Json entry = describe_cloud(path, cloud);
  entry["format"] = "label";
  entry["classes"] = std::move(classes);      // one a point
  entry["instances"] = std::move(instances);  // one a point
  entry["points_of_class"] = std::move(points_of_class);
  return entry;
}

Json describe_voxels(const fs::path& path) {
  const sparseconv::VoxelFile file = sparseconv::read_voxel_file(path);
  const auto coords = file.tensor.coordinates->coords();
  Json low = nullptr, high = nullptr;
  double cells = 0;
  if (!coords.empty()) {
    std::array<std::int64_t, 3> min{}, max{};
    for (int axis = 0; axis < 3; ++axis) {
      const auto by_axis = [axis](const sparseconv::Coord& c) { return c[axis]; };
      const auto [least, most] = std::ranges::minmax(coords, {}, by_axis);
      min[static_cast<std::size_t>(axis)] = least[axis];
      max[static_cast<std::size_t>(axis)] = most[axis];
    }
    cells = file.tensor.coordinates->batch_size();
    for (std::size_t axis = 0; axis < 3; ++axis) {
      cells *= static_cast<double>(max[axis] - min[axis] + 1);
    }
    low = min;
    high = max;
  }
  const auto& shape = file.tensor.coordinates->spatial_shape();
  if (shape) {
    cells = file.tensor.coordinates->batch_size();
    for (const std::int64_t extent : *shape) cells *= static_cast<double>(extent);
  }
  return {{"path", text_of(path)},
          {"format", "voxels"},
          {"points", file.point_to_voxel.empty()
                         ? Json(nullptr)
                         : Json(static_cast<std::int64_t>(file.point_to_voxel.size()))},
          {"voxels", file.tensor.rows()},
          {"channels", file.tensor.channels()},
          {"features", file.feature_names},
          {"type", std::string(base::name(file.tensor.features.dtype()))},
          {"batch_size", file.tensor.coordinates->batch_size()},
          {"spatial_shape", shape ? Json(*shape) : Json(nullptr)},
          {"voxel_size", array_of(file.voxel_size)},
          {"origin", array_of(file.origin)},
          {"min_cell", low},
          {"max_cell", high},
          {"density", cells > 0 ? static_cast<double>(file.tensor.rows()) / cells : 0.0},
          {"has_labels", !file.labels.empty()}};
}

Description describe_file(const fs::path& path, const io::ReadOptions& options) {
  check_is_file(path);
  if (is_model_file(path)) return {describe_model(path), {}};
  if (sparseconv::is_voxel_file(path)) return {describe_voxels(path), {}};
  const io::Cloud cloud = io::read(path, options);
  const bool is_labels = cloud.format == "label";
  return {is_labels ? describe_labels(path, cloud) : describe_cloud(path, cloud), cloud.warnings};
}

}  // namespace apps
