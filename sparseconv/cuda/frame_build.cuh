// The stages of a frame, on whatever runs steps: the device's runner in frame_maps.cu, a plain one
// in tests.
#pragma once
#include "sparseconv/cuda/frame_layout.hpp"

namespace sparseconv::cuda {

namespace stages {

// Bounds of each set of a frame.
inline std::vector<std::optional<SpatialShape>> shapes_of(
    const FrameSpec& spec, const std::optional<SpatialShape>& input) {
  std::vector<std::optional<SpatialShape>> shapes{input};
  for (std::size_t s = 1; s < spec.sets.size(); ++s) {
    const SetSpec& set = spec.sets[s];
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

inline int bits_for_batches(std::int32_t batch_size) {
  return std::bit_width(static_cast<std::uint32_t>(batch_size));
}

template <class Runner>
void build_general(Runner& runner, const FrameLayout& frame, const SetStage& stage,
                   const std::optional<SpatialShape>& shape, std::int32_t batch_size) {
  const CoordinateView& source = frame.sets[static_cast<std::size_t>(stage.source)];
  const CoordinateView& set = frame.sets[static_cast<std::size_t>(stage.sets.front())];
  MarkOutputs mark{.source = source,
                   .set = set,
                   .geometry = stage.geometry,
                   .shape = {},
                   .is_bounded = shape.has_value(),
                   .is_strided = stage.is_strided,
                   .errors = stage.errors,
                   .full = stage.full};
  for (std::size_t a = 0; a < 3 && shape; ++a) mark.shape[a] = (*shape)[a];
  runner.run(mark, source.capacity, 1);
  runner.run(ListBlocks{set.table, stage.ids, stage.slots, stage.blocks}, set.table.slots, 1);
  const int id_bits = 3 * kAxisBits - kBlockBits + bits_for_batches(batch_size);
  const auto sorted =
      runner.sort(Sorted<Key>{stage.ids, stage.slots},
                  Sorted<Key>{stage.sorted_ids, stage.sorted_slots}, set.table.slots, id_bits);
  const CountCells cells{set.table, sorted.values, stage.blocks};
  runner.scan(cells, stage.sums, set.table.slots);
  runner.run(ExpandBlocks{set, cells, sorted.keys, stage.sums, stage.full}, set.table.slots, 1);
}

template <class Runner>
void build_orders(Runner& runner, const FrameLayout& frame) {
  for (const OrderBatch& batch : frame.batches) {
    const OrderJob* jobs = frame.order_jobs + batch.first;
    runner.run(FindMasks{jobs}, batch.max_rows, batch.count);
    runner.run(Arrange{jobs, batch.count, batch.segment_begin}, batch.count * kWarp, 1);
    runner.run(MakeSortingKeys{jobs, batch.keys, batch.values}, batch.max_rows, batch.count);
    const auto sorted =
        runner.sort(Sorted<std::uint32_t>{batch.keys, batch.values},
                    Sorted<std::uint32_t>{batch.sorted_keys, batch.sorted_values}, batch.items, 32);
    runner.run(FillSlots{jobs, sorted.values, batch.segment_begin}, batch.max_slots, batch.count);
  }
}

inline std::int32_t largest(const std::vector<CanonicalJob>& jobs) {
  std::int32_t rows = 0;
  for (const CanonicalJob& job : jobs) rows = std::max(rows, job.source.output.capacity);
  return rows;
}
inline std::int32_t largest(const std::vector<InvertJob>& jobs) {
  std::int32_t rows = 0;
  for (const InvertJob& job : jobs) rows = std::max(rows, job.output.capacity);
  return rows;
}
inline std::int32_t largest(const std::vector<CoordinateView>& sets) {
  std::int32_t rows = 0;
  for (const CoordinateView& set : sets) rows = std::max(rows, set.capacity);
  return rows;
}

}  // namespace stages

// Regions `ones` and `zeros` are cleared here; the keys of the input stand in set 0 (sorted) or
// input_keys (unsorted).
template <class Runner>
void build_frame(Runner& runner, const FrameSpec& spec, const FrameLayout& frame,
                 const FrameKeys& input) {
  const CoordinateView& first = frame.sets.front();
  if (first.rows != nullptr) {
    runner.run(NumberInput{frame.input_keys, frame.input_ranks, first.count, first.capacity},
               first.capacity, 1);
    const auto sorted = runner.sort(Sorted<Key>{frame.input_keys, frame.input_ranks},
                                    Sorted<Key>{first.keys, first.rows}, first.capacity,
                                    3 * kAxisBits + stages::bits_for_batches(input.batch_size));
    runner.copy(first.keys, sorted.keys, first.capacity);
    runner.copy(first.rows, sorted.values, first.capacity);
  }
  const auto shapes = stages::shapes_of(spec, input.spatial_shape);
  for (const SetStage& stage : frame.stages) {
    if (!stage.is_pyramid) {
      stages::build_general(runner, frame, stage,
                            shapes[static_cast<std::size_t>(stage.sets.front())], input.batch_size);
      continue;
    }
    Pyramid pyramid = stage.pyramid;
    for (std::size_t l = 0; l < stage.sets.size(); ++l) {
      pyramid.limits[l] = detail::key_limits(shapes[static_cast<std::size_t>(stage.sets[l])]);
    }
    runner.scan(pyramid, stage.level_rows, pyramid.source.capacity);
    runner.run(BuildPyramid{pyramid, stage.level_rows}, pyramid.source.capacity, 1);
  }
  runner.run(InsertBlocks{frame.tabled_jobs}, stages::largest(frame.tabled),
             static_cast<int>(frame.tabled.size()));
  runner.run(FillCanonical{frame.canonical_jobs}, stages::largest(frame.canonicals),
             static_cast<int>(frame.canonicals.size()));
  runner.run(InvertTables{frame.invert_jobs}, stages::largest(frame.inverts),
             static_cast<int>(frame.inverts.size()));
  stages::build_orders(runner, frame);
}

}  // namespace sparseconv::cuda
