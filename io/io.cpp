#include "io/io.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>

#include "gemm_core/base/parallel.hpp"
#include "io/fit_columns.hpp"
#include "io/format.hpp"
#include "io/visit_field.hpp"

namespace io {
namespace {

// An exponent of all ones carries into the sign bit: integer operations that every vector unit has,
// unlike a count.
template <class T>
bool has_non_finite(const T* values, std::int64_t count) {
  using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr int kMantissa = std::numeric_limits<T>::digits - 1;
  constexpr Word kExponent = std::bit_cast<Word>(std::numeric_limits<T>::infinity());
  Word carried = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    carried |= (std::bit_cast<Word>(values[i]) & kExponent) + (Word{1} << kMantissa);
  }
  return carried >> (8 * sizeof(T) - 1) != 0;
}

template <class T>
std::int64_t count_non_finite(const T* values, std::int64_t count) {
  constexpr std::int64_t kBlock = std::int64_t{1} << 18;
  std::atomic<std::int64_t> found = 0;
  base::parallel_blocks(count, kBlock, [&](std::int64_t begin, std::int64_t end) {
    if (!has_non_finite(values + begin, end - begin)) return;
    found +=
        std::count_if(values + begin, values + end, [](T value) { return !std::isfinite(value); });
  });
  return found;
}

std::int64_t non_finite_values(const Column& column) {
  std::int64_t wrong = 0;
  visit_field_type(column.field.type, [&]<class T>() {
    if constexpr (std::is_floating_point_v<T>) {
      wrong = count_non_finite(column.values.data<T>(), column.values.numel());
    }
  });
  return wrong;
}

void warn_about_values(Cloud& cloud) {
  if (cloud.size() == 0) cloud.warnings.push_back("0 points");
  std::string fields;
  bool in_coordinates = false;
  for (const auto& column : cloud.columns()) {
    const std::int64_t wrong = non_finite_values(*column);
    if (wrong == 0) continue;
    const std::string& name = column->field.name;
    in_coordinates = in_coordinates || name == "x" || name == "y" || name == "z";
    fields += base::concat(fields.empty() ? "" : ", ", name, " ", wrong);
  }
  if (fields.empty()) return;
  const std::int64_t dropped = in_coordinates ? cloud.size() - cloud.finite_points() : 0;
  cloud.warnings.push_back(base::concat("non-finite values: ", fields, "; ", dropped, " of ",
                                        cloud.size(), " points have a non-finite coordinate"));
}

std::string known_formats(bool for_writing) {
  std::string list;
  for (const Format& format : registry()) {
    const bool usable = for_writing ? format.write != nullptr || format.write_file != nullptr
                                    : format.read != nullptr;
    if (usable) list += (list.empty() ? "" : ", ") + std::string(format.name);
  }
  return list;
}

// Text has no signature: a file of unknown name is tried as text when its beginning has no control
// characters.
bool looks_like_text(std::string_view head) {
  return !head.empty() && std::all_of(head.begin(), head.end(), [](char c) {
    return static_cast<unsigned char>(c) >= ' ' || (c >= '\t' && c <= '\r');
  });
}

const Format& format_to_read(const Source& source, const ReadOptions& options) {
  if (!options.format.empty()) {
    const Format* format = find_format(options.format);
    ENSURE(format != nullptr, "format '", options.format, "' is not known; formats are ",
           known_formats(false));
    return *format;
  }
  const Format* format = detect_format(source);
  if (format == nullptr && looks_like_text(source.head())) format = &kTextFormat;
  ENSURE(format != nullptr,
         "unknown format: neither the first bytes nor the extension tell; formats are ",
         known_formats(false));
  return *format;
}

}  // namespace

Cloud read_source(const Source& source, const ReadOptions& options) {
  const Format& format = format_to_read(source, options);
  ENSURE(format.read != nullptr, "format ", format.name, " is only written");
  ENSURE(source.size() > 0 || !format.has_header, "0 bytes: a ", format.name, " file has a header");
  Cloud cloud = format.read(source, options);
  if (cloud.format.empty()) cloud.format = format.name;
  if (cloud.width == 0 && cloud.height == 1) cloud.width = cloud.size();
  warn_about_values(cloud);
  return cloud;
}

Cloud read(const std::filesystem::path& path, const ReadOptions& options) {
  const Source source(path);
  return read_source(source, options);
}

std::vector<std::string> write(const std::filesystem::path& path, const Cloud& cloud,
                               const WriteOptions& options) {
  const Format* format =
      options.format.empty() ? format_of_extension(path) : find_format(options.format);
  const bool writable =
      format != nullptr && (format->write != nullptr || format->write_file != nullptr);
  ENSURE(writable, "cannot write ",
         options.format.empty() ? "this extension" : "format '" + options.format + "'",
         "; formats are ", known_formats(true));
  if (format->writes_positions) require_writable(cloud);
  if (format->write_file != nullptr) return format->write_file(path, cloud, options);
  Sink sink(path);
  auto losses = format->write(sink, cloud, options);
  sink.commit();
  return losses;
}

}  // namespace io
