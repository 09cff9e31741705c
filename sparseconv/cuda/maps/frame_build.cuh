// The stages of a frame, on whatever runs steps: the device's runner in frame_maps.cu, a plain one
// in tests.
#pragma once
#include <algorithm>
#include <functional>
#include <limits>

#include "sparseconv/cuda/maps/frame_layout.hpp"

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

// Makes the sets of a frame, one stage after the other. Counted general sets wait until somebody
// wants their keys: so those of a chain are numbered together.
template <class Runner>
class SetBuilder {
 public:
  SetBuilder(Runner& runner, const FrameSpec& spec, const FrameLayout& frame,
             const FrameKeys& input)
      : runner_(runner),
        frame_(frame),
        input_(input),
        shapes_(shapes_of(spec, input.spatial_shape)),
        state_(frame.sets.size(), State::absent) {}

  void run() {
    reach(0, State::keyed);
    for (const SetStage& stage : frame_.stages) {
      switch (stage.kind) {
        case SetStage::Kind::global:
          runner_.run(FillGlobal{set(stage.sets.front()), input_.batch_size});
          break;
        case SetStage::Kind::general:
          build_general(stage);
          break;
        case SetStage::Kind::pyramid:
          build_pyramid(stage);
          break;
      }
      if (stage.kind == SetStage::Kind::general) continue;
      for (const int s : stage.sets) reach(s, State::keyed);
    }
    number_marked();
    insert_blocks();
  }

 private:
  // Nothing yet; cells marked in its table; keys; keys and table.
  enum class State : std::uint8_t { absent, marked, keyed, tabled };

  const CoordinateView& set(int s) const { return frame_.sets[static_cast<std::size_t>(s)]; }
  State state(int s) const { return state_[static_cast<std::size_t>(s)]; }
  void reach(int s, State state) { state_[static_cast<std::size_t>(s)] = state; }

  // Tables of all sets that have keys and none yet.
  void insert_blocks() {
    std::vector<CoordinateView> sets;
    for (const int s : frame_.tabled) {
      if (state(s) != State::keyed) continue;
      sets.push_back(set(s));
      reach(s, State::tabled);
    }
    run_all<InsertBlocks>(runner_, sets);
  }

  // Keys of all sets whose cells are marked.
  void number_marked() {
    flush_marks();
    MarkedSets sets;
    const auto number = [&] {
      if (sets.count == 0) return;
      runner_.run(GroupBlocks{sets});
      runner_.run(RankGroups{sets});
      runner_.run(ExpandGroups{sets});
      sets.count = 0;
    };
    for (const SetStage& stage : frame_.stages) {
      if (state(stage.sets.front()) != State::marked) continue;
      sets.item[sets.count++] = {set(stage.sets.front()), stage.groups, stage.full};
      reach(stage.sets.front(), State::tabled);
      if (sets.count == kMaxJobs) number();
    }
    number();
  }

  void build_pyramid(const SetStage& stage) {
    Pyramid pyramid = stage.pyramid;
    for (std::size_t l = 0; l < stage.sets.size(); ++l) {
      pyramid.limits[l] = detail::key_limits(shapes_[static_cast<std::size_t>(stage.sets[l])]);
    }
    if (state(stage.source) == State::marked) number_marked();
    runner_.levels(pyramid);
  }

  void build_general(const SetStage& stage) {
    const int made = stage.sets.front();
    if (!mark_plainly(stage)) mark_generally(stage);
    reach(made, State::marked);
    if (stage.is_counted) return;
    flush_marks();
    number_sorted(stage);
  }

  // A set that has a table, or is marked, and the layer that leads from it.
  struct Origin {
    int set;
    ConvGeometry geometry;
  };
  // The layer before a marked set, where it is strided and alone.
  const SetStage* layer_before(int set) const {
    if (state(set) != State::marked) return nullptr;
    for (const SetStage& stage : frame_.stages) {
      if (stage.sets.front() == set && stage.kind == SetStage::Kind::general)
        return stage.is_strided && stage.parts.size() == 1 ? &stage : nullptr;
    }
    return nullptr;
  }
  const std::optional<SpatialShape>& shape(int set) const {
    return shapes_[static_cast<std::size_t>(set)];
  }

  // Layers upon marked sets become one layer upon the set that these come from: so all of them are
  // marked by one launch.
  bool mark_plainly(const SetStage& stage) {
    const int made = stage.sets.front();
    if (!stage.is_strided || stage.parts.size() != 1) return false;
    Origin origin{stage.parts.front().source, stage.parts.front().geometry};
    while (const SetStage* const before = layer_before(origin.set)) {
      const SetSpec::Part& part = before->parts.front();
      const auto both = composed(part.geometry, origin.geometry, shape(part.source),
                                 shape(origin.set), shape(made));
      if (!both || !is_plain(*both)) break;
      origin = {part.source, *both};
    }
    if (!is_plain(origin.geometry)) return false;
    make_table(origin.set);
    if (state(origin.set) == State::marked) flush_marks();
    PlainMark mark{.source = set(origin.set).table,
                   .table = set(made).table,
                   .is_marked = state(origin.set) == State::marked ? 1 : 0,
                   .is_bounded = shape(made).has_value() ? 1 : 0,
                   .errors = stage.errors,
                   .full = stage.full};
    for (std::size_t a = 0; a < 3; ++a) {
      const auto stride = static_cast<std::uint32_t>(origin.geometry.stride[a]);
      mark.stride[a] = origin.geometry.stride[a];
      mark.shift[a] = std::has_single_bit(stride) ? std::countr_zero(stride) : -1;
      mark.padding[a] = origin.geometry.padding[a];
      mark.reach[a] = origin.geometry.kernel[a] - 1;
      mark.last[a] = last_of(made, a);
    }
    marks_.item[marks_.count++] = mark;
    if (marks_.count == kMaxJobs) flush_marks();
    return true;
  }
  void flush_marks() {
    if (marks_.count > 0) runner_.mark_blocks(marks_);
    marks_.count = 0;
  }

