#include "io/formats/las_header.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "io/number_text.hpp"

namespace io {
namespace {

constexpr std::int64_t kMaxRecords = 100000;  // variable length records looked at

// The bytes of a header or record, read by little-endian fields.
class Fields {
 public:
  Fields(const Source& source, std::int64_t offset, std::int64_t bytes)
      : bytes_(source.read_text(offset, bytes)) {}
  template <class T>
  T at(std::size_t offset) const {
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  std::string text(std::size_t offset, std::size_t size) const {
    const std::string_view field = std::string_view(bytes_).substr(offset, size);
    return valid_utf8(field.substr(0, std::min(field.find('\0'), field.size())));
  }

 private:
  std::string bytes_;
};

void add_extra(LasHeader& header, const Fields& record, std::size_t at, std::int64_t& offset) {
  using enum base::DType;
  static constexpr base::DType kTypes[] = {u8, u8, i8, u16, i16, u32, i32, u64, i64, f32, f64};
  const int code = record.at<std::uint8_t>(at + 2), options = record.at<std::uint8_t>(at + 3);
  LasExtra extra{.name = record.text(at + 4, 32), .offset = offset};
  if (code == 0) {
    extra.count = options;  // undocumented bytes: the options say how many
  } else if (code <= 30) {
    extra.type = kTypes[(code - 1) % 10 + 1];
    extra.count = (code - 1) / 10 + 1;
    const bool has_scale = (options & 8) != 0, has_shift = (options & 16) != 0;
    extra.is_scaled = has_scale || has_shift;
    for (std::size_t i = 0; i < 3; ++i) {
      if (has_scale) extra.scale[i] = record.at<double>(at + 112 + 8 * i);
      if (has_shift) extra.shift[i] = record.at<double>(at + 136 + 8 * i);
    }
  } else {
    header.warnings.push_back(
        base::concat("extra bytes VLR: data type ", code, " of ", extra.name, " is not known"));
    offset = header.record_bytes;  // nothing after it can be placed
    return;
  }
  const std::int64_t bytes = extra.count * base::bytes(extra.type);
  if (offset + bytes > header.record_bytes) {
    header.warnings.push_back("extra bytes VLR: field " + extra.name +
                              " does not fit the point record");
    offset = header.record_bytes;
    return;
  }
  offset += bytes;
  if (extra.count > 0) header.extras.push_back(std::move(extra));
}

void take_record(LasHeader& header, const Source& source, const std::string& user, int id,
                 std::int64_t offset, std::int64_t bytes) {
  if (user == kLasProjection &&
      (id == kLasWktRecord || (id == kLasGeoAsciiRecord && header.crs.empty()))) {
    std::string text = source.read_text(offset, std::min<std::int64_t>(bytes, 1 << 20));
    text.resize(std::min(text.find('\0'), text.size()));
    header.crs = valid_utf8(text);
  }
  if (user == kLazRecordUser && id == kLazRecord && header.laz_record.empty()) {
    header.laz_record = source.read_text(offset, std::min<std::int64_t>(bytes, 1024));
  }
  if (user == kLasSpec && id == kLasExtraBytesRecord && header.extras.empty()) {
    const std::int64_t entries = bytes / kLasExtraBytesSize;
    const Fields record(source, offset, entries * kLasExtraBytesSize);
    std::int64_t place = las_record_bytes(header.point_format);
    for (std::int64_t i = 0; i < entries && place < header.record_bytes; ++i) {
      add_extra(header, record, static_cast<std::size_t>(i * kLasExtraBytesSize), place);
    }
  }
}

// Records between the header and the points, or after the points ("extended"). Damage here costs no
// points.
void read_records(LasHeader& header, const Source& source, std::int64_t begin, std::int64_t end,
                  std::int64_t count, bool is_extended) {
  const std::int64_t head = is_extended ? 60 : 54;
  const char* kind = is_extended ? "EVLR" : "VLR";
  std::int64_t offset = begin;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i == kMaxRecords || offset < 0 || offset > end - head) {
      header.warnings.push_back(
          base::concat("the header claims ", count, " ", kind, "s, ", i, " fit before byte ", end));
      return;
    }
    const Fields record(source, offset, head);
    const std::uint64_t bytes =
        is_extended ? record.at<std::uint64_t>(20) : record.at<std::uint16_t>(20);
    if (bytes > static_cast<std::uint64_t>(end - offset - head)) {
      header.warnings.push_back(base::concat(kind, " ", i, " at byte ", offset, " claims ", bytes,
                                             " bytes, ", end - offset - head, " are there"));
      return;
    }
    take_record(header, source, record.text(2, 16), record.at<std::uint16_t>(18), offset + head,
                static_cast<std::int64_t>(bytes));
    offset += head + static_cast<std::int64_t>(bytes);
  }
}

void check_points(const LasHeader& header, const Source& source) {
  ENSURE(header.points_offset >= header.header_bytes && header.points_offset <= source.size(),
         "offset to point data ", header.points_offset, " is not between the header of ",
         header.header_bytes, " bytes and the end of the file at byte ", source.size());
  const int smallest = las_record_bytes(header.point_format);
  ENSURE(header.record_bytes >= smallest, "point record length ", header.record_bytes, ", format ",
         header.point_format, " needs ", smallest);
  for (std::size_t a = 0; a < 3; ++a) {
    ENSURE(std::isfinite(header.scale[a]) && header.scale[a] != 0, "scale of ", "xyz"[a], " is ",
           header.scale[a]);
    ENSURE(std::isfinite(header.offset[a]), "offset of ", "xyz"[a], " is ", header.offset[a]);
  }
  if (header.is_compressed) return;
  const std::int64_t there = (source.size() - header.points_offset) / header.record_bytes;
  ENSURE(header.points <= there, "the header claims ", header.points, " points of ",
         header.record_bytes, " bytes, ", there, " are there from byte ", header.points_offset);
}

}  // namespace

