// One piece of memory for all that a build needs, laid out before it is allocated.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace sparseconv::cuda {

// Hands out parts of four regions: all ones before a build, zero before a build, and neither.
// Without a base it measures.
class Arena {
 public:
  enum Region { ones, zeros, plain, constant };  // constant: written from the host
  explicit Arena(std::uint8_t* base = nullptr, const std::array<std::size_t, 4>& sizes = {})
      : base_(base) {
    for (std::size_t r = 1; r < 4; ++r) begin_[r] = begin_[r - 1] + sizes[r - 1];
  }
  template <class T>
  T* take(Region region, std::int64_t count) {
    constexpr std::size_t kAlignment = 256;
    std::size_t& used = used_[region];
    T* at = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + begin_[region] + used);
    used +=
        (static_cast<std::size_t>(count) * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }
  const std::array<std::size_t, 4>& used() const { return used_; }
  std::uint8_t* begin(Region region) const { return base_ + begin_[region]; }

 private:
  std::uint8_t* base_;
  std::array<std::size_t, 4> begin_{}, used_{};
};

}  // namespace sparseconv::cuda
