// A frame's maps built by the steps of sparseconv/cuda, on the device or one after the other on the
// host, and copied to where tests can read them.
#pragma once
#include <vector>

#include "sparseconv/cuda/maps/frame_maps.hpp"

namespace cuda_tests {

struct BuiltMap {
  std::vector<std::int32_t> canonical;  // [taps][row_capacity], empty where there is none
  std::int64_t row_capacity = 0, capacity = 0;
  int taps = 0;
  std::vector<std::int32_t> neighbours, rows,
      plane_begin;  // as GatherTable, empty without an order
  std::vector<std::uint32_t> group_masks;
};

struct BuiltFrame {
  std::vector<std::vector<sparseconv::Key>> keys;  // of each set, ascending
  std::vector<std::int32_t> rank_to_row;           // of set 0, empty: the same
  std::vector<BuiltMap> maps;
  sparseconv::cuda::FrameMaps::Sizes sizes;
  // MergeView of the one merged set, where there is one.
  std::vector<std::int32_t> merge_items, merge_begin, part_begin;
};

// The merged set of a frame, or -1.
inline int merged_set(const sparseconv::cuda::FrameSpec& spec) {
  for (std::size_t s = 0; s < spec.sets.size(); ++s) {
    if (!spec.sets[s].parts.empty()) return static_cast<int>(s);
  }
  return -1;
}

struct FrameCase {
  sparseconv::cuda::FrameSpec spec;
  sparseconv::cuda::FrameCapacity capacity;
  std::vector<sparseconv::Key> keys;  // of the input, in row order
  std::int32_t batch_size = 1;
  std::optional<sparseconv::SpatialShape> spatial_shape;
};

// `builds` times into the same memory; the last counts.
BuiltFrame build_on_host(const FrameCase& frame, int builds = 1);
BuiltFrame build_on_device(const FrameCase& frame, int builds = 1);
// As one graph, replayed.
BuiltFrame build_as_graph(const FrameCase& frame, int replays);

}  // namespace cuda_tests
