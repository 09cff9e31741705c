// Reading and writing point clouds: one include for users.
//   io::Cloud cloud = io::read("scan.pcd");
//   io::write("scan.ply", cloud);
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "io/cloud.hpp"

namespace io {

struct ReadOptions {
  std::string format;                // "" = by content, then by extension
  std::vector<std::string> columns;  // names for headerless files; "" skips a column
  std::string dataset;               // HDF5/NPZ array to read
  bool transpose = false;            // HDF5/NPY arrays stored [k, N]
};

// Throws base::Error whose message does not repeat the path: byte offset or line, field, what was
// claimed and what is there. Warnings are in Cloud::warnings. Never reserves memory that the file
// cannot fill.
Cloud read(const std::filesystem::path& path, const ReadOptions& options = {});

struct WriteOptions {
  std::string format;       // "" = by extension
  bool ascii = false;       // text flavour where the format has both
  bool compressed = false;  // binary_compressed PCD, gzip HDF5
};

// Writes to a temporary name beside `path` and renames: the file appears whole or not at all.
// Returns one line for each thing the format cannot hold and so was dropped.
std::vector<std::string> write(const std::filesystem::path& path, const Cloud& cloud,
                               const WriteOptions& options = {});

struct FormatInfo {
  std::string name;                     // "pcd"
  std::vector<std::string> extensions;  // {".pcd"}
  bool readable = false, writable = false;
  std::string notes;
};
std::vector<FormatInfo> formats();  // generated from the registry

}  // namespace io
