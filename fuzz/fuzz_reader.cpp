// One reader on arbitrary bytes: a cloud or base::Error, never anything else.
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "io/format.hpp"

namespace {

// HDF5 opens files by name, so its inputs go through one.
io::Cloud read_by_name(std::span<const char> bytes) {
  static const std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("sparseconv-fuzz-" + std::to_string(::getpid()) + ".h5");
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return io::read(path, {.format = FUZZ_FORMAT});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const char> bytes(reinterpret_cast<const char*>(data), size);
  try {
    const io::Cloud cloud =
        std::string_view(FUZZ_FORMAT) == "hdf5"
            ? read_by_name(bytes)
            : io::read_source(io::Source(bytes, "fuzz"), {.format = FUZZ_FORMAT});
    // What commands do with every cloud.
    if (cloud.size() > 0) {
      static_cast<void>(cloud.bounds());
      static_cast<void>(cloud.finite_points());
    }
  } catch (const base::Error&) {
  }
  return 0;
}
