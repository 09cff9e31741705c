// A tap-major neighbour table of a 3x3x3 submanifold convolution for kernel benchmarks: from a
// KITTI-style scan (x y z intensity as float32), voxels in Morton order. Independent of
// sparseconv/, so that kernels can be timed alone.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace benchmarks {

struct VoxelFrame {
  std::int64_t rows = 0, pairs = 0;
  std::vector<std::int32_t> neighbours;  // [27][rows]
};

inline std::uint64_t spread_bits(std::uint64_t v) {
  std::uint64_t r = 0;
  for (int i = 0; i < 20; ++i) r |= ((v >> i) & 1) << (3 * i);
  return r;
}

inline VoxelFrame read_voxel_frame(const std::string& path, double voxel_size) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<std::uint64_t> keys;
  const auto key = [](std::int64_t x, std::int64_t y, std::int64_t z) {
    constexpr std::int64_t kCentre = 1 << 18;
    return spread_bits(static_cast<std::uint64_t>(x + kCentre)) << 2 |
           spread_bits(static_cast<std::uint64_t>(y + kCentre)) << 1 |
           spread_bits(static_cast<std::uint64_t>(z + kCentre));
  };
  struct Cell {
    std::int64_t x, y, z;
    std::uint64_t key;
  };
  std::vector<Cell> cells;
  float point[4];
  while (file.read(reinterpret_cast<char*>(point), sizeof point)) {
    const auto cell = [&](int axis) {
      return static_cast<std::int64_t>(std::floor(double(point[axis]) / voxel_size));
    };
    cells.push_back({cell(0), cell(1), cell(2), key(cell(0), cell(1), cell(2))});
  }
  std::sort(cells.begin(), cells.end(), [](const Cell& a, const Cell& b) { return a.key < b.key; });
  cells.erase(std::unique(cells.begin(), cells.end(),
                          [](const Cell& a, const Cell& b) { return a.key == b.key; }),
              cells.end());
  VoxelFrame frame;
  frame.rows = static_cast<std::int64_t>(cells.size());
  for (const Cell& c : cells) keys.push_back(c.key);
  for (int tap = 0; tap < 27; ++tap) {
    for (const Cell& c : cells) {
      const std::uint64_t wanted = key(c.x + tap / 9 - 1, c.y + tap / 3 % 3 - 1, c.z + tap % 3 - 1);
      const auto found = std::lower_bound(keys.begin(), keys.end(), wanted);
      const bool present = found != keys.end() && *found == wanted;
      frame.neighbours.push_back(present ? static_cast<std::int32_t>(found - keys.begin()) : -1);
      frame.pairs += present;
    }
  }
  return frame;
}

}  // namespace benchmarks
