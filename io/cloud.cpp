#include "io/cloud.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "io/visit_field.hpp"

namespace io {
namespace {

std::string names_of(const Cloud& cloud) {
  std::string names;
  for (const auto& column : cloud.columns())
    names += (names.empty() ? "" : ", ") + column->field.name;
  return names.empty() ? "none" : names;
}

// Calls body(x, y, z) with pointers to the coordinates, typed where all three have one type, else
// converted.
template <class Body>
void with_coordinates(const Cloud& cloud, Body&& body) {
  const Column &x = cloud.get("x"), &y = cloud.get("y"), &z = cloud.get("z");
  const base::DType type = x.field.type;
  if (type == y.field.type && type == z.field.type &&
      (type == base::DType::f32 || type == base::DType::f64)) {
    base::visit_dtype<float, double>(type, "coordinates", [&]<class T>() {
      body(x.values.data<T>(), y.values.data<T>(), z.values.data<T>());
    });
    return;
  }
  const auto converted = [&](const Column& column) {
    std::vector<double> values(static_cast<std::size_t>(cloud.size()));
    for (std::int64_t i = 0; i < cloud.size(); ++i)
      values[static_cast<std::size_t>(i)] = column.at(i);
    return values;
  };
  const auto xs = converted(x), ys = converted(y), zs = converted(z);
  body(xs.data(), ys.data(), zs.data());
}

}  // namespace

double Column::at(std::int64_t point, std::int64_t element) const {
  double value = 0;
  visit_field_type(field.type, [&]<class T>() {
    value = static_cast<double>(values.data<T>()[point * field.count + element]);
  });
  return value;
}

const Column* Cloud::find(std::string_view name) const {
  for (const auto& column : columns_) {
    if (column->field.name == name) return column.get();
  }
  return nullptr;
}

const Column& Cloud::get(std::string_view name) const {
  const Column* column = find(name);
  ENSURE(column != nullptr, "no field ", name, "; fields are ", names_of(*this));
  return *column;
}

void Cloud::add(Field field, base::Tensor values) {
  ENSURE(field.count >= 1, "field ", field.name, " has ", field.count, " elements a point");
  ENSURE(values.dtype() == field.type, "field ", field.name, " is ", base::name(field.type),
         ", its values are ", base::name(values.dtype()));
  const std::int64_t rows = values.numel() / field.count;
  ENSURE(values.shape().rank() >= 1 && values.size(0) * field.count == values.numel(), "field ",
         field.name, ": values of shape ", base::to_string(values.shape()), " do not hold ",
         field.count, " elements a point");
  ENSURE(columns_.empty() ? points_ == 0 || rows == points_ : rows == points_, "field ", field.name,
         " has ", rows, " values, the cloud has ", points_, " points");
  points_ = rows;
  auto column = std::make_shared<const Column>(Column{std::move(field), std::move(values)});
  for (auto& existing : columns_) {
    if (existing->field.name == column->field.name) {
      existing = std::move(column);
      return;
    }
  }
  columns_.push_back(std::move(column));
}

void Cloud::remove(std::string_view name) {
  std::erase_if(columns_, [&](const auto& column) { return column->field.name == name; });
}

std::int64_t Cloud::finite_points() const {
  std::int64_t count = 0;
  if (points_ == 0) return 0;
  with_coordinates(*this, [&](const auto* x, const auto* y, const auto* z) {
    // A difference with itself is 0 for finite values and NaN otherwise; this form vectorises.
    for (std::int64_t i = 0; i < points_; ++i)
      count += (x[i] - x[i]) + (y[i] - y[i]) + (z[i] - z[i]) == 0;
  });
  return count;
}

std::optional<Cloud::Bounds> Cloud::bounds() const {
  if (points_ == 0) return {};
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Bounds bounds{{kInfinity, kInfinity, kInfinity}, {-kInfinity, -kInfinity, -kInfinity}};
  bool any = false;
  with_coordinates(*this, [&](const auto* x, const auto* y, const auto* z) {
    for (std::int64_t i = 0; i < points_; ++i) {
      if (!std::isfinite(x[i]) || !std::isfinite(y[i]) || !std::isfinite(z[i])) continue;
      any = true;
      const std::array<double, 3> p{static_cast<double>(x[i]), static_cast<double>(y[i]),
                                    static_cast<double>(z[i])};
      for (std::size_t axis = 0; axis < 3; ++axis) {
        bounds.min[axis] = std::min(bounds.min[axis], p[axis]);
        bounds.max[axis] = std::max(bounds.max[axis], p[axis]);
      }
    }
  });
  return any ? std::optional(bounds) : std::nullopt;
}

bool Cloud::is_finite(std::int64_t point) const {
  const auto p = position(point);
  return std::isfinite(p[0]) && std::isfinite(p[1]) && std::isfinite(p[2]);
}

std::array<double, 3> Cloud::position(std::int64_t point) const {
  return {get("x").at(point), get("y").at(point), get("z").at(point)};
}

}  // namespace io
