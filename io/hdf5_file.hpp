// One HDF5 file through HDF5's library itself. The library crashes, loops and takes what memory it
// finds on some damaged files, so only a process that may die makes one of these
// (hdf5_process.hpp). Included by io/hdf5_*.cpp only.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/hdf5_container.hpp"
#include "io/hdf5_handle.hpp"

namespace io::hdf5 {

// Deflate cannot shrink bytes by more than 1032; nothing that HDF5 ships compresses real columns
// further.
inline constexpr std::uint64_t kMaxRatio = 1100;

// A dataset of numbers whose size was checked against the file.
struct StoredData {
  Hdf5Dataset info;
  std::uint64_t bytes = 0;        // of all values in the element type that was asked for
  std::uint64_t block_bytes = 0;  // of the largest block that read_blocks gives
  std::int64_t address = -1;      // in the file, where the values stand there just as wanted
};

class File {
 public:
  explicit File(int descriptor);  // Error: not HDF5, truncated

  // True when every link on the way exists. A link that leads into another file is an Error: a file
  // from a stranger must not open others. So is one in every call below.
  bool exists(const std::string& object) const;
  bool is_group(const std::string& object) const;
  std::vector<std::string> names_in(const std::string& group) const;  // sorted
  std::vector<Hdf5Dataset> datasets() const;                          // sorted by path
  Hdf5Dataset dataset(const std::string& path) const;

  bool has_attribute(const std::string& object, const std::string& name) const;
  std::vector<double> attribute_numbers(const std::string& object, const std::string& name) const;
  std::vector<std::string> attribute_texts(const std::string& object,
                                           const std::string& name) const;
  std::vector<std::string> texts(const std::string& path) const;

  // Error where the file cannot hold what the dataset claims. `as`: the element type wanted, the
  // stored one unless given.
  StoredData find_data(const std::string& path, std::optional<base::DType> as) const;
  // The values in order, whole slices along the first axis at a time: body(values, bytes).
  void read_blocks(const StoredData& data, base::DType as,
                   const std::function<void(const char*, std::uint64_t)>& body) const;

 private:
  Handle open_object(const std::string& path) const;
  Handle open_dataset(const std::string& path) const;
  Handle open_attribute(const std::string& object, const std::string& name) const;
  std::uint64_t check_storage(hid_t dataset, const std::string& path, std::uint64_t bytes) const;
  template <class Read>
  std::vector<std::string> read_texts(hid_t type, hid_t space, const std::string& what,
                                      Read&& read) const;
  void list(const std::string& group, int depth, std::size_t& visited,
            std::vector<Hdf5Dataset>& out) const;

  Handle file_;
  std::uint64_t file_bytes_ = 0;
};

}  // namespace io::hdf5
