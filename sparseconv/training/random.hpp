// Random numbers of the training code: splitmix64 (Steele, Lea, Flood 2014). A stream is chosen by
// hashing what it is for, so that no draw depends on how many were made before it elsewhere.
#pragma once
#include <cstdint>

namespace sparseconv::training {

constexpr std::uint64_t mixed(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}
template <class... Rest>
constexpr std::uint64_t stream_of(std::uint64_t first, Rest... rest) {
  std::uint64_t h = mixed(first);
  ((h = mixed(h ^ static_cast<std::uint64_t>(rest))), ...);
  return h;
}

class RandomStream {
 public:
  explicit RandomStream(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return mixed(state_++ * 0xd1342543de82ef95ull); }
  double uniform(double low = 0, double high = 1) {  // [low, high)
    return low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53;
  }
  bool chance(double probability) { return uniform() < probability; }
  std::int64_t integer(std::int64_t count) {  // 0 .. count-1
    return static_cast<std::int64_t>(uniform() * static_cast<double>(count));
  }
  // Zero mean, unit variance, within 3.5: the sum of four uniform numbers.
  double gaussian() {
    const std::uint64_t h = next();
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<double>((h >> (16 * i)) & 0xffff) * 0x1p-16;
    return (sum - 2) * 1.7320508075688772;
  }

 private:
  std::uint64_t state_;
};

}  // namespace sparseconv::training
