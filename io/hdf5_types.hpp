// Types and shapes of HDF5 objects in this library's terms. Included by io/hdf5_*.cpp only.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "io/hdf5_handle.hpp"

namespace io::hdf5 {

// Integers, floats and enumerations (how h5py stores booleans) of the widths that base::DType has.
std::optional<base::DType> element_type(hid_t type);
std::string describe_type(hid_t type);  // for messages
std::vector<std::int64_t> extents(hid_t space);
std::string shape_text(const std::vector<std::int64_t>& shape);
// Error where it passes 2^58.
std::uint64_t element_count(const std::string& path, const std::vector<std::int64_t>& shape);

}  // namespace io::hdf5
