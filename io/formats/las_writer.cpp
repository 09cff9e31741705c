#include "io/formats/las_writer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <tuple>

#include "io/fit_columns.hpp"
#include "io/formats/las_header.hpp"
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
    plan.record_bytes += base::bytes(column->field.type);
  }
  ENSURE(plan.record_bytes <= 65535, "a LAS point record holds at most 65535 bytes, ",
         plan.record_bytes, " are needed");
  choose_scale(plan, cloud, losses);
  return plan;
}

// Bytes at fixed places.
class Block {
 public:
  explicit Block(std::size_t bytes) : bytes_(bytes, '\0') {}
  template <class T>
  void put(std::size_t at, T value) {
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
  }
  void put_text(std::size_t at, std::size_t size, std::string_view text) {
    std::memcpy(bytes_.data() + at, text.data(), std::min(size, text.size()));
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

std::string record_head(const char* user, int id, std::size_t bytes) {
  Block head(54);
  head.put_text(2, 16, user);
  head.put(18, static_cast<std::uint16_t>(id));
  head.put(20, static_cast<std::uint16_t>(bytes));
  return head.bytes();
}

std::uint8_t extra_code(base::DType type) {
  using enum base::DType;
  static constexpr base::DType kTypes[] = {u8, i8, u16, i16, u32, i32, u64, i64, f32, f64};
  return static_cast<std::uint8_t>(
      1 + (std::find(std::begin(kTypes), std::end(kTypes), type) - std::begin(kTypes)));
}

std::string records_text(const Plan& plan, const Cloud& cloud, std::int64_t& count,
                         std::vector<std::string>& losses) {
  std::string text;
  if (!plan.extras.empty()) {
    const std::size_t bytes = plan.extras.size() * kLasExtraBytesSize;
    ENSURE(bytes <= 65535, "LAS describes at most 341 extra fields, ", plan.extras.size(),
           " are needed");
    text += record_head(kLasSpec, kLasExtraBytesRecord, bytes);
    for (const auto& [column, name] : plan.extras) {
      Block entry(kLasExtraBytesSize);
      entry.put(2, extra_code(column->field.type));
      entry.put_text(4, 32, name);
      text += entry.bytes();
    }
    ++count;
  }
  if (!cloud.crs.empty() && cloud.crs.size() < 65535 && cloud.crs.find('[') != std::string::npos) {
    text += record_head(kLasProjection, kLasWktRecord, cloud.crs.size() + 1) + cloud.crs + '\0';
    ++count;
  } else if (!cloud.crs.empty()) {
    losses.push_back("the coordinate reference system is no WKT and is not kept");
  }
  return text;
}

std::string header_bytes(const Plan& plan, const Cloud& cloud, const std::string& records,
                         std::int64_t record_count) {
  const std::size_t size = plan.is_new() ? 375 : 227;
  Block header(size);
  header.put_text(0, 4, "LASF");
  header.put(
      6, static_cast<std::uint16_t>(plan.is_new() ? 16 : 0));  // bit 4: the reference system is WKT
  header.put(24, std::uint8_t{1});
  header.put(25, static_cast<std::uint8_t>(plan.is_new() ? 4 : 2));
  header.put_text(58, 32, "sparseconv");
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
      const std::int64_t bytes = base::bytes(column->field.type);
      fill_slot({"", static_cast<int>(at), 0, static_cast<int>(8 * bytes), column->field.type},
                column->values, begin, count, plan.record_bytes, buffer.data());
      at += bytes;
    }
    sink.write(buffer);
  }
}

}  // namespace

std::vector<std::string> write_las(Sink& sink, const Cloud& cloud, const WriteOptions&) {
  using enum base::DType;
  static constexpr base::DType kTypes[] = {f32, f64, u8, u16, u32, u64, i8, i16, i32, i64};
  std::vector<std::string> losses;
  Cloud extras = cloud;
  for (const char* key : {"las_version", "las_point_format"}) extras.metadata.erase(key);
  report_lost_extras(extras, {.scale = true, .crs = true}, losses);
  const Cloud split = fit_columns(cloud, kTypes, Elements::split, losses);
  const Cloud finite = without_non_finite(split, losses);
  const Plan plan = make_plan(finite, losses);
  std::int64_t record_count = 0;
  const std::string records = records_text(plan, finite, record_count, losses);
  sink.write(header_bytes(plan, finite, records, record_count));
  sink.write(records);
  write_points(sink, plan, finite);
  return losses;
}

}  // namespace io
