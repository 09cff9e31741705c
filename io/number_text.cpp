#include "io/number_text.hpp"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "io/short_decimal.hpp"
#include "io/visit_field.hpp"

namespace io {
namespace {

bool starts_with_word(const char* begin, const char* end, std::string_view word) {
  if (static_cast<std::size_t>(end - begin) < word.size()) return false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if ((begin[i] | 32) != word[i]) return false;
  }
  return true;
}

// nan, nan(ind), inf, infinity, and what older Windows runtimes print: 1.#INF, 1.#QNAN, 1.#IND.
const char* scan_special(const char* p, const char* end, double& value) {
  for (const std::string_view word : {"infinity", "inf"}) {
    if (starts_with_word(p, end, word)) {
      value = std::numeric_limits<double>::infinity();
      return p + word.size();
    }
  }
  if (starts_with_word(p, end, "nan")) {
    value = std::numeric_limits<double>::quiet_NaN();
    p += 3;
    if (p < end && *p == '(') {
      const void* close = std::memchr(p, ')', static_cast<std::size_t>(end - p));
      if (close != nullptr) p = static_cast<const char*>(close) + 1;
    }
    return p;
  }
  if (end - p > 3 && p[0] == '1' && p[1] == '.' && p[2] == '#') {
    const bool infinite = starts_with_word(p + 3, end, "inf");
    if (!infinite && !starts_with_word(p + 3, end, "qnan") &&
        !starts_with_word(p + 3, end, "ind") && !starts_with_word(p + 3, end, "snan")) {
      return nullptr;
    }
    value = infinite ? std::numeric_limits<double>::infinity()
                     : std::numeric_limits<double>::quiet_NaN();
    p += 3;
    while (p < end && ((*p | 32) >= 'a' && (*p | 32) <= 'z')) ++p;
    while (p < end && *p == '0') ++p;
    return p;
  }
  return nullptr;
}

template <class T>
bool store_integer(const Number& number, const char* begin, const char* end, void* out) {
  T value{};
  if (number.is_integer) {
    value = static_cast<T>(number.integer);
    if (static_cast<std::int64_t>(value) != number.integer ||
        (value < T{0}) != (number.integer < 0))
      return false;
  } else {
    const auto result = std::from_chars(begin, end, value);  // digits past int64
    if (result.ec != std::errc() || result.ptr != end) {
      // "3.0" and "1e3" are whole numbers, too.
      constexpr double kExact = 9007199254740992.0;
      if (!(std::fabs(number.value) <= kExact) || number.value != std::floor(number.value))
        return false;
      const auto whole = static_cast<std::int64_t>(number.value);
      value = static_cast<T>(whole);
      if (static_cast<std::int64_t>(value) != whole || (value < T{0}) != (whole < 0)) return false;
    }
  }
  std::memcpy(out, &value, sizeof(T));
  return true;
}

// The double is correctly rounded, so rounding it again is right unless it stands exactly between
// two floats.
float to_float(const Number& number, const char* begin, const char* end) {
  const double magnitude = std::fabs(number.value);
  const bool between = (std::bit_cast<std::uint64_t>(number.value) & 0x1fffffff) == 0x10000000;
  if (number.is_integer || magnitude == 0 || !std::isfinite(magnitude) ||
      (!between && magnitude > 1.2e-38 && magnitude < 3.4e38)) {
    return static_cast<float>(number.value);
  }
  float value = 0;
  const auto result = std::from_chars(*begin == '+' ? begin + 1 : begin, end, value);
  if (result.ec == std::errc()) return value;
  return static_cast<float>(number.value);  // out of range: infinity or zero
}

char* write_word(char* out, std::string_view word) {
  std::memcpy(out, word.data(), word.size());
  return out + word.size();
}

template <class T>
char* write_chars(char* out, T value) {
  return std::to_chars(out, out + kMaxNumberChars, value).ptr;
}

template <class T>
char* write_float(char* out, T value) {
  if constexpr (std::is_same_v<T, double>) {
    if (char* const end = write_short_decimal(out, value)) return end;
  }
  if (std::isnan(value)) return write_word(out, "nan");
  if (std::isinf(value)) return write_word(out, value > 0 ? "inf" : "-inf");
  return write_chars(out, value);
}

// Length of the valid UTF-8 sequence at `text`, 0 when there is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xC2 && lead < 0xE0   ? 2
                             : (lead & 0xF0) == 0xE0       ? 3
                             : lead >= 0xF0 && lead < 0xF5 ? 4
                                                           : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool surrogate = lead == 0xED && second >= 0xA0, beyond = lead == 0xF4 && second >= 0x90;
  return overlong || surrogate || beyond ? 0 : length;
}

}  // namespace

const char* scan_number_slowly(const char* begin, const char* end, Number& number) {
  const char* p = begin;
  const bool signed_text = p < end && (*p == '+' || *p == '-');
  const bool negative = signed_text && *p == '-';
  p += signed_text;
  if (p == end || *p == '+' || *p == '-') return nullptr;
  number = {};
  double magnitude = 0;
  if (const char* after = scan_special(p, end, magnitude)) {
    number.value = negative ? -magnitude : magnitude;
    return after;
  }
  const auto result = std::from_chars(p, end, magnitude);
  if (result.ec == std::errc::invalid_argument) return nullptr;
  if (result.ec == std::errc::result_out_of_range) {
    // from_chars does not say in which direction; the exponent does, and without one only digits
    // can overflow.
    const std::string_view text(p, static_cast<std::size_t>(result.ptr - p));
    const auto exponent = text.find_first_of("eE");
    const bool tiny = exponent != std::string_view::npos
                          ? text.substr(exponent).find('-') != std::string_view::npos
                          : text.starts_with('0') || text.starts_with('.');
    magnitude = tiny ? 0 : std::numeric_limits<double>::infinity();
  }
  number.value = negative ? -magnitude : magnitude;
  const auto whole =
      std::from_chars(begin + (signed_text && !negative), result.ptr, number.integer);
  number.is_integer =
      whole.ec == std::errc() && whole.ptr == result.ptr && !(negative && number.integer == 0);
  return result.ptr;
}

bool store_number(const Number& number, const char* begin, const char* end, base::DType type,
                  void* out) {
  if (type == base::DType::f64) {
    std::memcpy(out, &number.value, sizeof(double));
    return true;
  }
  if (type == base::DType::f32) {
    const float value = to_float(number, begin, end);
    std::memcpy(out, &value, sizeof(float));
    return true;
  }
  bool stored = false;
  visit_field_type(type, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) stored = store_integer<T>(number, begin, end, out);
  });
  return stored;
}

bool parse_count(std::string_view text, std::int64_t& out) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), out);
  return !text.empty() && result.ec == std::errc() && result.ptr == text.data() + text.size();
}

char* write_number(char* out, float value) { return write_float(out, value); }
char* write_number(char* out, double value) { return write_float(out, value); }
char* write_number(char* out, std::int64_t value) { return write_chars(out, value); }
char* write_number(char* out, std::uint64_t value) { return write_chars(out, value); }

std::string quote(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string result = "'";
  for (const char c : text.substr(0, 40)) {
    if (c >= ' ' && c <= '~') {
      result += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      result += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return result + (text.size() > 40 ? "...'" : "'");
}

std::string valid_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      result += "\xEF\xBF\xBD";
      text.remove_prefix(1);
    } else {
      result += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return result;
}

}  // namespace io
