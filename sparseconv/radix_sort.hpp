// Stable ascending sort of 64-bit keys, with or without a payload. Only digits in which the keys
// differ cost a pass.
#pragma once
#include <cstdint>
#include <vector>

namespace sparseconv {

void radix_sort(std::vector<std::uint64_t>& keys);
void radix_sort(std::vector<std::uint64_t>& keys, std::vector<std::uint64_t>& payload);

}  // namespace sparseconv
