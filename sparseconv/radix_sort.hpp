// Stable ascending sort of 64-bit keys, with or without a payload. Only digits in which the keys
// differ cost a pass. Scratch as large as the arguments comes from where the keys' memory comes
// from.
#pragma once
#include <cstdint>

#include "gemm_core/base/block_cache.hpp"

namespace sparseconv {

void radix_sort(base::Buffer<std::uint64_t>& keys);
void radix_sort(base::Buffer<std::uint64_t>& keys, base::Buffer<std::uint64_t>& payload);

}  // namespace sparseconv
