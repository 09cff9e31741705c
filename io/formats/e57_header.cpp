#include "io/formats/e57_header.hpp"

#include <algorithm>
#include <cstring>

#include "gemm_core/base/error.hpp"

namespace io {
namespace {

constexpr std::int64_t kPage = 1024,
                       kPageData = 1020;  // the last four bytes of a page are its checksum
constexpr std::int64_t kMaxXml = 1 << 28;

template <class T>
T field(std::string_view bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

}  // namespace

std::string read_e57_xml(const Source& source) {
  const std::string_view head = source.head();
  ENSURE(head.starts_with("ASTM-E57"), "E57: the signature ASTM-E57 is missing");
  ENSURE(head.size() >= 48, "E57: a header has 48 bytes, the file has ", source.size());
  const auto major = field<std::uint32_t>(head, 8), minor = field<std::uint32_t>(head, 12);
  ENSURE(major == 1, "E57: version ", major, ".", minor, " is not known");
  const auto length = field<std::uint64_t>(head, 16), xml_offset = field<std::uint64_t>(head, 24),
             xml_bytes = field<std::uint64_t>(head, 32), page = field<std::uint64_t>(head, 40);
  const auto size = static_cast<std::uint64_t>(source.size());
  ENSURE(length == size, "E57: the header claims a file length of ", length,
         " bytes, the file has ", size);
  ENSURE(page == kPage, "E57: pages of ", page, " bytes, the standard has ", kPage);
  ENSURE(xml_offset < size && xml_bytes <= size - xml_offset && xml_bytes <= kMaxXml,
         "E57: the XML section claims ", xml_bytes, " bytes from byte ", xml_offset,
         ", the file has ", size);
  std::string xml;
  auto at = static_cast<std::int64_t>(xml_offset);
  while (xml.size() < xml_bytes) {
    const std::int64_t in_page = at % kPage;
    ENSURE(in_page < kPageData, "E57: byte ", at,
           " is part of a checksum, data are said to be there");
    const auto wanted = static_cast<std::int64_t>(xml_bytes - xml.size());
    const std::int64_t bytes = std::min({kPageData - in_page, wanted, source.size() - at});
    ENSURE(bytes > 0, "E57: the XML section passes the end of the file");
    xml += source.read_text(at, bytes);
    at += kPage - in_page;
  }
  for (const char* word : {"<!DOCTYPE", "<!ENTITY", "chemaLocation"}) {
    ENSURE(xml.find(word) == std::string::npos, "E57: the XML section holds ", word,
           ": files that refer to others are refused");
  }
  return xml;
}

}  // namespace io
