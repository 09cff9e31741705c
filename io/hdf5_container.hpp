// The HDF5 container behind model, voxel and result files. All calls of the C library are in
// hdf5_*.cpp; handles are closed by destructors. Files are untrusted: sizes are checked against the
// file before allocation, links or data in other files are refused, and a file on which the library
// itself crashes or loops is an Error: a process of its own reads it (hdf5_process.hpp). Readers of
// several threads work side by side; one reader serves one thread at a time. Writers take turns.
//
//   auto file = io::Hdf5Reader("model.h5");
//   if (file.has_attribute("/", "kind")) auto w = file.read<float>("/weights/stem/weight");
//   auto out = io::Hdf5Writer("result.h5");
//   out.write<float>("/scores", scores, {n, c});  out.commit();
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gemm_core/base/tensor.hpp"

namespace io {

extern const bool kHasHdf5;  // false in builds without HDF5, where every call below is an Error

struct Hdf5Dataset {
  std::string path;                 // absolute, "/a/b"
  std::vector<std::int64_t> shape;  // empty: scalar
  bool numeric = false;  // integer or float of a width that base::DType has; else text or compound
  base::DType type = base::DType::f32;  // stored element type where numeric
  std::string type_name;                // for messages
};

// HDF5's library crashed on a file, or took more processor time or memory than it may.
class Hdf5Damage : public base::Error {
 public:
  using base::Error::Error;
};

// Whether a file begins as HDF5 files do, also after a user block of 512 to 2048 bytes; in every
// build. `head`: its first bytes. False for what cannot be read.
bool has_hdf5_signature(std::string_view head);
bool is_hdf5_file(const std::filesystem::path& path);

class Hdf5Reader {
 public:
  explicit Hdf5Reader(const std::filesystem::path& path);  // Error: not HDF5, truncated, unreadable
  ~Hdf5Reader();
  Hdf5Reader(Hdf5Reader&&) noexcept;

  bool has(const std::string& object) const;  // dataset or group
  bool is_group(const std::string& object) const;
  std::vector<std::string> children(const std::string& group) const;  // names, sorted
  std::vector<Hdf5Dataset> datasets() const;           // all datasets of the file, sorted by path
  Hdf5Dataset dataset(const std::string& path) const;  // Error when absent

  bool has_attribute(const std::string& object, const std::string& name) const;
  std::vector<double> attribute_numbers(const std::string& object, const std::string& name) const;
  std::string attribute_text(const std::string& object,
                             const std::string& name) const;  // also a scalar string
  std::vector<std::string> attribute_texts(const std::string& object,
                                           const std::string& name) const;

  // Whole dataset converted by HDF5 to T (float, double, int32, int64, uint8, uint16, uint32,
  // uint64, half_t bits are read with read_tensor). Row-major.
  template <class T>
  std::vector<T> read(const std::string& path) const;
  // Whole dataset in its stored type (float16 stays f16).
  base::Tensor read_tensor(const std::string& path) const;
  // Slices along the first axis in their stored type, a few MiB at a time: body(values, slices).
  void read_slabs(const std::string& path,
                  const std::function<void(const void*, std::int64_t)>& body) const;
  void check_size(const std::string& path) const;  // Error when the file cannot hold what it claims
  std::string read_text(const std::string& path) const;  // scalar string, fixed or variable length

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Writes to a temporary name in the same folder; commit() flushes and renames. Without commit
// nothing is left behind.
class Hdf5Writer {
 public:
  explicit Hdf5Writer(const std::filesystem::path& path);
  ~Hdf5Writer();
  Hdf5Writer(Hdf5Writer&&) noexcept;

  void set_compression(
      int level);  // gzip 1..9 of the datasets that follow; 0 (default) stores them as they are
  template <class T>
  void write(const std::string& path, std::span<const T> values,
             const std::vector<std::int64_t>& shape);
  void write_tensor(const std::string& path,
                    const base::Tensor& tensor);  // CPU; f16 is stored as IEEE float16
  void write_text(const std::string& path, const std::string& text);  // scalar UTF-8 string
  void set_attribute(const std::string& object, const std::string& name, std::int64_t value);
  void set_attribute(const std::string& object, const std::string& name,
                     const std::vector<std::int64_t>& values);
  void set_attribute(const std::string& object, const std::string& name,
                     const std::vector<double>& values);
  void set_attribute(const std::string& object, const std::string& name, const std::string& text);
  void set_attribute(const std::string& object, const std::string& name,
                     const std::vector<std::string>& texts);
  void create_group(const std::string& path);  // missing parents too; existing is fine
  // synced: the file, then its name, are on the disk when it returns, so that not even a loss of
  // power leaves less than what stood there before.
  enum class Commit : std::uint8_t { renamed, synced };
  void commit(Commit how = Commit::renamed);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace io
