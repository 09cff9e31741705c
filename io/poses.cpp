#include "io/poses.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "io/formats/text_table.hpp"
#include "io/number_text.hpp"

namespace io {
namespace {

Pose pose_of(const std::vector<std::string>& cells, std::int64_t line) {
  ENSURE(cells.size() == 12, "line ", line, ": ", cells.size(), " numbers, a pose has 12");
  Pose pose;
  for (std::size_t i = 0; i < 12; ++i) {
    Number number;
    const char* const end = cells[i].data() + cells[i].size();
    ENSURE(scan_number(cells[i].data(), end, number) == end && std::isfinite(number.value), "line ",
           line, ": ", quote(cells[i]), " is no finite number");
    if (i % 4 == 3)
      pose.translation[i / 4] = number.value;
    else
      pose.rotation[i / 4][i % 4] = number.value;
  }
  return pose;
}

std::array<double, 3> rotated(const Pose& pose, const std::array<double, 3>& v) {
  std::array<double, 3> result{};
  for (std::size_t i = 0; i < 3; ++i)
    result[i] =
        pose.rotation[i][0] * v[0] + pose.rotation[i][1] * v[1] + pose.rotation[i][2] * v[2];
  return result;
}

// Replaces three columns by what `map` makes of them, as doubles.
template <class Map>
void map_columns(Cloud& cloud, const std::array<const char*, 3>& names, Map&& map) {
  std::array<const Column*, 3> in{};
  std::array<base::Tensor, 3> out;
  for (std::size_t a = 0; a < 3; ++a) {
    in[a] = cloud.find(names[a]);
    if (in[a] == nullptr || in[a]->field.count != 1) return;
    out[a] = base::Tensor::empty({cloud.size()}, base::DType::f64);
  }
  for (std::int64_t i = 0; i < cloud.size(); ++i) {
    const std::array<double, 3> moved =
        map(std::array<double, 3>{in[0]->at(i), in[1]->at(i), in[2]->at(i)});
    for (std::size_t a = 0; a < 3; ++a) out[a].data<double>()[i] = moved[a];
  }
  for (std::size_t a = 0; a < 3; ++a)
    cloud.add(Field{names[a], base::DType::f64, 1, in[a]->field.unit}, std::move(out[a]));
}

// Fields of the first sweep that all others have, too.
std::vector<Field> common_fields(const std::vector<Cloud>& sweeps) {
  std::vector<Field> fields;
  for (const auto& column : sweeps.front().columns()) {
    const bool is_common = std::all_of(sweeps.begin(), sweeps.end(), [&](const Cloud& sweep) {
      const Column* other = sweep.find(column->field.name);
      return other != nullptr && other->field.type == column->field.type &&
             other->field.count == column->field.count;
    });
    if (is_common) fields.push_back(column->field);
  }
  return fields;
}

}  // namespace

std::array<double, 3> Pose::apply(const std::array<double, 3>& point) const {
  auto result = rotated(*this, point);
  for (std::size_t i = 0; i < 3; ++i) result[i] += translation[i];
  return result;
}

Pose compose(const Pose& outer, const Pose& inner) {
  Pose result;
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      result.rotation[i][j] = 0;
      for (std::size_t k = 0; k < 3; ++k)
        result.rotation[i][j] += outer.rotation[i][k] * inner.rotation[k][j];
    }
  }
  result.translation = outer.apply(inner.translation);
  return result;
}

Pose inverse(const Pose& pose) {
  const auto& m = pose.rotation;
  const auto minor = [&](std::size_t i, std::size_t j) {
    const std::size_t a = (i + 1) % 3, b = (i + 2) % 3, c = (j + 1) % 3, d = (j + 2) % 3;
    return m[a][c] * m[b][d] - m[a][d] * m[b][c];
  };
  const double determinant = m[0][0] * minor(0, 0) + m[0][1] * minor(0, 1) + m[0][2] * minor(0, 2);
  ENSURE(std::isfinite(determinant) && determinant != 0,
         "the matrix of a pose is singular (determinant ", determinant, ")");
  Pose result;
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) result.rotation[i][j] = minor(j, i) / determinant;
  }
  const auto back = rotated(result, pose.translation);
  result.translation = {-back[0], -back[1], -back[2]};
  return result;
}

