// What goes to stdout: text, or one JSON document.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace apps {

using Json = nlohmann::ordered_json;  // keys stay in the order they were put

// Two-space indented, one newline at the end. Bytes that are no UTF-8 (a path may hold any) become
// U+FFFD; numbers do not depend on the locale; NaN and infinity become null.
void print_json(const Json& document);
void print_text(std::string_view text);  // as it is

// A path as its bytes, whole.
inline std::string text_of(const std::filesystem::path& path) { return path.string(); }

}  // namespace apps
