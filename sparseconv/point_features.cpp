#include "sparseconv/point_features.hpp"

#include <algorithm>
#include <limits>

namespace sparseconv::detail {
namespace {

constexpr const char* kOperation = "voxelize";

bool is_scalar(const io::Column& column) { return column.field.count == 1; }

std::string list_fields(const io::Cloud& cloud) {
  std::string text;
  for (const auto& column : cloud.columns())
    text += (text.empty() ? "" : ", ") + column->field.name;
  return text.empty() ? "none" : text;
}

int axis_of(const std::string& name, const std::array<const char*, 3>& names) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

// Colours of integer type are 0..max of the type; floating point ones are 0..1 as stored.
double color_scale(base::DType type) {
  double scale = 1;
  base::visit_dtype<double, float, std::int64_t, std::int32_t, std::int16_t, std::int8_t,
                    std::uint64_t, std::uint32_t, std::uint16_t, std::uint8_t>(
      type, kOperation, [&]<class T>() {
        if constexpr (std::numeric_limits<T>::is_integer)
          scale = 1.0 / static_cast<double>(std::numeric_limits<T>::max());
      });
  return scale;
}

}  // namespace

std::array<const io::Column*, 3> position_columns(const io::Cloud& cloud) {
  std::array<const io::Column*, 3> columns{};
  if (cloud.size() == 0) return columns;
  for (std::size_t a = 0; a < 3; ++a) {
    columns[a] = cloud.find(std::array{"x", "y", "z"}[a]);
    ENSURE(columns[a] && is_scalar(*columns[a]), kOperation, ": the cloud has no scalar field ",
           std::array{"x", "y", "z"}[a], "; it has ", list_fields(cloud));
  }
  return columns;
}

std::vector<std::string> default_features(const io::Cloud& cloud) {
  std::vector<std::string> names{"x", "y", "z"};
  for (const auto& column : cloud.columns()) {
    const std::string& name = column->field.name;
    if (is_scalar(*column) && axis_of(name, {"x", "y", "z"}) < 0) names.push_back(name);
  }
  return names;
}

std::vector<FeatureSource> find_features(const io::Cloud& cloud,
                                         const std::vector<std::string>& names,
                                         const std::map<std::string, double>& defaults) {
  using Kind = FeatureSource::Kind;
  std::vector<FeatureSource> sources;
  const auto positions = position_columns(cloud);
  for (const std::string& name : names) {
    const int position = axis_of(name, {"x", "y", "z"}), offset = axis_of(name, {"dx", "dy", "dz"});
    const io::Column* column = cloud.find(name);
    if (position >= 0) {
      sources.push_back({Kind::position, position, positions[static_cast<std::size_t>(position)]});
    } else if (column && is_scalar(*column)) {
      const bool is_color = axis_of(name, {"r", "g", "b"}) >= 0;
      sources.push_back(
          {.column = column, .scale = is_color ? color_scale(column->values.dtype()) : 1.0});
    } else if (offset >= 0) {
      sources.push_back({Kind::offset, offset, positions[static_cast<std::size_t>(offset)]});
    } else if (name == "one") {
      sources.push_back({.kind = Kind::constant, .value = 1});
    } else if (const auto found = defaults.find(name); found != defaults.end()) {
      sources.push_back({.kind = Kind::constant, .value = found->second});
    } else {
      // Zero points are legal whatever fields their file knows; nothing is read from them.
      ENSURE(cloud.size() == 0, kOperation, ": the cloud has no scalar field ", name, "; it has ",
             list_fields(cloud));
      sources.push_back({.kind = Kind::constant});
    }
  }
  return sources;
}

}  // namespace sparseconv::detail
