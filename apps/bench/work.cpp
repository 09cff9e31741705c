#include "apps/bench/work.hpp"

#include "sparseconv/plan.hpp"

namespace apps {
namespace {

using sparseconv::CoordinatesPtr, sparseconv::KernelMapPtr, sparseconv::Level, sparseconv::Plan;

// Coordinates of each level; null where they do not matter to a product (global, merged and point
// levels).
std::vector<CoordinatesPtr> coordinates_of(const Plan& plan, const CoordinatesPtr& input) {
  std::vector<CoordinatesPtr> levels;
  for (const Level& level : plan.levels) {
    const CoordinatesPtr source =
        level.source >= 0 ? levels[static_cast<std::size_t>(level.source)] : nullptr;
    if (level.kind == Level::Kind::input) {
      levels.push_back(input);
    } else if (level.kind == Level::Kind::strided && source) {
      levels.push_back(sparseconv::strided_coordinates(source, level.geometry));
    } else if (level.kind == Level::Kind::generative && source) {
      levels.push_back(sparseconv::generative_coordinates(source, level.geometry));
    } else {
      levels.push_back(nullptr);
    }
  }
  return levels;
}

std::vector<KernelMapPtr> maps_of(const Plan& plan, const std::vector<CoordinatesPtr>& levels) {
  std::vector<KernelMapPtr> maps;
  for (const sparseconv::PlanMap& map : plan.maps) {
    const CoordinatesPtr& input = levels[static_cast<std::size_t>(map.input)];
    const CoordinatesPtr& output = levels[static_cast<std::size_t>(map.output)];
    if (!input || !output) {
      maps.push_back(nullptr);
    } else if (map.forward >= 0) {
      maps.push_back(sparseconv::invert(maps[static_cast<std::size_t>(map.forward)]));
    } else if (map.kind == sparseconv::KernelMap::Kind::transposed) {
      maps.push_back(sparseconv::build_transposed_map(input, output, map.geometry));
    } else {
      maps.push_back(sparseconv::build_kernel_map(input, output, map.geometry));
    }
  }
  return maps;
}

}  // namespace

std::vector<StepWork> work_of(const sparseconv::Model& model, const CoordinatesPtr& input,
                              int bytes_per_element) {
  const Plan plan = sparseconv::make_plan(model);
  const auto levels = coordinates_of(plan, input);
  const auto maps = maps_of(plan, levels);
  std::vector<StepWork> work;
  for (const sparseconv::PlanStep& step : plan.steps) {
    StepWork entry{.node = step.node};
    const auto& output = levels[static_cast<std::size_t>(step.output_level)];
    const auto& source = levels[static_cast<std::size_t>(step.input_level)];
    entry.rows = output ? output->size() : 0;
    entry.bytes = static_cast<double>(entry.rows * step.output.channels * bytes_per_element);
    for (const sparseconv::PlanSlice& slice : step.inputs) {
      entry.bytes +=
          static_cast<double>((source ? source->size() : 0) * slice.channels * bytes_per_element);
    }
    if (step.kind == sparseconv::PlanStep::Kind::convolution) {
      const KernelMapPtr map = step.map >= 0 ? maps[static_cast<std::size_t>(step.map)] : nullptr;
      entry.pairs = map ? map->pairs() : step.map < 0 ? entry.rows : 0;
      const double per_pair =
          static_cast<double>(step.weight.numel()) / static_cast<double>(step.taps);
      entry.flop = 2.0 * static_cast<double>(entry.pairs) * per_pair;
      entry.bytes +=
          static_cast<double>(step.weight.numel() * bytes_per_element + (map ? map->nbytes() : 0));
    }
    work.push_back(std::move(entry));
  }
  return work;
}

}  // namespace apps
