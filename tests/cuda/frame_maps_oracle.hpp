// What a frame's maps must be: the CPU's coordinates and kernel maps, and an order worked out
// plainly.
#pragma once
#include "sparseconv/kernel_map.hpp"
#include "tests/cuda/frame_maps_case.hpp"

namespace cuda_tests {

struct Expected {
  std::vector<sparseconv::CoordinatesPtr> sets;
  std::vector<sparseconv::KernelMapPtr> maps;
};
Expected expected_of(const FrameCase& frame);

void expect_frame(const FrameCase& frame, const BuiltFrame& built);
// Which ranks of each part fall on each row of a merged set.
void expect_merge(const FrameCase& frame, const BuiltFrame& built);

}  // namespace cuda_tests
