#include "sparseconv/json_reader.hpp"

#include <cmath>

namespace sparseconv::detail {

using nlohmann::json;

std::string shown(const json& value) {
  constexpr std::size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

JsonReader::JsonReader(const json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  ENSURE(object_.is_object(), where_, ": expected a JSON object, got ", shown(object_));
}

bool JsonReader::has(const std::string& key) {
  asked_.insert(key);
  const auto found = object_.find(key);
  return found != object_.end() && !found->is_null();
}

void JsonReader::fail(const std::string& key, const std::string& problem) const {
  if (key.empty()) base::fail(where_, ": ", problem);
  base::fail(where_, ": key '", key, "': ", problem);
}

const json& JsonReader::value(const std::string& key) {
  if (!has(key)) fail(key, "is missing");
  return *object_.find(key);
}

std::string JsonReader::text(const std::string& key) {
  const json& found = value(key);
  if (!found.is_string()) fail(key, "expected text, got " + shown(found));
  return found.get<std::string>();
}

std::vector<std::string> JsonReader::texts(const std::string& key) {
  const json& found = value(key);
  if (!found.is_array()) fail(key, "expected a list of texts, got " + shown(found));
  std::vector<std::string> all;
  for (const json& entry : found) {
    if (!entry.is_string()) fail(key, "expected a list of texts, got " + shown(found));
    all.push_back(entry.get<std::string>());
  }
  return all;
}

bool JsonReader::boolean(const std::string& key, bool fallback) {
  if (!has(key)) return fallback;
  const json& found = value(key);
  if (!found.is_boolean()) fail(key, "expected true or false, got " + shown(found));
  return found.get<bool>();
}

double JsonReader::number(const std::string& key, double fallback) {
  if (!has(key)) return fallback;
  const json& found = value(key);
  if (!found.is_number() || !std::isfinite(found.get<double>())) {
    fail(key, "expected a finite number, got " + shown(found));
  }
  return found.get<double>();
}

std::int64_t JsonReader::integer_of(const json& found, const std::string& key, std::int64_t lowest,
                                    std::int64_t highest) const {
  bool is_whole = found.is_number_integer();
  double value = 0;
  if (found.is_number()) {
    value = found.get<double>();
    is_whole = is_whole || value == std::floor(value);
  }
  if (!is_whole) fail(key, "expected an integer, got " + shown(found));
  if (!(value >= static_cast<double>(lowest) && value <= static_cast<double>(highest))) {
    fail(key, base::concat("must be in [", lowest, ", ", highest, "], got ", shown(found)));
  }
  return static_cast<std::int64_t>(value);
}

std::int64_t JsonReader::integer(const std::string& key, std::int64_t lowest,
                                 std::int64_t highest) {
  return integer_of(value(key), key, lowest, highest);
}

std::array<int, 3> JsonReader::triple(const std::string& key, int lowest, int highest) {
  const json& found = value(key);
  if (found.is_number()) {
    const int same = static_cast<int>(integer_of(found, key, lowest, highest));
    return {same, same, same};
  }
  if (!found.is_array() || found.size() != 3) fail(key, "expected 3 integers, got " + shown(found));
  std::array<int, 3> result{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    result[axis] = static_cast<int>(integer_of(found[axis], key, lowest, highest));
  }
  return result;
}

std::vector<double> JsonReader::numbers(const std::string& key, std::size_t count) {
  const json& found = value(key);
  const std::string wanted = base::concat("expected ", count, " finite numbers, got ");
  if (!found.is_array() || found.size() != count) fail(key, wanted + shown(found));
  std::vector<double> result;
  for (const json& entry : found) {
    if (!entry.is_number() || !std::isfinite(entry.get<double>())) fail(key, wanted + shown(found));
    result.push_back(entry.get<double>());
  }
  return result;
}

void JsonReader::require_no_other_keys() const {
  for (const auto& [key, unused] : object_.items()) {
    if (asked_.count(key) > 0) continue;
    std::string known;
    for (const auto& one : asked_) known += (known.empty() ? "" : ", ") + one;
    base::fail(where_, ": unknown key '", shown(key), "' (known here: ", known, ")");
  }
}

}  // namespace sparseconv::detail
