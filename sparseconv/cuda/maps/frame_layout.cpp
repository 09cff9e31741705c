#include "sparseconv/cuda/maps/frame_layout.hpp"

#include <algorithm>
#include <bit>

namespace sparseconv::cuda {
namespace {

constexpr std::int64_t kMaxRows =
    gemm_core::kSlotRow / 4;  // three planes of slots still number in 29 bits

std::size_t at(int i) { return static_cast<std::size_t>(i); }

std::int64_t aligned(std::int64_t rows) {
  return (rows + gemm_core::kSlotAlignment - 1) / gemm_core::kSlotAlignment *
         gemm_core::kSlotAlignment;
}

BlockTable take_table(Arena& arena, std::int64_t rows, bool is_listed) {
  BlockTable table;
  table.slots = static_cast<std::int32_t>(slots_for(rows));
  table.shift = 64 - std::countr_zero(static_cast<std::uint32_t>(table.slots / 8));
  table.entries = arena.take<BlockEntry>(Arena::ones, table.slots);
  if (is_listed) {
    table.list = arena.take<std::int32_t>(Arena::plain, table.slots);
    table.used = arena.take<std::int32_t>(Arena::zeros, 1);
  }
  return table;
}

class Planner {
 public:
  Planner(const FrameSpec& spec, const FrameCapacity& capacity, Arena arena)
      : spec_(spec), capacity_(capacity) {
    frame_.arena = arena;
  }

  FrameLayout run() {
    place_sets();
    place_merges();
    place_maps();
    place_batches();
    return std::move(frame_);
  }

 private:
  bool is_halved(int set) const {
    return spec_.sets[at(set)].kind == SetSpec::Kind::strided &&
           detail::is_halving(spec_.sets[at(set)].geometry);
  }

  // Halved or global: their keys stand sorted before their tables are made.
  bool has_sorted_keys(int set) const {
    return set == 0 || is_halved(set) || spec_.sets[at(set)].kind == SetSpec::Kind::global;
  }

  // Whether a general set comes from it.
  bool is_marked_from(int set) const {
    for (int s = set + 1; s < static_cast<int>(spec_.sets.size()); ++s) {
      if (has_sorted_keys(s)) continue;
      const SetSpec& spec = spec_.sets[at(s)];
      if (spec.kind != SetSpec::Kind::merged && spec.source == set) return true;
      for (const SetSpec::Part& part : spec.parts) {
        if (part.source == set) return true;
      }
    }
    return false;
  }

  void place_sets() {
    const auto sets = static_cast<std::int64_t>(spec_.sets.size());
    frame_.status = frame_.arena.take<std::int32_t>(Arena::zeros, 2 * sets);
    frame_.sets.resize(spec_.sets.size());
    first_child_.resize(spec_.sets.size());
    parent_.resize(spec_.sets.size());
    stage_of_.assign(spec_.sets.size(), -1);
    for (int s = 0; s < static_cast<int>(sets); ++s) {
      CoordinateView& set = frame_.sets[at(s)];
      const bool is_global = spec_.sets[at(s)].kind == SetSpec::Kind::global;
      set.capacity = static_cast<std::int32_t>(aligned(capacity_.rows[at(s)]));
      set.keys = frame_.arena.take<Key>(Arena::plain, set.capacity);
      set.count = frame_.status == nullptr ? nullptr : frame_.status + s;
      set.table = take_table(frame_.arena, set.capacity, !has_sorted_keys(s) || is_marked_from(s));
      if (s == 0 && !capacity_.is_input_sorted) place_unsorted(set);
      if (is_global) {
        stage_of_[at(s)] = static_cast<int>(frame_.stages.size());
        frame_.stages.push_back({.kind = SetStage::Kind::global, .sets = {s}});
      } else if (s > 0) {
        is_halved(s) ? add_level(s) : add_general(s);
      }
      if (has_sorted_keys(s)) frame_.tabled.push_back(s);
    }
  }

  void place_unsorted(CoordinateView& set) {
    set.rows = frame_.arena.take<std::int32_t>(Arena::plain, set.capacity);
    frame_.input_keys = frame_.arena.take<Key>(Arena::plain, set.capacity);
    frame_.input_ranks = frame_.arena.take<std::int32_t>(Arena::plain, set.capacity);
  }

