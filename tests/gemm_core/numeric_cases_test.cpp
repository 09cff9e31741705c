// Every group of cases/numeric_conversion.json: conversions bit by bit, and packed words.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "gemm_core/base/array.hpp"
#include "tests/support/shared_files.hpp"

namespace {

using namespace base;  // NOLINT: a test file
using nlohmann::json;

std::uint32_t parse_hex(const json& text) {
  return static_cast<std::uint32_t>(std::stoul(text.get<std::string>(), nullptr, 16));
}

// The word that the case files show for a value of T, and back.
template <class T>
std::uint32_t word_of(const T& x) {
  if constexpr (std::is_same_v<T, tf32_t>)
    return base::bit_cast<std::uint32_t>(x.value);
  else if constexpr (is_float_v<T>)
    return static_cast<std::uint32_t>(base::detail::code_of(x));
  else if constexpr (is_small_integer_v<T>)
    return x.bits();
  else
    return static_cast<std::uint8_t>(x);
}
template <class T>
T value_of(std::uint32_t word) {
  if constexpr (is_float_v<T>)
    return base::detail::from_code<T>(std::is_same_v<T, tf32_t> ? word >> 13 : word);
  else if constexpr (is_small_integer_v<T>)
    return T::from_bits(word);
  else
    return static_cast<T>(word);
}

template <class T>
bool is_nan(const T& x) {
  if constexpr (is_float_v<T>)
    return base::detail::unpack_value(x).kind == Unpacked::Kind::nan;
  else
    return false;
}

// Converts one word; answers what is wrong, or nothing.
using Conversion = std::function<std::string(std::uint32_t in, std::uint32_t out)>;

template <class From, class To, Rounding R, Overflow O>
std::string check(std::uint32_t in, std::uint32_t out) {
  const From x = value_of<From>(in);
  const To got = convert<To, R, O>(x), want = value_of<To>(out);
  Array<From, 3> three;
  three.set(1, x);
  if (word_of(convert_array<To, R, O>(three).get(1)) != word_of(got))
    return "an array converts to other bits";
  if (is_nan(want) ? is_nan(got)
                   : word_of(got) == (std::is_same_v<To, tf32_t> ? out & ~0x1fffu : out))
    return "";
  std::ostringstream text;
  text << std::hex << "0x" << in << ": expected 0x" << out << ", got 0x" << word_of(got);
  return text.str();
}

template <class From, class To>
Conversion conversion_of(const std::string& rounding, const std::string& overflow) {
  const bool away = rounding == "nearest-away";
  if (!away && rounding != "nearest-even" && rounding != "exact") return {};
  if (overflow == "saturate")
    return away ? check<From, To, Rounding::nearest_away, Overflow::saturate>
                : check<From, To, Rounding::nearest_even, Overflow::saturate>;
  if (overflow == "nan")
    return away ? check<From, To, Rounding::nearest_away, Overflow::nan>
                : check<From, To, Rounding::nearest_even, Overflow::nan>;
  if (overflow == "inf" || overflow == "none")
    return away ? check<From, To, Rounding::nearest_away, Overflow::infinity>
                : check<From, To, Rounding::nearest_even, Overflow::infinity>;
  return {};
}

// body<T>() for the type of that name.
template <class Body>
Conversion with_type(const std::string& name, Body body) {
  if (name == "f32") return body.template operator()<float>();
  if (name == "f16") return body.template operator()<half_t>();
  if (name == "bf16") return body.template operator()<bf16_t>();
  if (name == "tf32") return body.template operator()<tf32_t>();
  if (name == "e4m3") return body.template operator()<e4m3_t>();
  if (name == "e5m2") return body.template operator()<e5m2_t>();
  if (name == "s8") return body.template operator()<std::int8_t>();
  if (name == "s4") return body.template operator()<int4_t>();
  if (name == "s2") return body.template operator()<int2_t>();
  if (name == "u4") return body.template operator()<uint4_t>();
  return {};
}

Conversion conversion_of(const json& group) {
  return with_type(group.at("from"), [&]<class From>() {
    return with_type(group.at("to"), [&]<class To>() {
      return conversion_of<From, To>(group.at("rounding"), group.at("overflow"));
    });
  });
}

struct Tally {
  int passed = 0, failed = 0;
  void add(const std::string& id, const std::string& wrong) {
    ++(wrong.empty() ? passed : failed);
    if (!wrong.empty()) ADD_FAILURE() << id << ": " << wrong;
  }
};

template <class T>
std::string check_packed(const json& packed) {
  constexpr int kCount = 32 / bits_of<T>;
  if (packed.at("values").size() != kCount) return "expected " + std::to_string(kCount) + " values";
  Array<T, kCount> array;
  for (int i = 0; i < kCount; ++i)
    array.set(i, T(packed["values"][static_cast<std::size_t>(i)].get<int>()));
  const auto word =
      base::bit_cast<std::uint32_t>(array);  // little-endian bytes: element 0 is lowest
  if (word != parse_hex(packed.at("word"))) return "the packed word differs";
  for (int i = 0; i < kCount; ++i)
    if (array.get(i) != packed["values"][static_cast<std::size_t>(i)].get<int>())
      return "unpacking differs";
  return "";
}

std::string check_packed_of_any_type(const json& packed) {
  const std::string type = packed.at("type");
  if (type == "s4") return check_packed<int4_t>(packed);
  if (type == "s2") return check_packed<int2_t>(packed);
  if (type == "u4") return check_packed<uint4_t>(packed);
  if (type == "u2") return check_packed<uint2_t>(packed);
  return "unknown type";
}

TEST(NumericCases, EveryConversionOfTheFileComesOutAsItSays) {
  REQUIRE_SHARED(path, "cases/numeric_conversion.json");
  const json file = json::parse(std::ifstream(path));
  ASSERT_EQ(file.at("format"), "gemm_core-numeric-cases/1");
  Tally tally;
  for (const json& group : file.at("groups")) {
    const std::string id = group.at("id");
    const Conversion conversion = conversion_of(group);
    for (const json& c : group.at("cases"))
      tally.add(id, conversion ? conversion(parse_hex(c.at(0)), parse_hex(c.at(1)))
                               : "unknown conversion");
  }
  int index = 0;
  for (const json& packed : file.at("packed"))
    tally.add("packed " + std::to_string(index++), check_packed_of_any_type(packed));
  std::cout << path.filename().string() << ": " << tally.passed << " passed, " << tally.failed
            << " failed\n";
  EXPECT_GT(tally.passed + tally.failed, 0) << "the file has no cases";
}

}  // namespace
