// One spelling for the fields that everybody has: x y z intensity r g b nx ny nz time ring label
// instance return_number class. Other names stay as the file gives them.
#pragma once
#include <string>
#include <vector>

namespace io {

// Canonical names, each once, valid UTF-8 and not empty. A field whose canonical name is taken
// keeps its own; a name that occurs twice gets a suffix (_2, ...).
std::vector<std::string> canonical_names(const std::vector<std::string>& raw);

// Text headers of surveys call the coordinates longitude, latitude, elevation or easting, northing,
// height: gives these the names x y z where the list has no x, y, z.
void name_survey_coordinates(std::vector<std::string>& names);

// The names of columns of arrays and rows that come without any: x y z intensity column5 ...
std::vector<std::string> default_names(std::int64_t columns);

// Each of x, y and z once; Error lists what there is.
void require_coordinates(const std::vector<std::string>& names);

}  // namespace io
