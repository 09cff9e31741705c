#include <algorithm>

#include "gemm_core/base/cuda/resources.hpp"
#include "tests/cuda/frame_maps_case.hpp"

namespace cuda_tests {
namespace {

namespace sc = sparseconv::cuda;

template <class T>
std::vector<T> copy(const T* from, std::int64_t count) {
  std::vector<T> to(from == nullptr ? 0 : static_cast<std::size_t>(count));
  if (!to.empty())
    CUDA_CHECK(cudaMemcpy(to.data(), from, to.size() * sizeof(T), cudaMemcpyDeviceToHost));
  return to;
}

sc::FrameKeys keys_of(const FrameCase& c, const sparseconv::Key* keys) {
  return {.keys = keys,
          .rows = static_cast<std::int64_t>(c.keys.size()),
          .batch_size = c.batch_size,
          .spatial_shape = c.spatial_shape};
}

BuiltFrame download(const FrameCase& c, const sc::FrameMaps& maps) {
  BuiltFrame built;
  built.sizes = maps.check(copy(maps.status(), static_cast<std::int64_t>(maps.status_size())));
  for (int s = 0; s < static_cast<int>(c.spec.sets.size()); ++s) {
    const std::int64_t rows = built.sizes.rows[static_cast<std::size_t>(s)];
    built.keys.push_back(copy(maps.keys(s), std::min(rows, maps.row_capacity(s))));
  }
  built.rank_to_row = copy(maps.rank_to_row(0), static_cast<std::int64_t>(built.keys[0].size()));
  for (int m = 0; m < static_cast<int>(c.spec.maps.size()); ++m) {
    const sc::DeviceMapView view = maps.view(m);
    BuiltMap& map = built.maps.emplace_back();
    map.taps = view.table.taps;
    map.row_capacity = view.row_capacity;
    map.canonical = copy(view.canonical, map.taps * map.row_capacity);
    map.capacity = view.table.capacity;
    map.neighbours = copy(view.table.neighbours, map.taps * map.capacity);
    map.rows = copy(view.table.rows, map.capacity);
    map.plane_begin = copy(view.table.plane_begin, 5);
    map.group_masks = copy(view.table.group_masks, map.capacity / gemm_core::kSlotGroup);
  }
  if (const int set = merged_set(c.spec); set >= 0) {
    const sc::MergeView merge = maps.merge(set);
    const auto parts =
        static_cast<std::int64_t>(c.spec.sets[static_cast<std::size_t>(set)].parts.size());
    built.part_begin = copy(merge.part_begin, parts + 1);
    built.merge_begin = copy(merge.begin, built.sizes.rows[static_cast<std::size_t>(set)] + 1);
    built.merge_items = copy(merge.items, built.part_begin.back());
  }
  return built;
}

}  // namespace

BuiltFrame build_on_device(const FrameCase& c, int builds) {
  const auto stream = base::cuda::Stream::create();
  sc::FrameMaps maps(c.spec);
  maps.reserve(c.capacity);
  for (int build = 0; build < builds; ++build) maps.build(keys_of(c, c.keys.data()), stream.get());
  stream.synchronize();
  return download(c, maps);
}

BuiltFrame build_as_graph(const FrameCase& c, int replays) {
  const auto stream = base::cuda::Stream::create();
  sc::FrameMaps maps(c.spec);
  maps.reserve(c.capacity);
  base::cuda::Buffer<sparseconv::Key> keys(c.keys.size());
  upload(keys, c.keys.data(), c.keys.size(), stream.get());
  stream.synchronize();
  const auto graph = base::cuda::Graph::capture(
      stream.get(), [&] { maps.build(keys_of(c, keys.data()), stream.get()); });
  for (int replay = 0; replay < replays; ++replay) graph.launch(stream.get());
  stream.synchronize();
  return download(c, maps);
}

}  // namespace cuda_tests
