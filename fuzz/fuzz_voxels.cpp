// Voxel files of arbitrary bytes: voxels or base::Error, never anything else.
#include "fuzz/named_input.hpp"
#include "gemm_core/base/error.hpp"
#include "sparseconv/voxel_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto& path = named_input({reinterpret_cast<const char*>(data), size});
    if (sparseconv::is_voxel_file(path)) static_cast<void>(sparseconv::read_voxel_file(path));
  } catch (const base::Error&) {
  }
  return 0;
}
