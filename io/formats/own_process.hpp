// Formats whose library works in a process of its own, as HDF5's does (io/hdf5_process.hpp): what a
// damaged file makes of the library ends there.
#pragma once
#include <functional>
#include <string>

#include "io/hdf5_process.hpp"
#include "io/source.hpp"

namespace io {

// A file that another process can open: the source's own, or a copy of its memory.
class HandedFile {
 public:
  explicit HandedFile(const Source& source);
  ~HandedFile();
  HandedFile(const HandedFile&) = delete;
  HandedFile& operator=(const HandedFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1, copy_ = -1;
};

// Under which the other process opens it.
std::string path_of(int descriptor);

// There: runs `action`, whose error goes to the other side.
void serve_library(const char* format, const hdf5::Channel& channel,
                   const std::function<void()>& action);

// Here: runs `action`, which asks such a process; where that died the Error names the format.
void ask_library(const char* format, const std::function<void()>& action);

}  // namespace io
