#include "sparseconv/radix_sort.hpp"

#include <array>
#include <bit>
#include <utility>

namespace sparseconv {
namespace {

constexpr int kDigitBits = 11, kDigits = 1 << kDigitBits;

struct Nothing {};

template <class Payload>
void sort_by(base::Buffer<std::uint64_t>& keys, base::Buffer<Payload>& payload) {
  constexpr bool kHasPayload = !std::is_same_v<Payload, Nothing>;
  std::uint64_t varying = 0;
  for (const std::uint64_t key : keys) varying |= key ^ keys.front();
  const auto& cache = keys.get_allocator().cache();
  base::Buffer<std::uint64_t> other_keys(keys.size(), cache);
  base::Buffer<Payload> other_payload(kHasPayload ? keys.size() : 0, cache);
  int low = 0;
  while (low < 64 && (varying >> low) != 0) {
    low += std::countr_zero(varying >> low);
    std::array<std::size_t, kDigits> place{};
    for (const std::uint64_t key : keys) ++place[(key >> low) % kDigits];
    std::size_t sum = 0;
    for (std::size_t& count : place) sum += std::exchange(count, sum);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const std::size_t to = place[(keys[i] >> low) % kDigits]++;
      other_keys[to] = keys[i];
      if constexpr (kHasPayload) other_payload[to] = payload[i];
    }
    keys.swap(other_keys);
    if constexpr (kHasPayload) payload.swap(other_payload);
    low += kDigitBits;
  }
}

}  // namespace

void radix_sort(base::Buffer<std::uint64_t>& keys) {
  base::Buffer<Nothing> none;
  sort_by(keys, none);
}

void radix_sort(base::Buffer<std::uint64_t>& keys, base::Buffer<std::uint64_t>& payload) {
  sort_by(keys, payload);
}

}  // namespace sparseconv
