// Reads one JSON object of a model's graph strictly: every key is known, every value has the type
// and range it must have. Errors begin with where the object stands ("node 'stem.conv'") and name
// the key and the value found.
#pragma once
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "gemm_core/base/error.hpp"

namespace sparseconv::detail {

class JsonReader {
 public:
  JsonReader(const nlohmann::json& object, std::string where);

  bool has(const std::string& key);
  // "" stands for no key: the message speaks of the object as a whole.
  [[noreturn]] void fail(const std::string& key, const std::string& problem) const;

  std::string text(const std::string& key);
  std::vector<std::string> texts(const std::string& key);
  bool boolean(const std::string& key, bool fallback);
  double number(const std::string& key, double fallback);
  std::int64_t integer(const std::string& key, std::int64_t lowest, std::int64_t highest);
  // An array of three integers, or one integer for all axes.
  std::array<int, 3> triple(const std::string& key, int lowest, int highest);
  std::vector<double> numbers(const std::string& key, std::size_t count);
  const nlohmann::json& value(const std::string& key);
  // Error when the object has a key that nobody asked for: a misspelt key must not be read as its
  // default.
  void require_no_other_keys() const;

 private:
  std::int64_t integer_of(const nlohmann::json& value, const std::string& key, std::int64_t lowest,
                          std::int64_t highest) const;
  const nlohmann::json& object_;
  std::string where_;
  std::set<std::string> asked_;
};

// A JSON value as short text for a message.
std::string shown(const nlohmann::json& value);

}  // namespace sparseconv::detail
