// What writers share: columns in the types that a format has, and a line for everything that it
// cannot hold.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "io/cloud.hpp"

namespace io {

// Error unless the cloud has x, y and z of one element a point.
void require_writable(const Cloud& cloud);

// Columns with several elements a point: those that the format holds as they are stay, others
// become name_0, name_1, ... and `losses` says so.
using HoldsElements = bool (*)(const Field&);
inline bool holds_one_element(const Field&) { return false; }

// A cloud whose columns all have one of `types`. A column of another type moves to the smallest of
// them that holds all its values; where none does, to the widest float, and `losses` says so.
Cloud fit_columns(const Cloud& cloud, std::span<const base::DType> types,
                  HoldsElements holds_elements, std::vector<std::string>& losses);

// The column in another type; values must fit or the conversion rounds.
base::Tensor converted(const Column& column, base::DType type);
// True when every value is the same in `type`.
bool holds_exactly(const Column& column, base::DType type);

struct Holds {
  bool organised = false, viewpoint = false, scale = false, crs = false, metadata = false,
       units = false;
};
void report_lost_extras(const Cloud& cloud, const Holds& holds, std::vector<std::string>& losses);

}  // namespace io
