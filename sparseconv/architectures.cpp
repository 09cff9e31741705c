#include "sparseconv/architectures.hpp"

#include "sparseconv/initialise.hpp"

namespace sparseconv {
namespace {

using detail::Architecture;
using detail::FieldOfView;

constexpr FieldOfView kKitti{{0, -40, -3, 70.4, 40, 1}, 0.1};
constexpr FieldOfView kWaymo{{-75.2, -75.2, -2, 75.2, 75.2, 4}, 0.15};
constexpr FieldOfView kNuScenes{{-51.2, -51.2, -5, 51.2, 51.2, 3}, 0.2};

constexpr Architecture kArchitectures[] = {
    {"minkunet14", detail::minkunet14},
    {"minkunet18", detail::minkunet18},
    {"minkunet34", detail::minkunet34},
    {"minkunet42", detail::minkunet42},
    {"spunet", detail::spunet},
    {"streetunet", detail::streetunet},
    {"second", detail::second, &kKitti},
    {"voxelresnet8x", detail::voxelresnet8x, &kWaymo},
    {"centerpoint", detail::voxelresnet8x, &kNuScenes},
    {"voxelnext", detail::voxelnext, &kNuScenes},
};

const Architecture& find_architecture(const std::string& name) {
  std::string known;
  for (const auto& architecture : kArchitectures) {
    if (name == architecture.name) return architecture;
    known += (known.empty() ? "" : ", ") + std::string(architecture.name);
  }
  base::fail("architecture '", name, "' is not known (", known, ")");
}

std::vector<std::string> feature_names(std::int64_t count) {
  std::vector<std::string> names{"x", "y", "z", "intensity", "r", "g", "b"};
  for (auto i = static_cast<std::int64_t>(names.size()); i < count; ++i) {
    names.push_back(base::concat("feature", i));
  }
  names.resize(static_cast<std::size_t>(count));
  return names;
}

// The paper's grid with cells of `size` in x and y; one more layer of cells in z, as the papers
// have it.
void set_field_of_view(ModelInput& input, const FieldOfView& field, double size) {
  input.range = field.range;
  input.voxel_size = {size, size, field.cell_height};
  SpatialShape shape{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const double cells = (field.range[axis + 3] - field.range[axis]) / input.voxel_size[axis];
    ENSURE(cells < kAxisMax, "voxel size ", size, " cuts the field of view into ", cells,
           " cells, at most ", kAxisMax);
    // A last sliver of a cell, from rounding of the division, is none.
    shape[axis] = static_cast<std::int64_t>(cells + 0.999);
  }
  shape[2] += 1;
  input.spatial_shape = shape;
}

}  // namespace

std::vector<std::string> architecture_names() {
  std::vector<std::string> names;
  for (const auto& architecture : kArchitectures) names.emplace_back(architecture.name);
  return names;
}

Model build_architecture(const std::string& name, const ArchitectureOptions& options) {
  const Architecture& architecture = find_architecture(name);
  ENSURE(options.in_channels >= 1 && options.in_channels <= 4096, name, ": ", options.in_channels,
         " input channels are not in 1..4096");
  ENSURE(options.width > 0 && options.width <= 64, name, ": width ", options.width,
         " is not in (0, 64]");
  ENSURE(options.voxel_size > 0 && options.voxel_size <= 1e6, name, ": voxel size ",
         options.voxel_size, " is not in (0, 1e6]");
  Model model;
  model.name = name;
  model.input.features = feature_names(options.in_channels);
  model.input.voxel_size = {options.voxel_size, options.voxel_size, options.voxel_size};
  if (architecture.field) {
    set_field_of_view(model.input, *architecture.field, options.voxel_size);
  } else {
    model.classes = options.classes;
    for (int i = 0; options.classes.empty() && i < 20; ++i) {
      model.classes.push_back(base::concat("class", i));
    }
  }
  for (std::size_t i = 0; i < model.classes.size(); ++i) {
    model.class_ids.push_back(static_cast<std::int64_t>(i));
  }
  auto drawing = architecture.draw({.in_channels = options.in_channels,
                                    .classes = static_cast<std::int64_t>(model.classes.size()),
                                    .width = options.width});
  model.nodes = std::move(drawing.nodes);
  model.outputs = {drawing.output};
  initialise_weights(model, options.seed);
  validate(model);
  return model;
}

}  // namespace sparseconv
