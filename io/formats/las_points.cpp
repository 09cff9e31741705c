#include "io/formats/las_points.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "io/field_names.hpp"
#include "io/visit_field.hpp"

namespace io {
namespace {

constexpr std::int64_t kPiece = 512;  // points

// While the points are read, extra fields have names that no standard field has.
std::string place_name(std::size_t extra) { return "extra " + std::to_string(extra); }

bool is_all_zero(const base::Tensor& values) {
  const auto* bytes = static_cast<const char*>(values.data());
  return std::all_of(bytes, bytes + values.nbytes(), [](char c) { return c == 0; });
}

// The name of an extra field. A standard field of that name goes first, unless it holds nothing: so
// writers keep values that the standard field cannot hold, under its name or with `scalar_` before
// it.
std::string final_name(const Cloud& cloud, const LasExtra& extra) {
  const std::string raw = extra.name.empty() ? "extra" : extra.name;
  const bool is_marked =
      raw.starts_with(kLasBesideStandard) && cloud.find(raw.substr(kLasBesideStandard.size()));
  const std::string plain = is_marked ? raw.substr(kLasBesideStandard.size()) : raw;
  const std::string canonical = canonical_names({plain})[0];
  for (std::string name = canonical;;
       name = name == canonical && raw != canonical ? raw : name + "_2") {
    const Column* taken = cloud.find(name);
    const bool is_axis = name == "x" || name == "y" || name == "z";
    if (taken == nullptr || (!is_axis && name == plain && is_all_zero(taken->values))) return name;
  }
}

base::Tensor scaled(const base::Tensor& raw, const LasExtra& extra) {
  base::Tensor result = base::Tensor::empty(raw.shape(), base::DType::f64);
  visit_field_type(extra.type, [&]<class T>() {
    const T* in = raw.data<T>();
    double* out = result.data<double>();
    for (std::int64_t i = 0; i < raw.numel(); ++i) {
      const auto part = static_cast<std::size_t>(i % extra.count);
      out[i] = static_cast<double>(in[i]) * extra.scale[part] + extra.shift[part];
    }
  });
  return result;
}

}  // namespace

void LasPoints::add_bits(const std::string& name, int byte, int shift, int mask) {
  bits_.push_back({name, byte, shift, mask, new_column({points_}, base::DType::u8)});
}

LasPoints::LasPoints(const LasHeader& header, std::int64_t points)
    : header_(header), points_(points) {
  using enum base::DType;
  const auto direct = [&](const std::string& name, base::DType type, int offset) {
    layout_.fields.push_back({.name = name, .type = type, .offset = offset});
  };
  for (auto& axis : position_) axis = new_column({points}, f64);
  for (const LasSlot& slot : las_slots(header)) {
    if (slot.is_whole()) {
      direct(slot.name, slot.type, slot.byte);
    } else {
      add_bits(slot.name, slot.byte, slot.shift, (1 << slot.bits) - 1);
    }
  }
  if (const int at = header.wave_offset(); at >= 0) {
    direct("wave_descriptor", u8, at);
    direct("wave_offset", u64, at + 1);
    direct("wave_bytes", u32, at + 9);
    direct("wave_location", f32, at + 13);
    direct("wave_dx", f32, at + 17);
    direct("wave_dy", f32, at + 21);
    direct("wave_dz", f32, at + 25);
  }
  std::int64_t described = las_record_bytes(header.point_format);
  for (std::size_t e = 0; e < header.extras.size(); ++e) {
    const LasExtra& extra = header.extras[e];
    layout_.fields.push_back(
        {.name = place_name(e), .type = extra.type, .count = extra.count, .offset = extra.offset});
    described = extra.offset + extra.count * base::bytes(extra.type);
  }
  if (described < header.record_bytes) {
    layout_.fields.push_back({.name = "extra_bytes",
                              .type = u8,
                              .count = header.record_bytes - described,
                              .offset = described});
  }
  layout_.bytes = header.record_bytes;
  direct_ = std::make_unique<RecordReader>(layout_, points);
}

void LasPoints::put_positions(std::int64_t at, const char* records, std::int64_t count) {
  const std::int64_t stride = header_.record_bytes;
  double *x = position_[0].data<double>() + at, *y = position_[1].data<double>() + at,
         *z = position_[2].data<double>() + at;
  const auto scale = header_.scale, offset = header_.offset;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int32_t raw[3];
    std::memcpy(raw, records + i * stride, 12);
    x[i] = raw[0] * scale[0] + offset[0];
    y[i] = raw[1] * scale[1] + offset[1];
    z[i] = raw[2] * scale[2] + offset[2];
  }
}

// The byte is gathered once for all fields in it; taking them apart then runs on whole vectors.
void LasPoints::put_bits(std::int64_t at, const char* records, std::int64_t count) {
  std::array<std::uint8_t, kPiece> bytes;
  int gathered = -1;
  for (Bits& bits : bits_) {
    if (bits.byte != gathered) {
      for (std::int64_t i = 0; i < count; ++i)
        bytes[static_cast<std::size_t>(i)] =
            static_cast<std::uint8_t>(records[i * header_.record_bytes + bits.byte]);
      gathered = bits.byte;
    }
    std::uint8_t* out = bits.values.data<std::uint8_t>() + at;
    const int shift = bits.shift, mask = bits.mask;
    for (std::int64_t i = 0; i < count; ++i)
      out[i] = static_cast<std::uint8_t>(bytes[static_cast<std::size_t>(i)] >> shift & mask);
  }
}

// In pieces that stay in the first level cache while every field passes over them.
void LasPoints::put(std::int64_t at, const char* records, std::int64_t count) {
  for (std::int64_t begin = 0; begin < count; begin += kPiece) {
    const std::int64_t piece = std::min(kPiece, count - begin);
    const char* const from = records + begin * header_.record_bytes;
    direct_->put(at + begin, from, piece);
    put_positions(at + begin, from, piece);
    put_bits(at + begin, from, piece);
  }
}

Cloud LasPoints::finish() {
  Cloud direct(points_), cloud(points_);
  direct_->move_into(direct);
  for (std::size_t a = 0; a < 3; ++a)
    cloud.add(Field{std::string(1, "xyz"[a]), base::DType::f64, 1, ""}, std::move(position_[a]));
  cloud.add(direct.get("intensity").field, direct.get("intensity").values);
  for (Bits& bits : bits_)
    cloud.add(Field{bits.name, base::DType::u8, 1, ""}, std::move(bits.values));
  for (const auto& column : direct.columns()) {
    Field field = column->field;
    if (field.name.starts_with("extra ")) continue;
    if (field.name == "scan_angle") field.unit = las_angle_unit(header_.is_new());
    cloud.add(field, column->values);
  }
  for (std::size_t e = 0; e < header_.extras.size(); ++e) {
    const LasExtra& extra = header_.extras[e];
    const Column& raw = direct.get(place_name(e));
    Field field = raw.field;
    field.name = final_name(cloud, extra);
    if (extra.is_scaled) field.type = base::DType::f64;
    cloud.add(field, extra.is_scaled ? scaled(raw.values, extra) : raw.values);
  }
  cloud.scale = header_.scale;
  cloud.offset = header_.offset;
  cloud.crs = header_.crs;
  cloud.metadata["las_version"] = base::concat(header_.major, ".", header_.minor);
  cloud.metadata["las_point_format"] = std::to_string(header_.point_format);
  if (!header_.system.empty()) cloud.metadata["system"] = header_.system;
  if (!header_.software.empty()) cloud.metadata["software"] = header_.software;
  cloud.warnings = header_.warnings;
  return cloud;
}

}  // namespace io
