#include "sparseconv/radix_sort.hpp"

#include <array>
#include <type_traits>
#include <utility>

namespace sparseconv {
namespace {

constexpr int kMaxDigitBits = 11;

struct Nothing {};

// Digits of even size, as few as may be; those that all keys share cost a look but no pass.
template <class Payload>
void sort_by(base::Buffer<std::uint64_t>& keys, base::Buffer<Payload>& payload, int first_bit,
             int bits) {
  constexpr bool kHasPayload = !std::is_same_v<Payload, Nothing>;
  const int passes = (bits + kMaxDigitBits - 1) / kMaxDigitBits;
  if (passes == 0 || keys.size() < 2) return;
  const int digit_bits = (bits + passes - 1) / passes;
  const std::uint64_t mask = (std::uint64_t{1} << digit_bits) - 1;
  const auto& cache = keys.get_allocator().cache();
  base::Buffer<std::uint64_t> other_keys(keys.size(), cache);
  base::Buffer<Payload> other_payload(kHasPayload ? keys.size() : 0, cache);
  for (int low = first_bit; low < first_bit + bits; low += digit_bits) {
    std::array<std::uint32_t, std::size_t{1} << kMaxDigitBits> place{};
    for (const std::uint64_t key : keys) ++place[key >> low & mask];
    if (place[keys.front() >> low & mask] == keys.size()) continue;
    std::uint32_t sum = 0;
    for (std::uint64_t digit = 0; digit <= mask; ++digit) {
      sum += std::exchange(place[digit], sum);
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const std::uint32_t to = place[keys[i] >> low & mask]++;
      other_keys[to] = keys[i];
      if constexpr (kHasPayload) other_payload[to] = payload[i];
    }
    keys.swap(other_keys);
    if constexpr (kHasPayload) payload.swap(other_payload);
  }
}

}  // namespace

void radix_sort(base::Buffer<std::uint64_t>& keys, int first_bit, int bits) {
  base::Buffer<Nothing> none;
  sort_by(keys, none, first_bit, bits);
}

void radix_sort(base::Buffer<std::uint64_t>& keys, base::Buffer<std::uint32_t>& payload, int bits) {
  sort_by(keys, payload, 0, bits);
}

}  // namespace sparseconv