  // A level goes on with the pyramid that ends in its source, or begins one.
  void add_level(int s) {
    const int source = spec_.sets[at(s)].source;
    const CoordinateView& below = frame_.sets[at(source)];
    int stage = stage_of_[at(source)];
    const bool goes_on = stage >= 0 && frame_.stages[at(stage)].kind == SetStage::Kind::pyramid &&
                         frame_.stages[at(stage)].sets.back() == source &&
                         frame_.stages[at(stage)].pyramid.depth < kMaxHalvings;
    if (!goes_on) {
      stage = static_cast<int>(frame_.stages.size());
      SetStage& made = frame_.stages.emplace_back();
      made.kind = SetStage::Kind::pyramid;
      made.source = source;
      made.pyramid.source = below;
      made.pyramid.counts = frame_.arena.take<std::uint64_t>(
          Arena::zeros, (below.capacity + kLevelRows - 1) / kLevelRows);
    }
    first_child_[at(s)] =
        frame_.arena.take<std::int32_t>(Arena::plain, frame_.sets[at(s)].capacity);
    parent_[at(s)] = frame_.arena.take<std::int32_t>(Arena::plain, below.capacity);
    SetStage& pyramid = frame_.stages[at(stage)];
    pyramid.sets.push_back(s);
    const int level = pyramid.pyramid.depth++;
    pyramid.pyramid.level[level] = frame_.sets[at(s)];
    pyramid.pyramid.first_child[level] = first_child_[at(s)];
    pyramid.pyramid.parent[level] = parent_[at(s)];
    stage_of_[at(s)] = stage;
  }

  void add_general(int s) {
    const SetSpec& spec = spec_.sets[at(s)];
    Arena& arena = frame_.arena;
    stage_of_[at(s)] = static_cast<int>(frame_.stages.size());
    SetStage& stage = frame_.stages.emplace_back();
    stage.sets = {s};
    stage.parts = spec.parts;
    if (spec.kind != SetSpec::Kind::merged) stage.parts = {{spec.source, spec.geometry}};
    stage.is_strided = spec.kind == SetSpec::Kind::strided;
    stage.full = arena.take<std::int32_t>(Arena::zeros, 1);
    stage.errors = frame_.status == nullptr ? nullptr : frame_.status + spec_.sets.size() + at(s);
    const std::int64_t slots = frame_.sets[at(s)].table.slots;
    stage.is_counted = frame_.sets[at(s)].capacity <= capacity_.counted_rows;
    if (stage.is_counted) {
      stage.groups = take_groups(slots);
      return;
    }
    stage.ids = arena.take<Key>(Arena::plain, slots);
    stage.sorted_ids = arena.take<Key>(Arena::plain, slots);
    stage.slots = arena.take<std::int32_t>(Arena::plain, slots);
    stage.sorted_slots = arena.take<std::int32_t>(Arena::plain, slots);
    stage.sums = arena.take<std::int32_t>(Arena::plain, slots);
  }

  GroupTable take_groups(std::int64_t slots) {
    Arena& arena = frame_.arena;
    GroupTable groups;
    groups.slots = static_cast<std::int32_t>(slots);
    groups.shift = 64 - std::countr_zero(static_cast<std::uint32_t>(slots / 8));
    groups.ids = arena.take<Key>(Arena::ones, slots);
    groups.blocks = arena.take<std::uint64_t>(Arena::zeros, slots);
    groups.block_cells = arena.take<std::uint32_t>(Arena::plain, 16 * slots);
    groups.cells = arena.take<std::int32_t>(Arena::zeros, slots);
    groups.first = arena.take<std::int32_t>(Arena::zeros, slots);
    groups.list = arena.take<std::int32_t>(Arena::plain, slots);
    groups.listed_ids = arena.take<Key>(Arena::plain, slots);
    groups.count = arena.take<std::int32_t>(Arena::zeros, 1);
    return groups;
  }

  void place_merges() {
    for (int s = 0; s < static_cast<int>(spec_.sets.size()); ++s) {
      const SetSpec& spec = spec_.sets[at(s)];
      if (spec.kind != SetSpec::Kind::merged) continue;
      MergeStage& merge = frame_.merges.emplace_back();
      merge.set = s;
      merge.merged.set = frame_.sets[at(s)];
      for (const SetSpec::Part& part : spec.parts) {
        const int p = merge.merged.count++;
        merge.merged.part[p] = frame_.sets[at(part.source)];
        for (std::size_t a = 0; a < 3; ++a) merge.merged.scale[p][a] = part.geometry.stride[a];
        merge.items += merge.merged.part[p].capacity;
      }
      Arena& arena = frame_.arena;
      for (Sorted<std::uint32_t>* side : {&merge.unsorted, &merge.sorted}) {
        side->keys = arena.take<std::uint32_t>(Arena::plain, merge.items);
        side->values = arena.take<std::int32_t>(Arena::plain, merge.items);
      }
      merge.item_count = arena.take<std::int32_t>(Arena::plain, 1);
      merge.part_begin = arena.take<std::int32_t>(Arena::plain, merge.merged.count + 1);
      merge.items_of_rows = arena.take<std::int32_t>(Arena::plain, merge.items);
      merge.begin = arena.take<std::int32_t>(Arena::plain, merge.merged.set.capacity + 1);
    }
  }

