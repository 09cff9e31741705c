// Buffers of a plan into one arena: largest first, each at the lowest offset that no buffer alive
// at the same time uses.
#include <algorithm>

#include "sparseconv/plan.hpp"

namespace sparseconv {
namespace {

constexpr std::int64_t kAlignment = 64;

bool overlap(const PlanBuffer& a, const PlanBuffer& b) {
  return a.first_step <= b.last_step && b.first_step <= a.last_step;
}

std::int64_t largest_two_alive(const Plan& plan, std::span<const std::int64_t> size) {
  std::int64_t largest = 0;
  for (int step = 0; step < static_cast<int>(plan.steps.size()); ++step) {
    std::int64_t first = 0, second = 0;
    for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
      if (step < plan.buffers[b].first_step || step > plan.buffers[b].last_step) continue;
      second = std::max(second, std::min(first, size[b]));
      first = std::max(first, size[b]);
    }
    largest = std::max(largest, first + second);
  }
  return largest;
}

}  // namespace

void place_buffers(const Plan& plan, std::span<const std::int64_t> rows, int bytes_per_element,
                   Placement& placement) {
  const std::size_t count = plan.buffers.size();
  auto& [size, by_size, neighbours] = placement.scratch;
  size.resize(count);
  by_size.resize(count);
  placement.offset.assign(count, 0);
  placement.bytes = 0;
  for (std::size_t b = 0; b < count; ++b) {
    const PlanBuffer& buffer = plan.buffers[b];
    const std::int64_t element =
        buffer.is_f32 ? static_cast<std::int64_t>(sizeof(float)) : bytes_per_element;
    const std::int64_t exact =
        rows[static_cast<std::size_t>(buffer.level)] * buffer.channels * element;
    size[b] = (exact + kAlignment - 1) / kAlignment * kAlignment;
    by_size[b] = static_cast<int>(b);
  }
  // Clang 14 captures a structured binding only under a name of its own.
  std::sort(by_size.begin(), by_size.end(), [&size = size](int a, int b) {
    const auto size_a = size[static_cast<std::size_t>(a)],
               size_b = size[static_cast<std::size_t>(b)];
    return size_a != size_b ? size_a > size_b : a < b;
  });
  const auto offset_of = [&](int b) { return placement.offset[static_cast<std::size_t>(b)]; };
  for (std::size_t i = 0; i < count; ++i) {
    const auto current = static_cast<std::size_t>(by_size[i]);
    neighbours.clear();
    for (std::size_t j = 0; j < i; ++j) {
      const auto other = static_cast<std::size_t>(by_size[j]);
      if (overlap(plan.buffers[current], plan.buffers[other])) neighbours.push_back(by_size[j]);
    }
    std::sort(neighbours.begin(), neighbours.end(), [&](int a, int b) {
      return std::pair(offset_of(a), a) < std::pair(offset_of(b), b);
    });
    std::int64_t offset = 0;
    for (const int other : neighbours) {
      if (offset + size[current] <= offset_of(other)) break;
      offset = std::max(offset, offset_of(other) + size[static_cast<std::size_t>(other)]);
    }
    placement.offset[current] = offset;
    placement.bytes = std::max(placement.bytes, offset + size[current]);
  }
  placement.largest_two = largest_two_alive(plan, size);
}

}  // namespace sparseconv
