#include <fmt/format.h>

#include "apps/info/describe.hpp"

namespace apps {
namespace {

std::string inline_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "-";
  if (value.is_array()) {
    std::string text;
    for (const Json& element : value)
      text.append(text.empty() ? "" : " ").append(inline_text(element));
    return text.empty() ? "-" : text;
  }
  if (value.is_object()) {
    std::string text;
    for (const auto& [key, element] : value.items()) {
      text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", key, inline_text(element));
    }
    return text.empty() ? "-" : text;
  }
  // Ten digits: more than float32 holds, and a millimetre at the far end of a map projection.
  return value.is_number_float() ? fmt::format("{:.10g}", value.get<double>()) : value.dump();
}

std::string fields_text(const Json& fields) {
  std::string text;
  for (const Json& field : fields) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", inline_text(field["name"]),
                        inline_text(field["type"]));
    if (field.contains("count")) text += fmt::format("[{}]", inline_text(field["count"]));
  }
  return text.empty() ? "-" : text;
}

std::string nodes_text(const Json& nodes) {
  std::string text = fmt::format("\n    {:<28} {:<14} {:>8} {:>12} {:>14}", "node", "op",
                                 "channels", "parameters", "MACs a row");
  for (const Json& node : nodes) {
    text += fmt::format("\n    {:<28} {:<14} {:>8} {:>12} {:>14}", inline_text(node["name"]),
                        inline_text(node["op"]), inline_text(node["channels"]),
                        inline_text(node["parameters"]),
                        node.contains("macs_per_row") ? inline_text(node["macs_per_row"]) : "");
  }
  return text;
}

}  // namespace

std::string text_of_description(const Json& entry) {
  std::string text = inline_text(entry["path"]) + "\n";
  const bool is_labels = entry["format"] == "label";
  for (const auto& [key, value] : entry.items()) {
    // One number a point is for programs; points_of_class sums it up.
    if (key == "path" || (is_labels && (key == "classes" || key == "instances"))) continue;
    const std::string shown = key == "fields"  ? fields_text(value)
                              : key == "nodes" ? nodes_text(value)
                                               : inline_text(value);
    text += fmt::format("  {:<16} {}\n", key, shown);
  }
  return text;
}

}  // namespace apps
