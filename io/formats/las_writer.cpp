#include "io/formats/las_writer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <tuple>

#include "io/fit_columns.hpp"
#include "io/formats/las_header.hpp"
#include "io/formats/las_records.hpp"
#include "io/source.hpp"
#include "io/visit_field.hpp"

namespace io {
namespace {

struct Plan {
  int point_format = 0;
  std::array<double, 3> scale{}, offset{};
  std::vector<LasSlot> slots;  // standard fields that the cloud has
  struct Extra {
    const Column* column;
    std::string name;
  };
  std::vector<Extra> extras;  // kept as extra bytes
  std::int64_t record_bytes = 0;
  bool is_new() const { return point_format >= 6; }
};

bool fits(const Column& column, const LasSlot& slot) {
  if (column.field.count != 1 || !holds_exactly(column, slot.type)) return false;
  // Formats before 6 count whole degrees, the others 0.006 of one.
  if (slot.name == "scan_angle") return column.field.type == slot.type;
  if (slot.is_whole()) return true;
  const base::Tensor values = converted(column, slot.type);
  const auto* bytes = values.data<std::uint8_t>();
  return std::all_of(bytes, bytes + values.numel(),
                     [&](std::uint8_t value) { return value >> slot.bits == 0; });
}

// What fits a slot of one point format fits it in the next: each question passes over a column
// once.
class FieldFits {
 public:
  explicit FieldFits(const Cloud& cloud) : cloud_(cloud) {}
  bool operator()(const LasSlot& slot) {
    const Column* column = cloud_.find(slot.name);
    if (column == nullptr) return false;
    const auto [known, is_new] = known_.try_emplace({slot.name, slot.bits, slot.type}, false);
    if (is_new) known->second = fits(*column, slot);
    return known->second;
  }

