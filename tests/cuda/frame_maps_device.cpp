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

// Appends `count` values from `begin` on, and -2 for those around them up to `pitch`, which are
// never written.
void append_part(std::vector<std::int32_t>& to, const std::int32_t* from, std::int64_t pitch,
                 std::int64_t begin, std::int64_t count) {
  const std::size_t at = to.size();
  to.resize(at + static_cast<std::size_t>(pitch), -2);
  if (count > 0)
    CUDA_CHECK(cudaMemcpy(to.data() + at + begin, from + begin,
                          static_cast<std::size_t>(count) * sizeof(std::int32_t),
                          cudaMemcpyDeviceToHost));
}

void copy_order(BuiltMap& map, const gemm_core::GatherTable& table, bool has_planes) {
  map.plane_begin = copy(table.plane_begin, 5);
  if (map.plane_begin.empty()) return;
  const std::int32_t* const begin = map.plane_begin.data();
  const std::int64_t slots = (std::int64_t{begin[4]} + 127) / 128 * 128;
  append_part(map.rows, table.rows, map.capacity, 0, slots);
  map.group_masks = copy(table.group_masks, slots / gemm_core::kSlotGroup);
  for (int tap = 0; tap < map.taps; ++tap) {
    const int plane = !has_planes ? 2 : tap % 3 == 0 ? 0 : tap % 3 == 2 ? 1 : 2;
    const std::int64_t end = plane == 2 ? slots : begin[plane + 1];
    append_part(map.neighbours, table.neighbours + tap * map.capacity, map.capacity, begin[plane],
                end - begin[plane]);
  }
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
    const sc::MapSpec& spec = c.spec.maps[static_cast<std::size_t>(m)];
    const std::int64_t rows =
        std::min(built.sizes.rows[static_cast<std::size_t>(spec.output)], map.row_capacity);
    if (view.canonical != nullptr) {
      for (int tap = 0; tap < map.taps; ++tap)
        append_part(map.canonical, view.canonical + tap * map.row_capacity, map.row_capacity, 0,
                    rows);
    }
    map.capacity = view.table.capacity;
    copy_order(map, view.table, spec.order == sc::RowOrder::planes);
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