  void mark_generally(const SetStage& stage) {
    const int made = stage.sets.front();
    flush_marks();
    MarkOutputs mark{.sources = {},
                     .table = set(made).table,
                     .last = {last_of(made, 0), last_of(made, 1), last_of(made, 2)},
                     .is_bounded = shape(made).has_value(),
                     .is_strided = stage.is_strided,
                     .errors = stage.errors,
                     .full = stage.full};
    for (const SetSpec::Part& part : stage.parts) {
      make_table(part.source);
      mark.sources.item[mark.sources.count++] = {set(part.source).table, part.geometry,
                                                 state(part.source) == State::marked ? 1 : 0};
    }
    runner_.run(mark);
  }
  // The last cell within bounds along an axis, where there are any.
  std::int32_t last_of(int made, std::size_t axis) const {
    if (!shape(made)) return 0;
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(
        (*shape(made))[axis] - 1, -1, std::numeric_limits<std::int32_t>::max()));
  }
  void make_table(int of) {
    if (state(of) == State::keyed) insert_blocks();
  }

  void number_sorted(const SetStage& stage) {
    const int made = stage.sets.front();
    const CoordinateView& view = set(made);
    runner_.run(ListBlocks{view.table, stage.ids, stage.slots});
    const auto sorted = runner_.sort(
        Sorted<Key>{stage.ids, stage.slots}, Sorted<Key>{stage.sorted_ids, stage.sorted_slots},
        {view.table.slots, view.table.used},
        bits_of_keys(shapes_[static_cast<std::size_t>(made)], input_.batch_size, kBlockBits));
    const CountCells cells{view.table, sorted.values};
    runner_.scan(cells, stage.sums, view.table.slots);
    runner_.run(ExpandBlocks{view, cells, stage.sums, stage.full});
    reach(made, State::tabled);
  }

  Runner& runner_;
  const FrameLayout& frame_;
  const FrameKeys& input_;
  std::vector<std::optional<SpatialShape>> shapes_;
  std::vector<State> state_;
  PlainMarks marks_;  // not launched yet
};

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

// Whether there were any.
template <bool kWindow, bool kIsBeside, class Runner>
bool find_neighbours(Runner& runner, const std::vector<OrderJob>& orders) {
  std::vector<OrderJob> jobs;
  for (const OrderJob& order : orders) {
    if ((order.source.kind == MapSource::Kind::window) == kWindow) jobs.push_back(order);
  }
  run_all<FindNeighbours<kWindow, kIsBeside>>(runner, jobs);
  return !jobs.empty();
}

// `before_slots` may enqueue what reads no more than masks of groups and beginnings of planes, and
// says whether it did.
template <class Runner>
void build_orders(Runner& runner, const FrameLayout& frame,
                  const std::function<bool()>& before_slots) {
  if (find_neighbours<true, false>(runner, frame.orders))
    find_neighbours<false, true>(runner, frame.orders);
  else
    find_neighbours<false, false>(runner, frame.orders);
  std::vector<OrderSlots> slots;
  for (const OrderBatch& batch : frame.batches) {
    if (batch.is_counted) {
      runner.order(batch.orders);
      slots.push_back({batch.orders, nullptr, nullptr});
      continue;
    }
    runner.run(Arrange{batch.orders, batch.segment_begin, batch.item_count});
    runner.run(MakeSortingKeys{batch.orders, batch.unsorted.keys, batch.unsorted.values});
    const auto sorted =
        runner.sort(batch.unsorted, batch.sorted, {batch.items, batch.item_count}, {.low = 32});
    slots.push_back({batch.orders, sorted.values, batch.segment_begin});
    runner.run(JoinMasks{slots.back()});
  }
  const bool is_beside = before_slots && before_slots();
  for (const OrderSlots& batch : slots) {
    if (is_beside)
      runner.run(FillSlots<true>{batch});
    else
      runner.run(FillSlots<false>{batch});
  }
}

}  // namespace stages

// Regions `ones` and `zeros` are cleared here; the keys of the input stand in set 0 (sorted) or
// input_keys (unsorted).
template <class Runner>
void build_frame(Runner& runner, const FrameSpec& spec, const FrameLayout& frame,
                 const FrameKeys& input, const std::function<bool()>& before_slots = {}) {
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
  stages::SetBuilder<Runner>(runner, spec, frame, input).run();
  for (const MergeStage& merge : frame.merges) stages::build_merge(runner, merge);
  stages::run_all<FillCanonical>(runner, frame.canonicals);
  stages::run_all<InvertTables>(runner, frame.inverts);
  stages::build_orders(runner, frame, before_slots);
}

}  // namespace sparseconv::cuda
