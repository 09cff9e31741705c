// The fields that a row of data/MANIFEST.md describes, by the words of each format; shares no code
// with the readers.
#pragma once
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace test_support {

struct ManifestField {
  std::string name, type;  // type "" where the row does not say
  int count = 1;
};

// What is known of a row: every field in order, or some names that must be there, or how many.
struct ManifestFields {
  std::vector<ManifestField> all;      // empty: not told
  std::set<std::string> some, absent;  // names
  int columns = -1;
};

inline std::string common_name(const std::string& raw) {
  static const std::map<std::string, std::string> names{{"X", "x"},
                                                        {"Y", "y"},
                                                        {"Z", "z"},
                                                        {"normal_x", "nx"},
                                                        {"normal_y", "ny"},
                                                        {"normal_z", "nz"},
                                                        {"red", "r"},
                                                        {"green", "g"},
                                                        {"blue", "b"},
                                                        {"Red", "r"},
                                                        {"Green", "g"},
                                                        {"Blue", "b"},
                                                        {"Intensity", "intensity"},
                                                        {"ReturnNumber", "return_number"},
                                                        {"Classification", "class"},
                                                        {"raw_classification", "class"},
                                                        {"GpsTime", "time"},
                                                        {"gps_time", "time"},
                                                        {"laser_number", "ring"}};
  const auto found = names.find(raw);
  return found == names.end() ? raw : found->second;
}

// "F4", "f4", "<f4", "|u1".
inline std::string type_of(std::string text) {
  while (!text.empty() && std::string("<>|\\").find(text.front()) != std::string::npos)
    text.erase(0, 1);
  if (text.size() != 2) return "?" + text;
  const std::string kind = text[0] == 'F' || text[0] == 'f'   ? "float"
                           : text[0] == 'I' || text[0] == 'i' ? "int"
                                                              : "uint";
  return kind + std::to_string(8 * (text[1] - '0'));
}

inline std::vector<std::smatch> matches(const std::string& text, const std::regex& pattern) {
  return {std::sregex_iterator(text.begin(), text.end(), pattern), std::sregex_iterator()};
}

inline std::vector<ManifestField> pcd_fields(const std::string& text) {
  static const std::regex field(R"((\S+):([FIU]\d)(?:x(\d+))?)");
  std::vector<ManifestField> fields, colours;
  for (const auto& match : matches(text, field)) {
    const std::string name = match[1];
    if (name == "rgb" || name == "rgba") {
      for (const char* channel : {"r", "g", "b"}) colours.push_back({channel, "uint8"});
      if (name == "rgba") colours.push_back({"alpha", "uint8"});
    } else if (name != "_") {
      const int count = match[3].matched ? std::stoi(match[3]) : 1;
      fields.push_back({common_name(name), type_of(match[2]), count});
    }
  }
  fields.insert(fields.end(), colours.begin(), colours.end());
  return fields;
}

inline std::vector<ManifestField> ply_fields(const std::string& text) {
  static const std::regex element("vertex \\d+:([^;]*)"), field(R"((\S+):([fiu]\d))");
  std::smatch vertex;
  std::vector<ManifestField> fields;
  if (!std::regex_search(text, vertex, element)) return fields;
  const std::string properties = vertex[1];
  for (const auto& match : matches(properties, field))
    fields.push_back({common_name(match[1]), type_of(match[2])});
  return fields;
}

inline std::vector<ManifestField> npy_fields(const std::string& format, const std::string& text) {
  static const std::regex member(R"(\('([^']+)', '([^']+)'\))"), last_extent(R"((\d+)\), )");
  std::vector<ManifestField> fields;
  for (const auto& match : matches(text, member))
    fields.push_back({common_name(match[1]), type_of(match[2])});
  std::smatch columns;
  if (!fields.empty() || !std::regex_search(format, columns, last_extent)) return fields;
  for (int c = 0; c < std::stoi(columns[1]); ++c) {
    const std::string name = c < 3    ? std::string(1, "xyz"[c])
                             : c == 3 ? "intensity"
                                      : "column" + std::to_string(c + 1);
    fields.push_back({name, type_of(text)});
  }
  return fields;
}

inline ManifestFields las_fields(const std::string& text) {
  static const std::map<std::string, std::set<std::string>> words{
      {"x", {"x"}},
      {"y", {"y"}},
      {"z", {"z"}},
      {"intensity", {"intensity"}},
      {"return", {"return_number", "number_of_returns"}},
      {"class", {"class"}},
      {"angle", {"scan_angle"}},
      {"user", {"user_data"}},
      {"source", {"point_source_id"}},
      {"gps", {"time"}},
      {"rgb", {"r", "g", "b"}},
      {"wave",
       {"wave_descriptor", "wave_offset", "wave_bytes", "wave_location", "wave_dx", "wave_dy",
        "wave_dz"}}};
  ManifestFields fields;
  for (const auto& [word, names] : words) {
    const bool is_there = (" " + text + " ").find(" " + word + " ") != std::string::npos;
    (is_there ? fields.some : fields.absent).insert(names.begin(), names.end());
  }
  return fields;
}

// `format` and `text`: the columns "format" and "fields" of a row in the folder `folder`.
inline ManifestFields manifest_fields(const std::string& folder, const std::string& format,
                                      const std::string& text) {
  if (folder == "pcd") return {.all = pcd_fields(text)};
  if (folder == "ply") return {.all = ply_fields(text)};
  if (folder == "npy") return {.all = npy_fields(format, text)};
  if (folder == "las" || folder == "laz") return las_fields(text);
  std::vector<ManifestField> scan{
      {"x", "float32"}, {"y", "float32"}, {"z", "float32"}, {"intensity", "float32"}};
  if (folder == "kitti" || (folder == "semantickitti" && !text.empty())) return {.all = scan};
  if (folder == "nuscenes") {
    scan.push_back({"ring", "float32"});
    return {.all = scan};
  }
  if (folder == "semantickitti") return {.some = {"x", "y", "z", "intensity", "label", "instance"}};
  static const std::regex row_columns("columns a row: (\\d+)");
  std::smatch columns;
  if (folder == "text" && std::regex_search(format, columns, row_columns))
    return {.some = {"x", "y", "z"}, .columns = std::stoi(columns[1])};
  if (folder == "e57") {
    ManifestFields fields{.some = {"x", "y", "z"}};
    if (text.find("colorRed") != std::string::npos) fields.some.insert({"r", "g", "b"});
    if (text.find("intensity") != std::string::npos) fields.some.insert("intensity");
    return fields;
  }
  if (folder == "hdf5" && text.find("autzen/") != std::string::npos) {
    static const std::regex dataset(R"(autzen/(\w+) \S+?\[)");
    ManifestFields fields;
    for (const auto& match : matches(text, dataset)) fields.some.insert(common_name(match[1]));
    return fields;
  }
  if (folder == "hdf5" && text.starts_with("intensity")) return {.all = scan};
  if (folder == "npz" && format.find("normals.npy") != std::string::npos)
    return {.some = {"x", "y", "z", "nx", "ny", "nz"}};
  return {.some = {"x", "y", "z"}};
}

}  // namespace test_support
