// HDF5 opens files by name, so inputs of its targets go through one file a process.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

inline const std::filesystem::path& named_input(std::span<const char> bytes) {
  static const std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("sparseconv-fuzz-" + std::to_string(::getpid()) + ".h5");
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}