std::vector<Pose> read_poses(const std::filesystem::path& path) {
  const Source source(path);
  LineReader lines(source);
  std::vector<Pose> poses;
  for (std::string_view line; lines.next(line);) {
    if (is_data_line(line)) poses.push_back(pose_of(split_cells(line, {}), lines.line()));
  }
  return poses;
}

Pose read_calibration(const std::filesystem::path& path) {
  const Source source(path);
  LineReader lines(source);
  for (std::string_view line; lines.next(line);) {
    if (!line.starts_with("Tr:") && !line.starts_with("Tr_velo_to_cam:")) continue;
    return pose_of(split_cells(line.substr(line.find(':') + 1), {}), lines.line());
  }
  base::fail("no line Tr: or Tr_velo_to_cam: in ", lines.line(), " lines");
}

std::vector<Pose> sensor_poses(std::span<const Pose> camera_poses, const Pose& lidar_to_camera) {
  const Pose camera_to_lidar = inverse(lidar_to_camera);
  std::vector<Pose> poses;
  for (const Pose& pose : camera_poses)
    poses.push_back(compose(camera_to_lidar, compose(pose, lidar_to_camera)));
  return poses;
}

Cloud transformed(const Cloud& cloud, const Pose& pose) {
  Cloud result = cloud;
  map_columns(result, {"x", "y", "z"}, [&](const auto& p) { return pose.apply(p); });
  map_columns(result, {"nx", "ny", "nz"}, [&](const auto& n) { return rotated(pose, n); });
  result.viewpoint.reset();
  result.scale.reset();
  result.offset.reset();
  return result;
}

Cloud concatenated(std::vector<Cloud> parts, const std::string& number_field) {
  std::int64_t points = 0;
  for (const Cloud& part : parts) points += part.size();
  Cloud joined(points);
  for (const Field& field : common_fields(parts)) {
    base::Tensor values = field.count == 1 ? base::Tensor::empty({points}, field.type)
                                           : base::Tensor::empty({points, field.count}, field.type);
    char* out = static_cast<char*>(values.data());
    for (Cloud& part : parts) {
      const base::Tensor& column = part.get(field.name).values;
      if (column.numel() > 0)
        std::memcpy(out, column.data(), static_cast<std::size_t>(column.nbytes()));
      out += column.nbytes();
      part.remove(field.name);
    }
    joined.add(field, std::move(values));
  }
  base::Tensor number = base::Tensor::empty({points}, base::DType::i32);
  std::int64_t begin = 0;
  for (std::size_t s = 0; s < parts.size(); ++s) {
    std::fill_n(number.data<std::int32_t>() + begin, parts[s].size(), static_cast<std::int32_t>(s));
    begin += parts[s].size();
  }
  joined.add(Field{number_field, base::DType::i32, 1, ""}, std::move(number));
  joined.width = points;
  joined.clouds = static_cast<std::int64_t>(parts.size());
  return joined;
}

Cloud accumulate(std::span<const Cloud* const> sweeps, std::span<const Pose> poses,
                 std::size_t reference) {
  ENSURE(sweeps.size() == poses.size(), "accumulate: ", sweeps.size(), " sweeps, ", poses.size(),
         " poses");
  ENSURE(reference < sweeps.size(), "accumulate: reference ", reference, " of ", sweeps.size(),
         " sweeps");
  const Pose to_reference = inverse(poses[reference]);
  std::vector<Cloud> moved;
  for (std::size_t s = 0; s < sweeps.size(); ++s) {
    moved.push_back(transformed(*sweeps[s], compose(to_reference, poses[s])));
  }
  Cloud joined = concatenated(std::move(moved), "sweep");
  joined.format = sweeps[reference]->format;
  return joined;
}

}  // namespace io
