#include "io/fit_columns.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "io/visit_field.hpp"

namespace io {
namespace {

// True when `value` survives the way to To and back; nan survives in every float.
template <class To, class From>
bool survives(From value) {
  if constexpr (std::is_same_v<To, From>) return true;
  if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
    return static_cast<From>(static_cast<To>(value)) == value &&
           (value < From{0}) == (static_cast<To>(value) < To{0});
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // Powers of two, exact in From: the casts below are defined only inside the range of To.
    const auto bound = std::ldexp(From{1}, std::numeric_limits<To>::digits);
    if (!(value >= (std::is_signed_v<To> ? -bound : From{0}) && value < bound)) return false;
    return static_cast<From>(static_cast<To>(value)) == value &&
           !(value == 0 && std::signbit(value));
  } else if constexpr (std::is_integral_v<From>) {
    const To there = static_cast<To>(value);
    constexpr To bound =
        static_cast<To>(std::numeric_limits<From>::max());  // may round up to a power of two
    return there < bound ? static_cast<From>(there) == value
                         : there == bound &&
                               std::numeric_limits<From>::digits <= std::numeric_limits<To>::digits;
  } else {
    return std::isnan(value) || static_cast<From>(static_cast<To>(value)) == value;
  }
}

std::vector<Column> split_column(const Column& column) {
  std::vector<Column> parts;
  const std::int64_t points = column.values.size(0), count = column.field.count;
  for (std::int64_t e = 0; e < count; ++e) {
    Column part{
        {column.field.name + "_" + std::to_string(e), column.field.type, 1, column.field.unit},
        base::Tensor::empty({points}, column.field.type)};
    visit_field_type(column.field.type, [&]<class T>() {
      const T* in = column.values.data<T>();
      T* out = part.values.data<T>();
      for (std::int64_t i = 0; i < points; ++i) out[i] = in[i * count + e];
    });
    parts.push_back(std::move(part));
  }
  return parts;
}

// The allowed type for a column, and whether all values survive.
std::pair<base::DType, bool> choose_type(const Column& column, std::span<const base::DType> types) {
  std::pair<base::DType, bool> best{types.front(), false};
  for (const base::DType type : types) {
    if (type == column.field.type) return {type, true};
    const bool exact = holds_exactly(column, type);
    const bool is_better = exact != best.second ? exact
                           : exact              ? base::bits(type) < base::bits(best.first)
                                   : base::is_float(type) >= base::is_float(best.first) &&
                                         base::bits(type) > base::bits(best.first);
    if (is_better) best = {type, exact};
  }
  return best;
}

}  // namespace

void require_writable(const Cloud& cloud) {
  for (const char* axis : {"x", "y", "z"}) {
    const Column& column = cloud.get(axis);
    ENSURE(column.field.count == 1, "field ", axis, " has ", column.field.count,
           " elements a point, 1 is needed");
  }
}

bool holds_exactly(const Column& column, base::DType type) {
  bool exact = true;
  visit_field_type(column.field.type, [&]<class From>() {
    visit_field_type(type, [&]<class To>() {
      const From* values = column.values.data<From>();
      for (std::int64_t i = 0; i < column.values.numel() && exact; ++i)
        exact = survives<To>(values[i]);
    });
  });
  return exact;
}

base::Tensor converted(const Column& column, base::DType type) {
  if (type == column.field.type) return column.values;
  base::Tensor result = base::Tensor::empty(column.values.shape(), type);
  visit_field_type(column.field.type, [&]<class From>() {
    visit_field_type(type, [&]<class To>() {
      const From* in = column.values.data<From>();
      To* out = result.data<To>();
      for (std::int64_t i = 0; i < result.numel(); ++i) out[i] = static_cast<To>(in[i]);
    });
  });
  return result;
}

Cloud fit_columns(const Cloud& cloud, std::span<const base::DType> types,
                  HoldsElements holds_elements, std::vector<std::string>& losses) {
  Cloud fitted(cloud.size());
  const auto add = [&](const Column& column) {
    const auto [type, exact] = choose_type(column, types);
    if (!exact) {
      losses.push_back(base::concat("field ", column.field.name, ": ",
                                    base::name(column.field.type), " is written as ",
                                    base::name(type), ", which rounds"));
    }
    fitted.add(Field{column.field.name, type, column.field.count, column.field.unit},
               converted(column, type));
  };
  for (const auto& column : cloud.columns()) {
    const Field& field = column->field;
    if (field.count == 1 || holds_elements(field)) {
      add(*column);
    } else {
      losses.push_back(base::concat("field ", field.name, ": its ", field.count,
                                    " elements are written as fields ", field.name, "_0, ..."));
      for (const Column& part : split_column(*column)) add(part);
    }
  }
  fitted.width = cloud.width;
  fitted.height = cloud.height;
  fitted.viewpoint = cloud.viewpoint;
  fitted.scale = cloud.scale;
  fitted.offset = cloud.offset;
  fitted.crs = cloud.crs;
  fitted.metadata = cloud.metadata;
  return fitted;
}

void report_lost_extras(const Cloud& cloud, const Holds& holds, std::vector<std::string>& losses) {
  const std::array<double, 7> identity{0, 0, 0, 1, 0, 0, 0};
  if (!holds.organised && cloud.height > 1) {
    losses.push_back(
        base::concat("the grid of ", cloud.width, " x ", cloud.height, " points is not kept"));
  }
  if (!holds.viewpoint && cloud.viewpoint && *cloud.viewpoint != identity)
    losses.push_back("the view point is not kept");
  if (!holds.scale && (cloud.scale || cloud.offset))
    losses.push_back("scale and offset of the coordinates are not kept");
  if (!holds.crs && !cloud.crs.empty())
    losses.push_back("the coordinate reference system is not kept");
  if (!holds.metadata && !cloud.metadata.empty()) {
    std::string keys;
    for (const auto& [key, value] : cloud.metadata) keys += (keys.empty() ? "" : ", ") + key;
    losses.push_back("metadata is not kept: " + keys);
  }
  if (holds.units) return;
  for (const auto& column : cloud.columns()) {
    if (!column->field.unit.empty())
      losses.push_back("the unit of " + column->field.name + " is not kept");
  }
}

}  // namespace io
