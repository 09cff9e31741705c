// One spelling for the fields that everybody has: x y z intensity r g b nx ny nz time ring label
// instance return_number class. Other names stay as the file gives them.
#pragma once
#include <string>
#include <vector>

#include "io/cloud.hpp"

namespace io {

// Canonical names, each once, valid UTF-8 and not empty. A field whose canonical name is taken
// keeps its own; a name that occurs twice gets a suffix (_2, ...).
std::vector<std::string> canonical_names(const std::vector<std::string>& raw);

// Text headers of surveys call the coordinates longitude, latitude, elevation or easting, northing,
// height: gives these the names x y z where the list has no x, y, z.
void name_survey_coordinates(std::vector<std::string>& names);

std::vector<std::string> names_of(const Cloud& cloud);

// The names of a cloud's fields as a format spells them, each once. A name that reading would not
// give back is said in `losses`
// ("field a b is written as a_b").
std::vector<std::string> written_names(const std::vector<std::string>& names,
                                       std::string (*spell)(const std::string&),
                                       std::vector<std::string>& losses);

// For headers that separate words by blanks: blanks and control characters become _, and the name
// _, which readers take for padding, becomes __.
std::string as_one_word(const std::string& name);

// The names of columns of arrays and rows that come without any: x y z intensity column5 ...
std::vector<std::string> default_names(std::int64_t columns);

// Each of x, y and z once; Error lists what there is.
void require_coordinates(const std::vector<std::string>& names);

}  // namespace io
