// The header of LAS 1.0 to 1.5, its variable length records, and where each field stands in a point
// record.
#pragma once
#include <array>

#include "io/cloud.hpp"
#include "io/source.hpp"

namespace io {

struct LasExtra {  // a field described by the extra bytes record
  std::string name;
  base::DType type = base::DType::u8;
  std::int64_t count = 1;
  std::int64_t offset = 0;  // in the point record
  bool is_scaled = false;   // value = raw * scale + offset, as double
  std::array<double, 3> scale{1, 1, 1}, shift{0, 0, 0};
};

struct LasHeader {
  int major = 1, minor = 2, point_format = 0;
  bool is_compressed = false;  // LAZ
  std::int64_t header_bytes = 0, points_offset = 0, record_bytes = 0, points = 0;
  std::array<double, 3> scale{1, 1, 1}, offset{0, 0, 0};
  std::string system, software, crs;
  std::string laz_record;  // the body of the record 'laszip encoded'
  std::vector<LasExtra> extras;
  std::vector<std::string> warnings;

  bool is_new() const { return point_format >= 6; }
  // Offsets in the record; -1 where the point format has no such field.
  int time_offset() const, colour_offset() const, nir_offset() const, wave_offset() const;
};

// Where a standard field but the position stands in a record, and what it holds.
struct LasSlot {
  std::string name;
  int byte, shift, bits;  // whole elements have shift 0 and the bits of their type
  base::DType type;
  bool is_whole() const { return bits == base::bits(type); }
};
// In the order in which clouds have them; wave packets are not among them.
std::vector<LasSlot> las_slots(const LasHeader& header);

// Bytes of a record of the format without extra bytes.
int las_record_bytes(int point_format);
LasHeader read_las_header(const Source& source);

// Before the name of an extra field that holds what the standard field of that name cannot: two
// fields of one name are more than other readers take.
inline constexpr std::string_view kLasBesideStandard = "scalar_";
inline constexpr const char* kLasProjection = "LASF_Projection";
inline constexpr const char* kLasSpec = "LASF_Spec";
inline constexpr const char* kLazRecordUser = "laszip encoded";
inline const char* las_angle_unit(bool is_new) { return is_new ? "0.006 degree" : "degree"; }
inline constexpr int kLasGeoKeysRecord = 34735, kLasGeoAsciiRecord = 34737;
inline constexpr int kLasWktRecord = 2112, kLasExtraBytesRecord = 4, kLasExtraBytesSize = 192,
                     kLazRecord = 22204;

}  // namespace io