  MapSource source_of(const MapSpec& map) const {
    MapSource source;
    source.input = frame_.sets[at(map.input)];
    source.output = frame_.sets[at(map.output)];
    source.geometry = map.geometry;
    source.taps = map.geometry.taps();
    constexpr std::array<int, 3> three{3, 3, 3}, one{1, 1, 1};
    if (map.kind == KernelMap::Kind::transposed) {
      source.kind = MapSource::Kind::transposed;
    } else if (map.geometry.kernel == three && map.geometry.dilation == one) {
      source.kind = MapSource::Kind::window;
    } else if (is_level_of(map)) {
      source.kind = MapSource::Kind::halving;
      source.link = first_child_[at(map.output)];
    }
    return source;
  }

  // Whether the map leads from a set to the level that halving it made.
  bool is_level_of(const MapSpec& map) const {
    return detail::is_halving(map.geometry) && is_halved(map.output) &&
           spec_.sets[at(map.output)].source == map.input;
  }

  std::int32_t* canonical_of(int m) {
    CanonicalJob& table = frame_.tables[at(m)];
    if (table.pitch == 0) {
      table.source = source_of(spec_.maps[at(m)]);
      table.pitch = table.source.output.capacity;
      table.table = frame_.arena.take<std::int32_t>(Arena::plain, table.source.taps * table.pitch);
      frame_.canonicals.push_back(table);
    }
    return table.table;
  }

  MapSource inverse_of(int m) {
    const MapSpec& map = spec_.maps[at(m)];
    const MapSpec& forward = spec_.maps[at(map.forward)];
    MapSource source;
    source.input = frame_.sets[at(map.input)];
    source.output = frame_.sets[at(map.output)];
    source.geometry = forward.geometry;
    source.taps = forward.geometry.taps();
    if (is_level_of(forward)) {
      source.kind = MapSource::Kind::halving_inverse;
      source.link = parent_[at(forward.output)];
      return source;
    }
    InvertJob invert;
    invert.forward = canonical_of(map.forward);
    invert.output = frame_.sets[at(forward.output)];
    invert.forward_pitch = invert.output.capacity;
    invert.taps = source.taps;
    invert.inverse_pitch = source.output.capacity;
    invert.inverse =
        frame_.arena.take<std::int32_t>(Arena::ones, source.taps * invert.inverse_pitch);
    frame_.inverts.push_back(invert);
    source.kind = MapSource::Kind::table;
    source.table = invert.inverse;
    source.pitch = invert.inverse_pitch;
    return source;
  }

  void place_maps() {
    frame_.tables.resize(spec_.maps.size());
    for (int m = 0; m < static_cast<int>(spec_.maps.size()); ++m) {
      const MapSpec& map = spec_.maps[at(m)];
      const bool is_inverse = map.kind == KernelMap::Kind::inverse;
      const MapSource source = is_inverse ? inverse_of(m) : source_of(map);
      CanonicalJob& canonical = frame_.tables[at(m)];
      if (source.kind == MapSource::Kind::table) {
        canonical = {source, const_cast<std::int32_t*>(source.table), source.pitch};
      } else if (map.needs_canonical && is_inverse) {
        canonical.source = source;
        canonical.pitch = source.output.capacity;
        canonical.table =
            frame_.arena.take<std::int32_t>(Arena::plain, source.taps * canonical.pitch);
        frame_.canonicals.push_back(canonical);
      } else if (map.needs_canonical) {
        canonical_of(m);
      }
      frame_.order_of_map.push_back(
          map.order == RowOrder::none ? -1 : static_cast<int>(frame_.orders.size()));
      if (map.order != RowOrder::none) add_order(map, source);
    }
  }

