#include <fstream>

#include "io/hdf5_container.hpp"

namespace io {

bool has_hdf5_signature(std::string_view head) {
  // A user block may stand before the signature; its size is a power of two from 512.
  constexpr std::string_view kSignature("\x89HDF\r\n\x1a\n", 8);
  for (std::size_t at = 0; at + 8 <= head.size(); at = at == 0 ? 512 : at * 2) {
    if (head.substr(at, 8) == kSignature) return true;
  }
  return false;
}

bool is_hdf5_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;  // a FIFO would wait for ever
  char head[4096];
  std::ifstream file(path, std::ios::binary);
  file.read(head, sizeof head);
  return has_hdf5_signature({head, static_cast<std::size_t>(file.gcount())});
}

}  // namespace io
