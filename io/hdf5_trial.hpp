// HDF5's library (1.10, as distributions ship it) crashes or loops on some damaged files, and a
// crash would take a whole batch along. A child process therefore opens a file first and goes over
// everything that describes its data.
#pragma once
#include <filesystem>
#include <functional>

namespace io::hdf5 {

// Runs `body` in a child process. Error where a signal ends the child: a crash, or more than
// `seconds` of processor time. What `body` throws or returns stays in the child.
void try_in_child(const std::function<void()>& body, unsigned seconds);

// All objects, attributes, types and chunk tables of the file; the data too where the file is
// small. Never throws.
void walk_file(const std::filesystem::path& path);

}  // namespace io::hdf5