  void add_order(const MapSpec& map, const MapSource& source) {
    Arena& arena = frame_.arena;
    OrderJob order;
    order.source = source;
    order.is_planes = map.order == RowOrder::planes ? 1 : 0;
    const std::int64_t rows = source.output.capacity;
    order.capacity = order.is_planes != 0 ? 3 * rows : rows;
    order.quads = order.is_planes != 0 ? 3 * kPlaneQuads + 1 : (source.taps + 7) / 8 * 2;
    order.staged = arena.take<Quad>(Arena::plain, rows * order.quads);
    order.masks = arena.take<std::uint32_t>(Arena::plain, rows);
    order.counters = arena.take<std::int32_t>(Arena::zeros, kCounters);
    order.is_counted = rows <= std::min(capacity_.counted_rows, kMaxCountedRows) ? 1 : 0;
    if (order.is_counted != 0) {
      order.blocks = order_blocks(rows);
      order.key_table = arena.take<std::uint32_t>(Arena::plain, 4 * 256);
      order.sorted = arena.take<std::int32_t>(Arena::plain, order.capacity);
      order.buckets = arena.take<std::uint16_t>(Arena::plain, order.capacity);
      order.counts = arena.take<std::uint16_t>(
          Arena::plain, std::int64_t{order.parts()} * order.blocks * kOrderBuckets);
    }
    if (order.is_counted != 0 && order.is_sampled()) {
      order.keys = arena.take<std::uint32_t>(Arena::plain, rows);
      order.splitters = arena.take<std::uint32_t>(Arena::plain, kSplitters);
      order.bucket_begin = arena.take<std::int32_t>(Arena::plain, kOrderBuckets + 1);
      order.under_way = arena.take<KeyedRank>(Arena::plain, rows);
    }
    if (order.is_counted == 0) {
      order.key_bits = arena.take<std::uint32_t>(Arena::plain, kWarp);
      order.item_begin = arena.take<std::int32_t>(Arena::plain, 1);
    }
    order.neighbours = arena.take<std::int32_t>(Arena::plain, source.taps * order.capacity);
    order.rows = arena.take<std::int32_t>(Arena::plain, order.capacity);
    order.plane_begin = arena.take<std::int32_t>(Arena::plain, 5);
    order.group_masks =
        arena.take<std::uint32_t>(Arena::zeros, order.capacity / gemm_core::kSlotGroup);
    frame_.orders.push_back(order);
  }

  // The last batch of orders that are counted or sorted, where it has room.
  OrderBatch& batch_for(bool is_counted, std::int32_t segments) {
    for (auto batch = frame_.batches.rbegin(); batch != frame_.batches.rend(); ++batch) {
      if (batch->is_counted != is_counted) continue;
      const bool has_room =
          is_counted ? batch->orders.count < kMaxJobs : batch->segments + segments <= kMaxSegments;
      if (has_room) return *batch;
      break;
    }
    frame_.batches.emplace_back().is_counted = is_counted;
    return frame_.batches.back();
  }

  void place_batches() {
    for (OrderJob& order : frame_.orders) {
      const bool is_counted = order.is_counted != 0;
      const std::int32_t segments = order.is_planes != 0 ? kPlaneSegments : 1;
      OrderBatch& batch = batch_for(is_counted, segments);
      order.first_segment = batch.segments;
      batch.orders.item[batch.orders.count++] = order;
      batch.segments += is_counted ? 0 : segments;
      batch.items += order.capacity;
    }
    for (OrderBatch& batch : frame_.batches) {
      if (batch.is_counted) continue;
      Arena& arena = frame_.arena;
      for (Sorted<std::uint32_t>* side : {&batch.unsorted, &batch.sorted}) {
        side->keys = arena.take<std::uint32_t>(Arena::plain, batch.items);
        side->values = arena.take<std::int32_t>(Arena::plain, batch.items);
      }
      batch.segment_begin = arena.take<std::int32_t>(Arena::plain, kMaxSegments);
      batch.item_count = arena.take<std::int32_t>(Arena::zeros, 1);
    }
  }

  const FrameSpec& spec_;
  const FrameCapacity& capacity_;
  FrameLayout frame_;
  std::vector<std::int32_t*> first_child_, parent_;  // by the coarser set
  std::vector<int> stage_of_;
};

}  // namespace

FrameMaps::Sizes read_status(const FrameLayout& frame, std::span<const std::int32_t> status) {
  FrameMaps::Sizes sizes;
  for (std::size_t s = 0; s < frame.sets.size(); ++s) {
    ENSURE(status[frame.sets.size() + s] != kOutsideKeyRange, "coordinates: an output of set ", s,
           " is outside the key range, ", kAxisMin, "..", kAxisMax, " on every axis");
    // A table that was full knows no number.
    const bool is_counted = status[s] != kTooMany;
    sizes.rows.push_back(is_counted ? status[s] : 2 * std::int64_t{frame.sets[s].capacity});
    sizes.exceeds = sizes.exceeds || status[s] > frame.sets[s].capacity;
  }
  return sizes;
}

FrameLayout lay_out(const FrameSpec& spec, const FrameCapacity& capacity, Arena arena) {
  ENSURE(capacity.rows.size() == spec.sets.size(), "frame maps: ", capacity.rows.size(),
         " capacities for ", spec.sets.size(), " sets");
  for (const std::int64_t rows : capacity.rows) {
    ENSURE(rows >= 0 && rows <= kMaxRows, "frame maps: a capacity of ", rows, " rows is not in 0..",
           kMaxRows);
  }
  return Planner(spec, capacity, arena).run();
}

}  // namespace sparseconv::cuda
