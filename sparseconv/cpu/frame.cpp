#include "sparseconv/cpu/frame.hpp"

#include <algorithm>

namespace sparseconv::cpu {
namespace {

CoordinatesPtr global_coordinates(const CoordinatesPtr& input, const base::BlockCachePtr& cache) {
  base::Buffer<Key> keys(cache);
  for (std::int32_t batch = 0; batch < input->batch_size(); ++batch) {
    keys.push_back(pack({batch, 0, 0, 0}));
  }
  Coordinates::Options options{.batch_size = input->batch_size(), .cache = cache};
  if (input->spatial_shape()) options.spatial_shape = SpatialShape{1, 1, 1};
  return Coordinates::from_sorted_keys(std::move(keys), options);
}

// Bounds of a union: the smallest shape that holds every part; none where a part has none.
std::optional<SpatialShape> merged_shape(const Level& level, const Frame& frame) {
  SpatialShape merged{1, 1, 1};
  for (const auto& part : level.parts) {
    const auto& shape = frame.levels[static_cast<std::size_t>(part.level)]->spatial_shape();
    if (!shape) return std::nullopt;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      merged[axis] = std::max(merged[axis], ((*shape)[axis] - 1) * part.scale[axis] + 1);
    }
  }
  return merged;
}

Coord scaled(const Coord& c, const std::array<int, 3>& scale) {
  std::array<std::int64_t, 3> value{};
  for (int axis = 0; axis < 3; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    value[a] = static_cast<std::int64_t>(c[axis]) * scale[a];
    ENSURE(value[a] >= kAxisMin && value[a] <= kAxisMax, "merge: output ", "xyz"[axis], " = ",
           value[a], " is outside the key range, ", kAxisMin, "..", kAxisMax);
  }
  const Coord out{c.batch, static_cast<std::int32_t>(value[0]), static_cast<std::int32_t>(value[1]),
                  static_cast<std::int32_t>(value[2])};
  ENSURE(is_in_key_range(out), "merge: the last corner of batch ", kBatchMax, " is reserved");
  return out;
}

void build_merged(const Level& level, Frame& frame, std::size_t index) {
  struct Source {
    Key key;
    std::int32_t part, row;
    auto operator<=>(const Source&) const = default;
  };
  std::size_t rows = 0;
  for (const auto& part : level.parts) {
    rows += static_cast<std::size_t>(frame.levels[static_cast<std::size_t>(part.level)]->size());
  }
  base::Buffer<Source> sources(frame.cache);
  sources.reserve(rows);
  std::int32_t batch_size = 0;
  for (std::size_t p = 0; p < level.parts.size(); ++p) {
    const auto& part = level.parts[p];
    const auto& coordinates = *frame.levels[static_cast<std::size_t>(part.level)];
    batch_size = std::max(batch_size, coordinates.batch_size());
    std::int32_t row = 0;
    for (const Coord& c : coordinates.coords()) {
      sources.push_back({pack(scaled(c, part.scale)), static_cast<std::int32_t>(p), row++});
    }
  }
  std::sort(sources.begin(), sources.end());
  MergeMap& map = frame.merges[index];
  base::Buffer<Key> keys(frame.cache);
  map = {base::Buffer<std::int64_t>(frame.cache), base::Buffer<std::int32_t>(frame.cache),
         base::Buffer<std::int32_t>(frame.cache)};
  keys.reserve(rows);
  map.begin.reserve(rows + 1);
  map.part.reserve(rows);
  map.row.reserve(rows);
  for (const Source& source : sources) {
    if (keys.empty() || keys.back() != source.key) {
      keys.push_back(source.key);
      map.begin.push_back(static_cast<std::int64_t>(map.row.size()));
    }
    map.part.push_back(source.part);
    map.row.push_back(source.row);
  }
  map.begin.push_back(static_cast<std::int64_t>(map.row.size()));
  frame.levels[index] =
      Coordinates::from_sorted_keys(std::move(keys), {.batch_size = batch_size,
                                                      .spatial_shape = merged_shape(level, frame),
                                                      .cache = frame.cache});
}

void build_level(const Plan& plan, std::size_t index, Frame& frame) {
  const Level& level = plan.levels[index];
  const auto source = [&] { return frame.levels[static_cast<std::size_t>(level.source)]; };
  try {
    switch (level.kind) {
      case Level::Kind::strided:
        frame.levels[index] = strided_coordinates(source(), level.geometry, frame.cache);
        break;
      case Level::Kind::generative:
        frame.levels[index] = generative_coordinates(source(), level.geometry, frame.cache);
        break;
      case Level::Kind::global:
        frame.levels[index] = global_coordinates(source(), frame.cache);
        break;
      case Level::Kind::merged:
        build_merged(level, frame, index);
        break;
      case Level::Kind::input:
      case Level::Kind::points:
        break;
    }
  } catch (const base::Error& error) {
    base::fail("node '", level.node, "': ", error.what());
  }
}

void check_equal(const LevelCheck& check, const Frame& frame) {
  const auto& first = *frame.levels[static_cast<std::size_t>(check.first)];
  const auto& second = *frame.levels[static_cast<std::size_t>(check.second)];
  ENSURE(first.size() == second.size(), "node '", check.node,
         "': its inputs stand on different coordinates: ", first.size(), " and ", second.size(),
         " rows");
  const auto [a, b] =
      std::mismatch(first.keys().begin(), first.keys().end(), second.keys().begin());
  ENSURE(a == first.keys().end(), "node '", check.node,
         "': its inputs stand on different coordinates: they differ from row ",
         a - first.keys().begin());
}

KernelMapPtr build_map(const PlanMap& map, const Frame& frame) {
  const auto& input = frame.levels[static_cast<std::size_t>(map.input)];
  const auto& output = frame.levels[static_cast<std::size_t>(map.output)];
  switch (map.kind) {
    case KernelMap::Kind::convolution:
      return build_kernel_map(input, output, map.geometry, frame.cache);
    case KernelMap::Kind::transposed:
      return build_transposed_map(input, output, map.geometry, frame.cache);
    case KernelMap::Kind::inverse:
      break;
  }
  return invert(frame.maps[static_cast<std::size_t>(map.forward)], frame.cache);
}

}  // namespace

std::int64_t Frame::nbytes() const {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    if (levels[i]) bytes += levels[i]->nbytes();
    bytes += static_cast<std::int64_t>(merges[i].row.size() * 2 * sizeof(std::int32_t) +
                                       merges[i].begin.size() * sizeof(std::int64_t));
  }
  for (const auto& map : maps) bytes += map->nbytes();
  return bytes;
}

void Frame::clear() {
  maps.clear();
  levels.clear();
  merges.clear();
  rows.clear();
}

void build_frame(const Plan& plan, const CoordinatesPtr& input, std::int64_t points, Frame& frame) {
  const std::size_t levels = plan.levels.size();
  frame.clear();
  frame.levels.assign(levels, nullptr);
  frame.merges.assign(levels, {});
  frame.rows.assign(levels, 0);
  frame.levels[0] = input;
  for (std::size_t i = 0; i < levels; ++i) {
    if (!plan.is_level_used[i]) continue;
    build_level(plan, i, frame);
    frame.rows[i] = plan.levels[i].kind == Level::Kind::points ? points : frame.levels[i]->size();
  }
  for (const auto& check : plan.checks) check_equal(check, frame);
  for (std::size_t i = 0; i < plan.maps.size(); ++i) {
    frame.maps.push_back(build_map(plan.maps[i], frame));
  }
}

}  // namespace sparseconv::cpu
