#include "sparseconv/cuda/plan_sets.hpp"

#include <algorithm>

#include "sparseconv/cuda/room.hpp"

namespace sparseconv::cuda {
namespace {

SetSpec::Kind set_kind(Level::Kind kind) {
  switch (kind) {
    case Level::Kind::strided:
      return SetSpec::Kind::strided;
    case Level::Kind::generative:
      return SetSpec::Kind::generative;
    case Level::Kind::merged:
      return SetSpec::Kind::merged;
    case Level::Kind::global:
      return SetSpec::Kind::global;
    case Level::Kind::input:
    case Level::Kind::points:
      break;
  }
  return SetSpec::Kind::input;
}

// Coordinates times the part's scale.
ConvGeometry scaling(const Level::Part& part) {
  return {.kernel = {1, 1, 1}, .stride = part.scale, .padding = {0, 0, 0}, .dilation = {1, 1, 1}};
}

}  // namespace

PlanSets::PlanSets(const Plan& plan) {
  for (std::size_t level = 0; level < plan.levels.size(); ++level) {
    const bool has_set =
        plan.is_level_used[level] && plan.levels[level].kind != Level::Kind::points;
    set_of_level.push_back(has_set ? static_cast<int>(levels_of_sets.size()) : -1);
    if (has_set) levels_of_sets.push_back(static_cast<int>(level));
  }
}

std::vector<SetSpec> set_specs(const Plan& plan, const std::vector<int>& set_of_level,
                               const std::vector<int>& levels_of_sets) {
  std::vector<SetSpec> specs;
  for (const int level : levels_of_sets) {
    const Level& l = plan.levels[at(level)];
    SetSpec set{.kind = set_kind(l.kind),
                .source = l.source >= 0 ? set_of_level[at(l.source)] : -1,
                .geometry = l.geometry,
                .parts = {}};
    for (const Level::Part& part : l.parts)
      set.parts.push_back({set_of_level[at(part.level)], scaling(part)});
    specs.push_back(set);
  }
  return specs;
}

std::vector<std::int64_t> RowBounds::operator()(std::int64_t rows, std::int64_t points,
                                                std::int32_t batch_size) const {
  std::vector<std::int64_t> bounds;
  for (std::size_t i = 0; i < plan_.levels.size(); ++i) {
    const Level& level = plan_.levels[i];
    const std::int64_t source = level.source >= 0 ? bounds[at(level.source)] : 0;
    std::int64_t bound = 0;
    switch (level.kind) {
      case Level::Kind::input:
        bound = rows;
        break;
      case Level::Kind::strided: {
        // A cell per input where windows do not overlap. Else surfaces grow thicker once, and from
        // then on shrink.
        const bool overlaps = level.geometry.kernel != level.geometry.stride;
        const Level& below = plan_.levels[at(level.source)];
        const bool is_thick =
            below.kind == Level::Kind::strided && below.geometry.kernel != below.geometry.stride;
        bound = overlaps && !is_thick ? with_room(source * 2) : source;
        break;
      }
      case Level::Kind::generative:
        bound = with_room(source * std::min(level.geometry.taps(), 8));
        break;
      case Level::Kind::global:
        bound = batch_size;
        break;
      case Level::Kind::points:
        bound = points;
        break;
      case Level::Kind::merged:
        for (const Level::Part& part : level.parts) bound += bounds[at(part.level)];
        break;
    }
    // A union has room for all of its parts, whatever earlier frames had.
    const bool is_derived =
        level.kind == Level::Kind::strided || level.kind == Level::Kind::generative;
    if (is_derived && i < seen_.size() && seen_[i] > 0) {
      const double seen = seen_[i] * static_cast<double>(rows);
      bound = std::min(bound, with_room(static_cast<std::int64_t>(seen) + 1));
    }
    bounds.push_back(plan_.is_level_used[i] ? bound : 0);
  }
  return bounds;
}

void RowBounds::learn(std::span<const std::int64_t> rows_of_sets,
                      const std::vector<int>& levels_of_sets) {
  const std::int64_t rows = rows_of_sets.front();
  if (rows == 0) return;
  seen_.resize(plan_.levels.size());
  for (std::size_t set = 1; set < rows_of_sets.size(); ++set) {
    double& seen = seen_[at(levels_of_sets[set])];
    seen = std::max(seen, static_cast<double>(rows_of_sets[set]) / static_cast<double>(rows));
  }
}

std::int64_t nominal_rows(const Plan& plan, int level, std::int64_t input_rows) {
  const Level& l = plan.levels[at(level)];
  if (l.kind == Level::Kind::input || l.kind == Level::Kind::points) return input_rows;
  if (l.kind == Level::Kind::merged) {
    std::int64_t rows = 0;
    for (const Level::Part& part : l.parts) rows += nominal_rows(plan, part.level, input_rows);
    return rows;
  }
  if (l.kind == Level::Kind::global || l.source < 0) return 1;
  const std::int64_t source = nominal_rows(plan, l.source, input_rows);
  const bool is_stride_one = l.geometry.stride == std::array{1, 1, 1};
  if (is_stride_one) return source;
  return l.kind == Level::Kind::strided ? source * 45 / 100 : source * 2;
}

std::optional<SpatialShape> spatial_shape_of(const Plan& plan, int level,
                                             const std::optional<SpatialShape>& input) {
  const Level& l = plan.levels[at(level)];
  using Kind = Level::Kind;
  if (l.kind == Kind::input) return input;
  if (l.kind == Kind::points) return std::nullopt;
  if (l.kind == Kind::global) return input ? std::optional(SpatialShape{1, 1, 1}) : std::nullopt;
  if (l.kind == Kind::merged) {
    SpatialShape merged{1, 1, 1};
    for (const Level::Part& part : l.parts) {
      const auto shape = spatial_shape_of(plan, part.level, input);
      if (!shape) return std::nullopt;
      for (std::size_t a = 0; a < 3; ++a)
        merged[a] = std::max(merged[a], ((*shape)[a] - 1) * part.scale[a] + 1);
    }
    return merged;
  }
  const auto source = spatial_shape_of(plan, l.source, input);
  if (!source) return std::nullopt;
  return l.kind == Kind::strided ? l.geometry.coarse_shape(*source)
                                 : l.geometry.fine_shape(*source);
}

}  // namespace sparseconv::cuda
