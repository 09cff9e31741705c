// One reader on arbitrary bytes: a cloud or base::Error, never anything else.
#include "fuzz/named_input.hpp"
#include "io/format.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const char> bytes(reinterpret_cast<const char*>(data), size);
  const io::ReadOptions options{.format = FUZZ_FORMAT};
  try {
    const bool is_named = options.format == "hdf5" || options.format == "e57";
    const io::Cloud cloud = is_named ? io::read(named_input(bytes), options)
                                     : io::read_source(io::Source(bytes, "fuzz"), options);
    // What commands do with every cloud.
    if (cloud.size() > 0) {
      static_cast<void>(cloud.bounds());
      static_cast<void>(cloud.finite_points());
    }
  } catch (const base::Error&) {
  }
  return 0;
}
