#include "sparseconv/training/paste.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numbers>
#include <unordered_set>

namespace sparseconv::training {
namespace {

constexpr double kBeside = 1.0;    // metres around an object in which its ground is looked for
constexpr double kStanding = 0.3;  // metres above the lowest point that still count as ground

struct Surroundings {
  double lowest = INFINITY;
  std::int64_t ground = 0, standing = 0;  // points near the lowest, and above it
};

// Points within `radius` of (x, y), seen from above.
Surroundings look_around(const io::Cloud& cloud, double x, double y, double radius,
                         const std::vector<char>* left_out = nullptr) {
  std::vector<double> heights;
  for (std::int64_t i = 0; i < cloud.size(); ++i) {
    if (left_out != nullptr && (*left_out)[static_cast<std::size_t>(i)] != 0) continue;
    const auto p = cloud.position(i);
    if (std::abs(p[0] - x) <= radius && std::abs(p[1] - y) <= radius &&
        std::hypot(p[0] - x, p[1] - y) <= radius)
      heights.push_back(p[2]);
  }
  Surroundings around;
  for (const double z : heights) around.lowest = std::min(around.lowest, z);
  for (const double z : heights)
    ++(z < around.lowest + kStanding ? around.ground : around.standing);
  return around;
}

// Directions as cells of half a degree.
std::int64_t direction_cell(const std::array<double, 3>& p) {
  constexpr double kCell = 0.5 * std::numbers::pi / 180;
  const auto azimuth = static_cast<std::int64_t>(std::floor(std::atan2(p[1], p[0]) / kCell));
  const auto elevation =
      static_cast<std::int64_t>(std::floor(std::atan2(p[2], std::hypot(p[0], p[1])) / kCell));
  return azimuth * 1000 + elevation;
}

double range_of(const std::array<double, 3>& p) {
  return std::sqrt(p[0] * p[0] + p[1] * p[1] + p[2] * p[2]);
}

// The object turned about the sensor by `yaw` and lifted.
std::vector<std::array<double, 3>> placed(const InstanceBank::Object& object, double yaw,
                                          double lift) {
  const double c = std::cos(yaw), s = std::sin(yaw);
  std::vector<std::array<double, 3>> points;
  for (std::int64_t i = 0; i < object.points.cloud.size(); ++i) {
    const auto p = object.points.cloud.position(i);
    points.push_back({c * p[0] - s * p[1], s * p[0] + c * p[1], p[2] + lift});
  }
  return points;
}

void copy_rows(const io::Column* from, base::Tensor& to, std::int64_t at, std::int64_t count) {
  const std::int64_t width = to.numel() / std::max<std::int64_t>(to.size(0), 1);
  const auto bytes = static_cast<std::size_t>(base::bytes(to.dtype(), width));
  auto* target = static_cast<char*>(to.data()) + static_cast<std::size_t>(at) * bytes;
  const bool fits =
      from != nullptr && from->values.dtype() == to.dtype() && from->field.count == width;
  if (fits)
    std::memcpy(target, from->values.data(), static_cast<std::size_t>(count) * bytes);
  else
    std::memset(target, 0, static_cast<std::size_t>(count) * bytes);
}

void write_position(base::Tensor& column, std::int64_t row, double value) {
  if (column.dtype() == base::DType::f32)
    column.data<float>()[row] = static_cast<float>(value);
  else if (column.dtype() == base::DType::f64)
    column.data<double>()[row] = value;
  else
    base::fail("augment: cannot paste into a scan whose coordinates are ",
               base::name(column.dtype()));
}

LabelledCloud appended(const LabelledCloud& scan, const InstanceBank::Object& object,
                       const std::vector<std::array<double, 3>>& places) {
  const std::int64_t before = scan.cloud.size(), added = object.points.cloud.size();
  LabelledCloud all{.cloud = io::Cloud(before + added), .labels = scan.labels};
  for (const auto& column : scan.cloud.columns()) {
    base::Dims shape = column->values.shape();
    shape[0] = before + added;
    auto values = base::Tensor::empty(shape, column->values.dtype());
    copy_rows(column.get(), values, 0, before);
    copy_rows(object.points.cloud.find(column->field.name), values, before, added);
    const std::string& name = column->field.name;
    const int axis = name == "x" ? 0 : name == "y" ? 1 : name == "z" ? 2 : -1;
    for (std::int64_t i = 0; axis >= 0 && i < added; ++i) {
      write_position(values, before + i,
                     places[static_cast<std::size_t>(i)][static_cast<std::size_t>(axis)]);
    }
    all.cloud.add(column->field, std::move(values));
  }
  all.cloud.width = all.cloud.size();
  all.cloud.format = scan.cloud.format;
  all.labels.insert(all.labels.end(), object.points.labels.begin(), object.points.labels.end());
  if (!scan.instances.empty()) {
    all.instances = scan.instances;
    all.instances.resize(all.labels.size(), 0);
  }
  return all;
}

LabelledCloud without_shadow(const LabelledCloud& scan,
                             const std::vector<std::array<double, 3>>& places) {
  std::unordered_set<std::int64_t> hidden;
  double nearest = INFINITY;
  for (const auto& p : places) {
    hidden.insert(direction_cell(p));
    nearest = std::min(nearest, range_of(p));
  }
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < scan.cloud.size(); ++i) {
    const auto p = scan.cloud.position(i);
    if (range_of(p) < nearest || !hidden.contains(direction_cell(p))) rows.push_back(i);
  }
  return rows_of(scan, rows);
}

}  // namespace

