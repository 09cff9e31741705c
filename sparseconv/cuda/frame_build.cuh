// The stages of a frame, on whatever runs steps: the device's runner in frame_maps.cu, a plain one
// in tests.
#pragma once
#include "sparseconv/cuda/frame_layout.hpp"

namespace sparseconv::cuda {

namespace stages {

// Bounds of a union: the smallest that hold every part; none where a part has none.
inline std::optional<SpatialShape> merged_shape(
    const SetSpec& set, const std::vector<std::optional<SpatialShape>>& shapes) {
  SpatialShape merged{1, 1, 1};
  for (const SetSpec::Part& part : set.parts) {
    const auto& shape = shapes[static_cast<std::size_t>(part.source)];
    if (!shape) return std::nullopt;
    for (std::size_t a = 0; a < 3; ++a)
      merged[a] = std::max(merged[a], ((*shape)[a] - 1) * part.geometry.stride[a] + 1);
  }
  return merged;
}

// Bounds of each set of a frame.
inline std::vector<std::optional<SpatialShape>> shapes_of(
    const FrameSpec& spec, const std::optional<SpatialShape>& input) {
  std::vector<std::optional<SpatialShape>> shapes{input};
  for (std::size_t s = 1; s < spec.sets.size(); ++s) {
    const SetSpec& set = spec.sets[s];
    if (set.kind == SetSpec::Kind::global) {
      shapes.push_back(input ? std::optional(SpatialShape{1, 1, 1}) : std::nullopt);
      continue;
    }
    if (set.kind == SetSpec::Kind::merged) {
      shapes.push_back(merged_shape(set, shapes));
      continue;
    }
    const auto& source = shapes[static_cast<std::size_t>(set.source)];
    if (!source) {
      shapes.emplace_back();
    } else if (set.kind == SetSpec::Kind::strided) {
      shapes.emplace_back(set.geometry.coarse_shape(*source));
    } else {
      shapes.emplace_back(set.geometry.fine_shape(*source));
    }
  }
  return shapes;
}

// Bits that tell keys of a set apart, `dropped` bits below them left out. Where there are bounds,
// cells differ in few bits of each axis.
inline SortBits bits_of_keys(const std::optional<SpatialShape>& shape, std::int32_t batch_size,
                             int dropped) {
  const int batch_bits = std::bit_width(static_cast<std::uint32_t>(std::max(0, batch_size - 1)));
  const int batch_at = 3 * kAxisBits - dropped;
  if (!shape) return {.low = batch_at + batch_bits};
  std::int64_t extent = 1;
  for (const std::int64_t size : *shape) extent = std::max(extent, size);
  const int axis_bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(extent - 1)));
  if (axis_bits >= kAxisBits) return {.low = batch_at + batch_bits};
  return {.low = std::max(0, 3 * axis_bits - dropped), .from = batch_at, .high = batch_bits};
}

template <class Runner>
void build_general(Runner& runner, const FrameLayout& frame, const SetStage& stage,
                   const std::optional<SpatialShape>& shape, std::int32_t batch_size) {
  const CoordinateView& set = frame.sets[static_cast<std::size_t>(stage.sets.front())];
  for (const SetSpec::Part& part : stage.parts) {
    MarkOutputs mark{.source = frame.sets[static_cast<std::size_t>(part.source)],
                     .set = set,
                     .geometry = part.geometry,
                     .shape = {},
                     .is_bounded = shape.has_value(),
                     .is_strided = stage.is_strided,
                     .errors = stage.errors,
                     .full = stage.full};
    for (std::size_t a = 0; a < 3 && shape; ++a) mark.shape[a] = (*shape)[a];
    runner.run(mark);
  }
  if (stage.is_counted) {
    runner.run(GroupBlocks{set.table, stage.groups, set.count});
    runner.run(RankGroups{stage.groups});
    runner.run(ExpandGroups{set, stage.groups, stage.full});
    return;
  }
  runner.run(ListBlocks{set.table, stage.ids, stage.slots, stage.blocks});
  const auto sorted = runner.sort(
      Sorted<Key>{stage.ids, stage.slots}, Sorted<Key>{stage.sorted_ids, stage.sorted_slots},
      {set.table.slots, stage.blocks}, bits_of_keys(shape, batch_size, kBlockBits));
  const CountCells cells{set.table, sorted.values, stage.blocks};
  runner.scan(cells, stage.sums, set.table.slots);
  runner.run(ExpandBlocks{set, cells, stage.sums, stage.full});
}

