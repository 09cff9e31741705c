// Where WGMMA expects the elements of a K-major operand tile in shared memory, and the 64-bit
// descriptor that says so. A tile is made of *spans*: rows of 32, 64 or 128 bytes, 8 rows an 8-row
// core block, the 16-byte chunks of a row permuted by the row number (the swizzles of that many
// bytes). No CUDA in here: the arithmetic is tested on the host.
#pragma once
#include <cstdint>

#include "gemm_core/base/host_device.hpp"

namespace gemm_core {

// Byte offset of 16-byte chunk `chunk` of row `row` in a tile whose rows are `kSpanBytes` long.
template <int kSpanBytes>
BASE_HD constexpr std::uint32_t swizzled_offset(std::uint32_t row, std::uint32_t chunk) {
  static_assert(kSpanBytes == 32 || kSpanBytes == 64 || kSpanBytes == 128);
  const std::uint32_t permuted = kSpanBytes == 128  ? chunk ^ (row & 7)
                                 : kSpanBytes == 64 ? chunk ^ ((row >> 1) & 3)
                                                    : chunk ^ ((row >> 2) & 1);
  return row * kSpanBytes + permuted * 16;
}

// Descriptor of the tile that starts at shared address `address` (a multiple of 1024). Bits 0-13:
// address / 16; 16-29: leading offset / 16, ignored for swizzled K-major tiles (1); 32-45: bytes
// between 8-row blocks / 16; 62-63: swizzle (1: 128 bytes, 2: 64, 3: 32). Stepping along K adds
// bytes / 16 to the address.
template <int kSpanBytes>
BASE_HD constexpr std::uint64_t wgmma_descriptor(std::uint32_t address) {
  static_assert(kSpanBytes == 32 || kSpanBytes == 64 || kSpanBytes == 128);
  return static_cast<std::uint64_t>((address & 0x3ffffu) >> 4) | std::uint64_t{1} << 16 |
         static_cast<std::uint64_t>(8 * kSpanBytes / 16) << 32 |
         static_cast<std::uint64_t>(kSpanBytes == 128  ? 1
                                    : kSpanBytes == 64 ? 2
                                                       : 3)
             << 62;
}

// The same bytes read with rows as K: a tile of rows of 64 channels (128 bytes), `span_bytes`
// between spans of 64 channels. Bits 16-29: that; 32-45: bytes between groups of 8 rows of K.
// Stepping along K adds 128 bytes a row.
BASE_HD constexpr std::uint64_t wgmma_mn_descriptor(std::uint32_t address,
                                                    std::uint32_t span_bytes) {
  return static_cast<std::uint64_t>((address & 0x3ffffu) >> 4) |
         static_cast<std::uint64_t>(span_bytes >> 4) << 16 |
         static_cast<std::uint64_t>(8 * 128 / 16) << 32 | std::uint64_t{1} << 62;
}

// The descriptor of a tile `by` * 16 bytes further on. Only the low word changes: no carry leaves
// the address field as long as the tile stays inside shared memory.
BASE_HD constexpr std::uint64_t moved_descriptor(std::uint64_t descriptor, std::uint32_t by) {
  return (descriptor & 0xffffffff00000000ull) | (static_cast<std::uint32_t>(descriptor) + by);
}

}  // namespace gemm_core