void InstanceBank::add(const LabelledCloud& scan, std::span<const std::int32_t> classes,
                       std::int64_t least) {
  if (scan.instances.empty()) return;
  std::map<std::int32_t, std::vector<std::int64_t>> members;
  for (std::size_t i = 0; i < scan.labels.size(); ++i) {
    const bool is_wanted =
        std::find(classes.begin(), classes.end(), scan.labels[i]) != classes.end();
    if (is_wanted && scan.instances[i] != 0)
      members[scan.instances[i]].push_back(static_cast<std::int64_t>(i));
  }
  for (const auto& [number, rows] : members) {
    if (static_cast<std::int64_t>(rows.size()) < least) continue;
    Object object{.points = rows_of(scan, rows)};
    const auto bounds = object.points.cloud.bounds();
    if (!bounds) continue;
    object.x = (bounds->min[0] + bounds->max[0]) / 2;
    object.y = (bounds->min[1] + bounds->max[1]) / 2;
    object.radius =
        std::hypot(bounds->max[0] - bounds->min[0], bounds->max[1] - bounds->min[1]) / 2;
    if (object.radius > 3) continue;  // a number that two far objects share
    std::vector<char> own(scan.labels.size(), 0);
    for (const std::int64_t row : rows) own[static_cast<std::size_t>(row)] = 1;
    object.ground =
        look_around(scan.cloud, object.x, object.y, object.radius + kBeside, &own).lowest;
    if (std::isfinite(object.ground)) objects_.push_back(std::move(object));
  }
}

LabelledCloud with_pasted(const LabelledCloud& scan, const InstanceBank& bank, int count,
                          RandomStream random) {
  LabelledCloud result = scan;
  for (int i = 0; i < count; ++i) {
    const InstanceBank::Object& object = bank[random.integer(bank.size())];
    const double yaw = random.uniform(0, 2 * std::numbers::pi);
    const double c = std::cos(yaw), s = std::sin(yaw);
    const Surroundings there = look_around(result.cloud, c * object.x - s * object.y,
                                           s * object.x + c * object.y, object.radius + 0.5);
    if (there.ground < 3 || there.standing > 0) continue;
    const auto places = placed(object, yaw, there.lowest - object.ground);
    result = appended(without_shadow(result, places), object, places);
  }
  return result;
}

}  // namespace sparseconv::training