std::vector<LasSlot> las_slots(const LasHeader& header) {
  using enum base::DType;
  std::vector<LasSlot> slots;
  if (header.is_new()) {
    slots = {{"intensity", 12, 0, 16, u16},         {"return_number", 14, 0, 4, u8},
             {"number_of_returns", 14, 4, 4, u8},   {"class_flags", 15, 0, 4, u8},
             {"scanner_channel", 15, 4, 2, u8},     {"scan_direction", 15, 6, 1, u8},
             {"edge_of_flight_line", 15, 7, 1, u8}, {"class", 16, 0, 8, u8},
             {"user_data", 17, 0, 8, u8},           {"scan_angle", 18, 0, 16, i16},
             {"point_source_id", 20, 0, 16, u16}};
  } else {
    slots = {{"intensity", 12, 0, 16, u16},         {"return_number", 14, 0, 3, u8},
             {"number_of_returns", 14, 3, 3, u8},   {"scan_direction", 14, 6, 1, u8},
             {"edge_of_flight_line", 14, 7, 1, u8}, {"class", 15, 0, 5, u8},
             {"class_flags", 15, 5, 3, u8},         {"scan_angle", 16, 0, 8, i8},
             {"user_data", 17, 0, 8, u8},           {"point_source_id", 18, 0, 16, u16}};
  }
  if (const int at = header.time_offset(); at >= 0) slots.push_back({"time", at, 0, 64, f64});
  if (const int at = header.colour_offset(); at >= 0) {
    slots.push_back({"r", at, 0, 16, u16});
    slots.push_back({"g", at + 2, 0, 16, u16});
    slots.push_back({"b", at + 4, 0, 16, u16});
  }
  if (const int at = header.nir_offset(); at >= 0) slots.push_back({"nir", at, 0, 16, u16});
  return slots;
}

int las_record_bytes(int point_format) {
  static constexpr int kBytes[] = {20, 28, 26, 34, 57, 63, 30, 36, 38, 59, 67};
  return kBytes[point_format];
}

int LasHeader::time_offset() const {
  static constexpr int kOffsets[] = {-1, 20, -1, 20, 20, 20, 22, 22, 22, 22, 22};
  return kOffsets[point_format];
}
int LasHeader::colour_offset() const {
  static constexpr int kOffsets[] = {-1, -1, 20, 28, -1, 28, -1, 30, 30, -1, 30};
  return kOffsets[point_format];
}
int LasHeader::nir_offset() const { return point_format == 8 || point_format == 10 ? 36 : -1; }
int LasHeader::wave_offset() const {
  static constexpr int kOffsets[] = {-1, -1, -1, -1, 28, 34, -1, -1, -1, 30, 38};
  return kOffsets[point_format];
}

LasHeader read_las_header(const Source& source) {
  ENSURE(source.head().starts_with("LASF"), "LAS: the signature LASF is missing");
  ENSURE(source.size() >= 227, "LAS: a header has at least 227 bytes, the file has ",
         source.size());
  const Fields fields(source, 0, std::min<std::int64_t>(source.size(), 375));
  LasHeader header;
  header.major = fields.at<std::uint8_t>(24);
  header.minor = fields.at<std::uint8_t>(25);
  ENSURE(header.major == 1 && header.minor <= 5, "LAS: version ", header.major, ".", header.minor,
         " is not known");
  header.system = fields.text(26, 32);
  header.software = fields.text(58, 32);
  header.header_bytes = fields.at<std::uint16_t>(94);
  const int smallest = header.minor >= 4 ? 375 : header.minor == 3 ? 235 : 227;
  ENSURE(header.header_bytes >= smallest && header.header_bytes <= source.size(),
         "LAS: header size ", header.header_bytes, ": version 1.", header.minor, " has at least ",
         smallest, ", the file ", source.size(), " bytes");
  header.points_offset = fields.at<std::uint32_t>(96);
  const std::int64_t records = fields.at<std::uint32_t>(100);
  const int format = fields.at<std::uint8_t>(104);
  header.is_compressed = (format & 0xC0) != 0;
  header.point_format = format & 0x3F;
  ENSURE(header.point_format <= 10, "LAS: point format ", header.point_format, " is not known");
  header.record_bytes = fields.at<std::uint16_t>(105);
  std::uint64_t points = fields.at<std::uint32_t>(107);
  if (header.minor >= 4 && fields.at<std::uint64_t>(247) != 0)
    points = fields.at<std::uint64_t>(247);
  ENSURE(points < std::uint64_t{1} << 60, "the header claims ", points, " points, the file has ",
         source.size(), " bytes");
  header.points = static_cast<std::int64_t>(points);
  for (std::size_t a = 0; a < 3; ++a) {
    header.scale[a] = fields.at<double>(131 + 8 * a);
    header.offset[a] = fields.at<double>(155 + 8 * a);
  }
  check_points(header, source);
  read_records(header, source, header.header_bytes, header.points_offset, records, false);
  if (header.minor >= 4 && fields.at<std::uint32_t>(243) > 0) {
    const std::uint64_t begin = fields.at<std::uint64_t>(235);
    const std::int64_t count = fields.at<std::uint32_t>(243);
    if (begin > static_cast<std::uint64_t>(source.size())) {
      header.warnings.push_back(base::concat(count, " EVLRs are said to start at byte ", begin,
                                             ", the file has ", source.size()));
    } else {
      read_records(header, source, static_cast<std::int64_t>(begin), source.size(), count, true);
    }
  }
  return header;
}

}  // namespace io
