#include "apps/values.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace apps {
namespace {

template <class T>
T parse(std::string_view option, std::string_view text, const char* expected) {
  std::string_view digits = text;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  T number{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  ENSURE_USAGE(error == std::errc{} && end == digits.data() + digits.size(), "--", option,
               ": expected ", expected, ", got \"", text, "\"");
  return number;
}

}  // namespace

double parse_number(std::string_view option, std::string_view text) {
  const auto number = parse<double>(option, text, "a number");
  ENSURE_USAGE(std::isfinite(number), "--", option, ": ", text, " is not finite");
  return number;
}

std::int64_t parse_integer(std::string_view option, std::string_view text) {
  return parse<std::int64_t>(option, text, "a whole number");
}

std::vector<std::string> split_list(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
    if (text.empty()) parts.emplace_back();
  }
  return parts;
}

std::vector<double> parse_numbers(std::string_view option, std::string_view text) {
  std::vector<double> numbers;
  for (const std::string& part : split_list(text)) numbers.push_back(parse_number(option, part));
  return numbers;
}

std::vector<std::int64_t> parse_integers(std::string_view option, std::string_view text) {
  std::vector<std::int64_t> numbers;
  for (const std::string& part : split_list(text)) numbers.push_back(parse_integer(option, part));
  return numbers;
}

std::array<double, 3> parse_triple(std::string_view option, std::string_view text) {
  const auto n = parse_numbers(option, text);
  ENSURE_USAGE(n.size() == 3, "--", option, ": expected x,y,z, got \"", text, "\"");
  return {n[0], n[1], n[2]};
}

std::array<double, 3> parse_voxel_size(std::string_view option, std::string_view text) {
  auto n = parse_numbers(option, text);
  if (n.size() == 1) n = {n[0], n[0], n[0]};
  ENSURE_USAGE(n.size() == 3 && std::ranges::all_of(n, [](double v) { return v > 0; }), "--",
               option, ": expected a positive size or vx,vy,vz, got \"", text, "\"");
  return {n[0], n[1], n[2]};
}

std::array<double, 6> parse_range(std::string_view option, std::string_view text) {
  const auto n = parse_numbers(option, text);
  ENSURE_USAGE(n.size() == 6 && n[0] < n[3] && n[1] < n[4] && n[2] < n[5], "--", option,
               ": expected x0,y0,z0,x1,y1,z1 with each lower bound below its upper one, got \"",
               text, "\"");
  return {n[0], n[1], n[2], n[3], n[4], n[5]};
}

std::int64_t integer_option(const Arguments& arguments, const std::string& option,
                            std::int64_t otherwise, std::int64_t low, std::int64_t high) {
  if (!arguments.has(option)) return otherwise;
  const std::int64_t number = parse_integer(option, arguments.get<std::string>(option));
  ENSURE_USAGE(number >= low && number <= high, "--", option, ": ", number, " is not in ", low,
               "..", high);
  return number;
}

std::string choice_option(const Arguments& arguments, const std::string& option,
                          const std::string& otherwise, const std::vector<std::string>& choices) {
  const std::string choice = arguments.get_or<std::string>(option, otherwise);
  ENSURE_USAGE(std::ranges::find(choices, choice) != choices.end(), "--", option, ": \"", choice,
               "\" is none of ", fmt::format("{}", fmt::join(choices, ", ")));
  return choice;
}

}  // namespace apps