 private:
  const Cloud& cloud_;
  std::map<std::tuple<std::string, int, base::DType>, bool> known_;
};

int count_fitting(FieldFits& fits_slot, int point_format) {
  LasHeader header;
  header.point_format = point_format;
  const auto slots = las_slots(header);
  return static_cast<int>(std::count_if(slots.begin(), slots.end(), std::ref(fits_slot)));
}

// The format with the smallest record among those that hold most of the fields.
int choose_point_format(FieldFits& fits_slot) {
  int best = 0, most = -1;
  for (const int format : {0, 2, 1, 3, 6, 7, 8}) {
    const int count = count_fitting(fits_slot, format);
    if (count > most) {
      most = count;
      best = format;
    }
  }
  return best;
}

// To the nearest whole number, ties to even: adding 1.5 * 2^52 leaves no bits for a fraction.
// Unlike std::nearbyint it is an operation that every vector unit has. For magnitudes below 2^51.
double rounded(double value) {
  constexpr double kShift = 6755399441055744.0;
  return value + kShift - kShift;
}

const Column& axis_column(const Cloud& cloud, std::size_t axis) {
  return cloud.get(std::string(1, "xyz"[axis]));
}

bool reproduces(const Cloud& cloud, std::size_t axis, double scale, double offset) {
  constexpr std::int64_t kBlock = 1024;
  const Column& column = axis_column(cloud, axis);
  bool is_exact = true;
  visit_field_type(column.field.type, [&]<class T>() {
    const T* values = column.values.data<T>();
    for (std::int64_t begin = 0; begin < cloud.size() && is_exact; begin += kBlock) {
      int wrong = 0;
      for (std::int64_t i = begin; i < std::min(begin + kBlock, cloud.size()); ++i) {
        const auto value = static_cast<double>(values[i]);
        const double raw = rounded((value - offset) / scale);
        wrong |= !(std::fabs(raw) <= 2147483647.0) | (raw * scale + offset != value);
      }
      is_exact = wrong == 0;
    }
  });
  return is_exact;
}

// One axis of records [begin, begin + count).
void fill_axis(const Plan& plan, const Column& column, std::size_t axis, std::int64_t begin,
               std::int64_t count, char* out) {
  const double scale = plan.scale[axis], offset = plan.offset[axis];
  visit_field_type(column.field.type, [&]<class T>() {
    const T* values = column.values.data<T>() + begin;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto raw =
          static_cast<std::int32_t>(rounded((static_cast<double>(values[i]) - offset) / scale));
      std::memcpy(out + i * plan.record_bytes + 4 * static_cast<std::int64_t>(axis), &raw, 4);
    }
  });
}

// The scale of the source where it reproduces the coordinates; else the finest power of ten that
// reaches them all.
void choose_scale(Plan& plan, const Cloud& cloud, std::vector<std::string>& losses) {
  const auto bounds = cloud.bounds();
  for (std::size_t a = 0; a < 3; ++a) {
    if (cloud.scale && cloud.offset && (*cloud.scale)[a] != 0 &&
        reproduces(cloud, a, (*cloud.scale)[a], (*cloud.offset)[a])) {
      plan.scale[a] = (*cloud.scale)[a];
      plan.offset[a] = (*cloud.offset)[a];
      continue;
    }
    const double low = bounds ? bounds->min[a] : 0, high = bounds ? bounds->max[a] : 0;
    plan.offset[a] = std::floor(low / 2 + high / 2);
    const double reach = std::max({high - plan.offset[a], plan.offset[a] - low, 1e-9});
    ENSURE(std::isfinite(reach) && reach < 1e300, "coordinates from ", low, " to ", high,
           " are too far apart for LAS");
    plan.scale[a] = std::pow(10.0, std::ceil(std::log10(reach / 2147483000.0)));
    if (reproduces(cloud, a, plan.scale[a], plan.offset[a])) continue;
    losses.push_back(
        base::concat("field ", "xyz"[a], " is rounded to multiples of ", plan.scale[a]));
  }
}

Cloud without_non_finite(const Cloud& cloud, std::vector<std::string>& losses) {
  if (cloud.finite_points() == cloud.size()) return cloud;
  std::vector<std::int64_t> kept;
  for (std::int64_t i = 0; i < cloud.size(); ++i) {
    if (cloud.is_finite(i)) kept.push_back(i);
  }
  const auto count = static_cast<std::int64_t>(kept.size());
  losses.push_back(
      base::concat(cloud.size() - count, " points with a non-finite coordinate are left out"));
  Cloud result(count);
  for (const auto& column : cloud.columns()) {
    const std::int64_t row = column->field.count * base::bytes(column->field.type);
    base::Tensor values =
        column->field.count == 1
            ? base::Tensor::empty({count}, column->field.type)
            : base::Tensor::empty({count, column->field.count}, column->field.type);
    for (std::int64_t i = 0; i < count; ++i) {
      std::memcpy(
          static_cast<char*>(values.data()) + i * row,
          static_cast<const char*>(column->values.data()) + kept[static_cast<std::size_t>(i)] * row,
          static_cast<std::size_t>(row));
    }
    result.add(column->field, std::move(values));
  }
  result.scale = cloud.scale;
  result.offset = cloud.offset;
  result.crs = cloud.crs;
  result.metadata = cloud.metadata;
  return result;
}

Plan make_plan(const Cloud& cloud, std::vector<std::string>& losses) {
  Plan plan;
  FieldFits fits_slot(cloud);
  plan.point_format = choose_point_format(fits_slot);
  LasHeader header;
  header.point_format = plan.point_format;
  const auto slots = las_slots(header);
  plan.record_bytes = las_record_bytes(plan.point_format);
  for (const auto& column : cloud.columns()) {
    const std::string& name = column->field.name;
    if (name == "x" || name == "y" || name == "z") continue;
    const auto slot =
        std::find_if(slots.begin(), slots.end(), [&](const LasSlot& s) { return s.name == name; });
    if (slot != slots.end() && fits_slot(*slot)) {
      plan.slots.push_back(*slot);
      continue;
    }
    plan.extras.push_back(
        {column.get(), slot == slots.end() ? name : std::string(kLasBesideStandard) + name});
    if (plan.extras.back().name.size() > 32)
      losses.push_back("the name of field " + name + " is cut after 32 bytes");
    plan.record_bytes += column->field.count * base::bytes(column->field.type);
  }
  ENSURE(plan.record_bytes <= 65535, "a LAS point record holds at most 65535 bytes, ",
         plan.record_bytes, " are needed");
  choose_scale(plan, cloud, losses);
  return plan;
}

std::string records_text(const Plan& plan, const Cloud& cloud, std::int64_t& count,
                         std::vector<std::string>& losses) {
  std::string text;
  if (!plan.extras.empty()) {
    const std::size_t bytes = plan.extras.size() * kLasExtraBytesSize;
    ENSURE(bytes <= 65535, "LAS describes at most 341 extra fields, ", plan.extras.size(),
           " are needed");
    text += las_record_head(kLasSpec, kLasExtraBytesRecord, bytes);
    for (const auto& [column, name] : plan.extras) {
      LasBlock entry(kLasExtraBytesSize);
      entry.put(2, las_extra_code(column->field));
      if (column->field.count > 3) entry.put(3, static_cast<std::uint8_t>(column->field.count));
      entry.put_text(4, 32, name);
      text += entry.bytes();
    }
    ++count;
  }
  if (cloud.crs.size() + 1 > 65535) {
    losses.push_back(base::concat("the coordinate reference system of ", cloud.crs.size(),
                                  " bytes is not kept: a record holds 65535"));
  } else if (is_wkt(cloud.crs)) {
    text += las_record_head(kLasProjection, kLasWktRecord, cloud.crs.size() + 1) + cloud.crs + '\0';
    ++count;
  } else if (!cloud.crs.empty()) {
    text += las_citation_records(cloud.crs);
    count += 2;
  }
  return text;
}

// What the file said of its scanner and its software, where the 32 bytes of the header hold it.
std::optional<std::string> text_in_header(const Cloud& cloud, const char* key) {
  const auto entry = cloud.metadata.find(key);
  if (entry == cloud.metadata.end() || entry->second.size() > 32) return {};
  return entry->second;
}

std::string header_bytes(const Plan& plan, const Cloud& cloud, const std::string& records,
                         std::int64_t record_count) {
  const std::size_t size = plan.is_new() ? 375 : 227;
  LasBlock header(size);
  header.put_text(0, 4, "LASF");
  const bool has_wkt = plan.is_new() && (cloud.crs.empty() || is_wkt(cloud.crs));
  header.put(6,
             static_cast<std::uint16_t>(has_wkt ? 16 : 0));  // bit 4: the reference system is WKT
  header.put(24, std::uint8_t{1});
  header.put(25, static_cast<std::uint8_t>(plan.is_new() ? 4 : 2));
  header.put_text(26, 32, text_in_header(cloud, "system").value_or(""));
  header.put_text(58, 32, text_in_header(cloud, "software").value_or("sparseconv"));
  header.put(94, static_cast<std::uint16_t>(size));
  header.put(96, static_cast<std::uint32_t>(size + records.size()));
  header.put(100, static_cast<std::uint32_t>(record_count));
  header.put(104, static_cast<std::uint8_t>(plan.point_format));
  header.put(105, static_cast<std::uint16_t>(plan.record_bytes));
  const bool is_small = cloud.size() <= 4294967295;
  ENSURE(is_small || plan.is_new(), "LAS 1.2 holds at most 4294967295 points, the cloud has ",
         cloud.size());
  if (!plan.is_new()) header.put(107, static_cast<std::uint32_t>(cloud.size()));
  const auto bounds = cloud.bounds();
  for (std::size_t a = 0; a < 3; ++a) {
    header.put(131 + 8 * a, plan.scale[a]);
    header.put(155 + 8 * a, plan.offset[a]);
    header.put(179 + 16 * a, bounds ? bounds->max[a] : 0.0);
    header.put(187 + 16 * a, bounds ? bounds->min[a] : 0.0);
  }
  if (plan.is_new()) header.put(247, static_cast<std::uint64_t>(cloud.size()));
  return header.bytes();
}

void fill_slot(const LasSlot& slot, const base::Tensor& values, std::int64_t begin,
               std::int64_t count, std::int64_t stride, char* out) {
  if (slot.bits == base::bits(slot.type)) {
    visit_field_type(slot.type, [&]<class T>() {
      const T* in = values.data<T>() + begin;
      for (std::int64_t i = 0; i < count; ++i)
        std::memcpy(out + i * stride + slot.byte, in + i, sizeof(T));
    });
    return;
  }
  const auto* in = values.data<std::uint8_t>() + begin;
  for (std::int64_t i = 0; i < count; ++i)
    out[i * stride + slot.byte] =
        static_cast<char>(out[i * stride + slot.byte] | in[i] << slot.shift);
}

void write_points(Sink& sink, const Plan& plan, const Cloud& cloud) {
  std::vector<base::Tensor> values;
  for (const LasSlot& slot : plan.slots)
    values.push_back(converted(cloud.get(slot.name), slot.type));
  const std::int64_t block = std::max<std::int64_t>(kChunkBytes / plan.record_bytes, 1);
  std::string buffer;
  for (std::int64_t begin = 0; begin < cloud.size(); begin += block) {
    const std::int64_t count = std::min(block, cloud.size() - begin);
    buffer.assign(static_cast<std::size_t>(count * plan.record_bytes), '\0');
    for (std::size_t a = 0; a < 3; ++a) {
      fill_axis(plan, axis_column(cloud, a), a, begin, count, buffer.data());
    }
    for (std::size_t s = 0; s < values.size(); ++s)
      fill_slot(plan.slots[s], values[s], begin, count, plan.record_bytes, buffer.data());
    std::int64_t at = las_record_bytes(plan.point_format);
    for (const auto& [column, name] : plan.extras) {
      const std::int64_t bytes = column->field.count * base::bytes(column->field.type);
      const auto* values_here = static_cast<const char*>(column->values.data()) + begin * bytes;
      for (std::int64_t i = 0; i < count; ++i) {
        std::memcpy(buffer.data() + i * plan.record_bytes + at, values_here + i * bytes,
                    static_cast<std::size_t>(bytes));
      }
      at += bytes;
    }
    sink.write(buffer);
  }
}

// For report_lost_extras: without the metadata that the header holds, and the unit that a slot has
// by itself.
Cloud without_what_las_holds(const Cloud& cloud, const Plan& plan) {
  Cloud rest = cloud;
  for (const char* key : {"las_version", "las_point_format"}) rest.metadata.erase(key);
  for (const char* key : {"system", "software"}) {
    if (text_in_header(cloud, key)) rest.metadata.erase(key);
  }
  const Column* angle = cloud.find("scan_angle");
  const bool has_slot = std::any_of(plan.slots.begin(), plan.slots.end(),
                                    [](const LasSlot& slot) { return slot.name == "scan_angle"; });
  if (has_slot && angle->field.unit == las_angle_unit(plan.is_new())) {
    Field field = angle->field;
    field.unit.clear();
    rest.add(field, angle->values);
  }
  return rest;
}

}  // namespace

std::vector<std::string> write_las(Sink& sink, const Cloud& cloud, const WriteOptions&) {
  using enum base::DType;
  static constexpr base::DType kTypes[] = {f32, f64, u8, u16, u32, u64, i8, i16, i32, i64};
  std::vector<std::string> losses;
  const Cloud fitted = fit_columns(cloud, kTypes, las_holds_elements, losses);
  const Cloud finite = without_non_finite(fitted, losses);
  const Plan plan = make_plan(finite, losses);
  report_lost_extras(without_what_las_holds(cloud, plan), {.scale = true, .crs = true}, losses);
  std::int64_t record_count = 0;
  const std::string records = records_text(plan, finite, record_count, losses);
  sink.write(header_bytes(plan, finite, records, record_count));
  sink.write(records);
  write_points(sink, plan, finite);
  return losses;
}

}  // namespace io
