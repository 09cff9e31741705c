#include "io/formats/las_records.hpp"

#include "io/formats/las_header.hpp"

namespace io {

std::string las_record_head(const char* user, int id, std::size_t bytes) {
  LasBlock head(54);
  head.put_text(2, 16, user);
  head.put(18, static_cast<std::uint16_t>(id));
  head.put(20, static_cast<std::uint16_t>(bytes));
  return head.bytes();
}

bool las_holds_elements(const Field& field) {
  return field.count <= (field.type == base::DType::u8 ? 255 : 3);
}

std::uint8_t las_extra_code(const Field& field) {
  using enum base::DType;
  static constexpr base::DType kTypes[] = {u8, i8, u16, i16, u32, i32, u64, i64, f32, f64};
  if (field.count > 3) return 0;
  return static_cast<std::uint8_t>(
      1 + 10 * (field.count - 1) +
      (std::find(std::begin(kTypes), std::end(kTypes), field.type) - std::begin(kTypes)));
}

bool is_wkt(const std::string& crs) { return crs.find('[') != std::string::npos; }

std::string las_citation_records(const std::string& crs) {
  constexpr std::uint16_t kCitationKey = 1026;
  const auto length = static_cast<std::uint16_t>(crs.size() + 1);
  const std::uint16_t keys[] = {1, 1, 0, 1, kCitationKey, kLasGeoAsciiRecord, length, 0};
  return las_record_head(kLasProjection, kLasGeoKeysRecord, sizeof keys) +
         std::string(reinterpret_cast<const char*>(keys), sizeof keys) +
         las_record_head(kLasProjection, kLasGeoAsciiRecord, length) + crs + '\0';
}

}  // namespace io
