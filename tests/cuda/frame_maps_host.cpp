#include <algorithm>
#include <numeric>

#include "sparseconv/cuda/maps/frame_build.cuh"
#include "tests/cuda/frame_maps_case.hpp"
#include "tests/cuda/host_runner.hpp"

namespace cuda_tests {
namespace {

namespace sc = sparseconv::cuda;

template <class T>
std::vector<T> copy(const T* from, std::int64_t count) {
  return from == nullptr ? std::vector<T>{} : std::vector<T>(from, from + count);
}

}  // namespace

BuiltFrame build_on_host(const FrameCase& c, int builds) {
  sc::check_spec(c.spec);
  const auto sizes = sc::lay_out(c.spec, c.capacity, sc::Arena()).arena.used();
  // Nothing may rely on memory that was not written: it holds 0xa5 at first.
  std::vector<std::uint64_t> memory((sizes[0] + sizes[1] + sizes[2] + sizes[3]) / 8 + 1,
                                    0xa5a5a5a5a5a5a5a5ull);
  const sc::FrameLayout frame = sc::lay_out(
      c.spec, c.capacity, sc::Arena(reinterpret_cast<std::uint8_t*>(memory.data()), sizes));
  const auto& first = frame.sets.front();
  HostRunner runner;
  for (int build = 0; build < builds; ++build) {
    std::fill_n(frame.arena.begin(sc::Arena::ones), sizes[sc::Arena::ones], std::uint8_t{0xff});
    std::fill_n(frame.arena.begin(sc::Arena::zeros), sizes[sc::Arena::zeros], std::uint8_t{0});
    std::copy(c.keys.begin(), c.keys.end(), first.rows != nullptr ? frame.input_keys : first.keys);
    *first.count = static_cast<std::int32_t>(c.keys.size());
    sc::build_frame(runner, c.spec, frame,
                    {.batch_size = c.batch_size, .spatial_shape = c.spatial_shape});
  }
  BuiltFrame built;
  built.sizes = sc::read_status(frame, {frame.status, 2 * c.spec.sets.size()});
  for (const auto& set : frame.sets) built.keys.push_back(copy(set.keys, set.size()));
  built.rank_to_row = copy(first.rows, first.size());
  for (std::size_t m = 0; m < c.spec.maps.size(); ++m) {
    BuiltMap& map = built.maps.emplace_back();
    map.taps = c.spec.maps[m].geometry.taps();
    map.row_capacity = frame.sets[static_cast<std::size_t>(c.spec.maps[m].output)].capacity;
    map.canonical = copy(frame.tables[m].table, map.taps * map.row_capacity);
    if (frame.order_of_map[m] < 0) continue;
    const auto& order = frame.orders[static_cast<std::size_t>(frame.order_of_map[m])];
    map.capacity = order.capacity;
    map.neighbours = copy(order.neighbours, map.taps * map.capacity);
    map.rows = copy(order.rows, map.capacity);
    map.plane_begin = copy(order.plane_begin, 5);
    map.group_masks = copy(order.group_masks, map.capacity / gemm_core::kSlotGroup);
  }
  for (const sc::MergeStage& merge : frame.merges) {
    built.part_begin = copy(merge.part_begin, merge.merged.count + 1);
    built.merge_begin = copy(merge.begin, merge.merged.set.size() + 1);
    built.merge_items = copy(merge.items_of_rows, built.part_begin.back());
  }
  return built;
}

}  // namespace cuda_tests
