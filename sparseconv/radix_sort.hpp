// Stable ascending sort of 64-bit keys by some of their bits, with or without a payload. Scratch as
// large as the arguments comes from where the keys' memory comes from.
#pragma once
#include <cstdint>

#include "gemm_core/base/block_cache.hpp"

namespace sparseconv {

// By bits [first_bit, first_bit + bits).
void radix_sort(base::Buffer<std::uint64_t>& keys, int first_bit, int bits);
// By the low `bits`; the payload, as many as keys, moves with them.
void radix_sort(base::Buffer<std::uint64_t>& keys, base::Buffer<std::uint32_t>& payload, int bits);

}  // namespace sparseconv
