#include "io/field_names.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "gemm_core/base/error.hpp"
#include "io/number_text.hpp"

namespace io {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return result;
}

struct Alias {
  std::string_view spelling, name;
};

// Lower case. Colours of files come as r, red, diffuse_red (MeshLab); scalar_* is how CloudCompare
// writes them.
constexpr Alias kAliases[] = {
    {"x", "x"},
    {"y", "y"},
    {"z", "z"},
    {"intensity", "intensity"},
    {"i", "intensity"},
    {"scalar_intensity", "intensity"},
    {"reflectance", "intensity"},
    {"scalar_reflectance", "intensity"},
    {"remission", "intensity"},
    {"r", "r"},
    {"red", "r"},
    {"diffuse_red", "r"},
    {"g", "g"},
    {"green", "g"},
    {"diffuse_green", "g"},
    {"b", "b"},
    {"blue", "b"},
    {"diffuse_blue", "b"},
    {"nx", "nx"},
    {"normal_x", "nx"},
    {"normalx", "nx"},
    {"ny", "ny"},
    {"normal_y", "ny"},
    {"normaly", "ny"},
    {"nz", "nz"},
    {"normal_z", "nz"},
    {"normalz", "nz"},
    {"time", "time"},
    {"t", "time"},
    {"timestamp", "time"},
    {"gps_time", "time"},
    {"gpstime", "time"},
    {"scalar_gpstime", "time"},
    {"scalar_time", "time"},
    {"ring", "ring"},
    {"laser_number", "ring"},
    {"laser_id", "ring"},
    {"scalar_ring", "ring"},
    {"label", "label"},
    {"scalar_label", "label"},
    {"instance", "instance"},
    {"scalar_instance", "instance"},
    {"return_number", "return_number"},
    {"returnnumber", "return_number"},
    {"scalar_returnnumber", "return_number"},
    {"scalar_return_number", "return_number"},
    {"class", "class"},
    {"classification", "class"},
    {"scalar_classification", "class"},
    {"scalar_class", "class"},
    {"raw_classification", "class"},
};

std::string_view canonical(std::string_view raw) {
  const std::string spelling = lower(raw);
  for (const Alias& alias : kAliases) {
    if (alias.spelling == spelling) return alias.name;
  }
  return {};
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::vector<std::string> canonical_names(const std::vector<std::string>& raw) {
  std::vector<std::string> names(raw.size());
  std::vector<std::string> taken;
  // The canonical spelling itself comes first, so that an alias beside it keeps its own name.
  for (const bool exact : {true, false}) {
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (!names[i].empty()) continue;
      const std::string_view name = canonical(raw[i]);
      if (name.empty() || contains(taken, name) || (exact && lower(raw[i]) != name)) continue;
      names[i] = name;
      taken.push_back(names[i]);
    }
  }
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (!names[i].empty()) continue;
    const std::string own = raw[i].empty() ? "field" + std::to_string(i + 1) : valid_utf8(raw[i]);
    std::string name = own;
    for (int suffix = 2; contains(taken, name); ++suffix) name = own + "_" + std::to_string(suffix);
    names[i] = name;
    taken.push_back(std::move(name));
  }
  return names;
}

void name_survey_coordinates(std::vector<std::string>& names) {
  struct Axis {
    std::string_view name;
    std::array<std::string_view, 4> starts;
  };
  static constexpr Axis kAxes[] = {{"x", {"longitude", "lon", "easting", "east"}},
                                   {"y", {"latitude", "lat", "northing", "north"}},
                                   {"z", {"elevation", "altitude", "height", "alt"}}};
  if (contains(names, "x") || contains(names, "y") || contains(names, "z")) return;
  std::vector<std::string> renamed = names;
  for (const Axis& axis : kAxes) {
    const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return std::any_of(axis.starts.begin(), axis.starts.end(),
                         [&](std::string_view start) { return lower(name).starts_with(start); });
    });
    if (found == names.end()) return;
    renamed[static_cast<std::size_t>(found - names.begin())] = axis.name;
  }
  names = std::move(renamed);
}

std::vector<std::string> names_of(const Cloud& cloud) {
  std::vector<std::string> names;
  for (const auto& column : cloud.columns()) names.push_back(column->field.name);
  return names;
}

std::vector<std::string> written_names(const std::vector<std::string>& names,
                                       std::string (*spell)(const std::string&),
                                       std::vector<std::string>& losses) {
  std::vector<std::string> written(names.size());
  for (const bool unchanged : {true, false}) {  // which keep their names first
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string own = spell(names[i]);
      if (unchanged != (own == names[i])) continue;
      std::string text = own;
      for (int suffix = 2; contains(written, text); ++suffix)
        text = own + "_" + std::to_string(suffix);
      written[i] = std::move(text);
    }
  }
  const auto read = canonical_names(written);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (read[i] != names[i])
      losses.push_back(
          base::concat("field ", quote(names[i]), " is written as ", quote(written[i])));
  }
  return written;
}

std::string as_one_word(const std::string& name) {
  std::string word = name == "_" ? "__" : name;
  for (char& c : word) {
    if (static_cast<unsigned char>(c) <= ' ') c = '_';
  }
  return word;
}

std::vector<std::string> default_names(std::int64_t columns) {
  std::vector<std::string> names{"x", "y", "z", "intensity"};
  for (std::int64_t i = 5; i <= columns; ++i) names.push_back("column" + std::to_string(i));
  names.resize(static_cast<std::size_t>(columns));
  return names;
}

void require_coordinates(const std::vector<std::string>& names) {
  for (const std::string_view axis : {"x", "y", "z"}) {
    if (contains(names, axis)) continue;
    std::string list;
    for (std::size_t i = 0; i < names.size() && i < 40; ++i) list += (i ? ", " : "") + names[i];
    base::fail("no field ", axis, "; fields are ", list.empty() ? "none" : list,
               names.size() > 40 ? ", ..." : "");
  }
}

}  // namespace io
