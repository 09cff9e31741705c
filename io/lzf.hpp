// LZF, the compression of binary_compressed PCD files: literal runs and back references within 8
// KiB.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "io/source.hpp"

namespace io {

// Upper bound of what `compressed` bytes can expand to: 3 bytes give at most 264.
constexpr std::int64_t max_lzf_expansion(std::int64_t compressed) { return compressed * 88; }

// Decompresses `in` (all of it) and hands the bytes on in pieces, in order; memory does not grow
// with the data. Error when the data is damaged or gives another number of bytes than `expected`.
void lzf_decompress(ByteStream& in, std::int64_t expected,
                    const std::function<void(std::string_view)>& out);

// Always readable by lzf_decompress and liblzf; incompressible data grows by 1/32.
std::string lzf_compress(std::string_view bytes);

}  // namespace io