template <class Runner>
void build_merge(Runner& runner, const MergeStage& merge) {
  runner.run(ArrangeMerged{merge.merged, merge.part_begin, merge.item_count});
  runner.run(
      ListMerged{merge.merged, merge.part_begin, merge.unsorted.keys, merge.unsorted.values});
  const ItemCount number{merge.items, merge.item_count};
  const auto capacity = static_cast<std::uint32_t>(merge.merged.set.capacity);
  const auto sorted = runner.sort(merge.unsorted, merge.sorted, number,
                                  {.low = static_cast<int>(std::bit_width(capacity))});
  runner.run(FillMerged{merge.merged.set, sorted.keys, sorted.values, number, merge.items_of_rows,
                        merge.begin});
}

template <bool kAdjacent, class Runner>
void run_adjacent(Runner& runner, const OrderJobs& orders) {
  FindNeighbours<kAdjacent> find;
  for (int job = 0; job < orders.count; ++job) {
    const bool is_adjacent = orders[job].source.kind == MapSource::Kind::adjacent;
    if (is_adjacent == kAdjacent) find.orders.item[find.orders.count++] = orders[job];
  }
  runner.run(find);
}

template <class Runner>
void build_orders(Runner& runner, const FrameLayout& frame) {
  for (const OrderBatch& batch : frame.batches) {
    run_adjacent<true>(runner, batch.orders);
    run_adjacent<false>(runner, batch.orders);
    runner.run(Arrange{batch.orders, batch.segment_begin, batch.item_count});
    runner.run(MakeSortingKeys{batch.orders, batch.unsorted.keys, batch.unsorted.values});
    const auto sorted =
        runner.sort(batch.unsorted, batch.sorted, {batch.items, batch.item_count}, {.low = 32});
    runner.run(FillSlots{batch.orders, sorted.values, batch.segment_begin});
  }
}

// As many launches as it takes.
template <class Step, class Runner, class Job>
void run_all(Runner& runner, const std::vector<Job>& jobs) {
  for (std::size_t first = 0; first < jobs.size(); first += kMaxJobs) {
    JobList<Job> list;
    while (list.count < kMaxJobs && first + static_cast<std::size_t>(list.count) < jobs.size()) {
      list.item[list.count] = jobs[first + static_cast<std::size_t>(list.count)];
      ++list.count;
    }
    runner.run(Step{list});
  }
}

}  // namespace stages

// Regions `ones` and `zeros` are cleared here; the keys of the input stand in set 0 (sorted) or
// input_keys (unsorted).
template <class Runner>
void build_frame(Runner& runner, const FrameSpec& spec, const FrameLayout& frame,
                 const FrameKeys& input) {
  const CoordinateView& first = frame.sets.front();
  if (first.rows != nullptr) {
    runner.run(NumberInput{frame.input_ranks, first.count, first.capacity});
    const auto sorted =
        runner.sort(Sorted<Key>{frame.input_keys, frame.input_ranks},
                    Sorted<Key>{first.keys, first.rows}, {first.capacity, first.count},
                    stages::bits_of_keys(input.spatial_shape, input.batch_size, 0));
    runner.copy(first.keys, sorted.keys, first.capacity);
    runner.copy(first.rows, sorted.values, first.capacity);
  }
  const auto shapes = stages::shapes_of(spec, input.spatial_shape);
  for (const SetStage& stage : frame.stages) {
    if (stage.kind == SetStage::Kind::global) {
      const auto set = static_cast<std::size_t>(stage.sets.front());
      runner.run(FillGlobal{frame.sets[set], input.batch_size});
      continue;
    }
    if (stage.kind == SetStage::Kind::general) {
      stages::build_general(runner, frame, stage,
                            shapes[static_cast<std::size_t>(stage.sets.front())], input.batch_size);
      continue;
    }
    Pyramid pyramid = stage.pyramid;
    for (std::size_t l = 0; l < stage.sets.size(); ++l) {
      pyramid.limits[l] = detail::key_limits(shapes[static_cast<std::size_t>(stage.sets[l])]);
    }
    runner.run(MarkLevels{pyramid});
    runner.scan(CountLevels{pyramid}, stage.level_rows, pyramid.source.capacity / kWarp);
    runner.run(BuildPyramid{pyramid, stage.level_rows});
  }
  stages::run_all<InsertBlocks>(runner, frame.tabled);
  for (const MergeStage& merge : frame.merges) stages::build_merge(runner, merge);
  stages::run_all<FillCanonical>(runner, frame.canonicals);
  stages::run_all<InvertTables>(runner, frame.inverts);
  stages::build_orders(runner, frame);
}

}  // namespace sparseconv::cuda
