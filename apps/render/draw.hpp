// A picture of a cloud: views, title, legend, scale bar.
//   render::write_png("scan.png", render::draw(cloud, {.colour_by = render::ColourBy::label}));
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/render/colours.hpp"
#include "apps/render/image.hpp"
#include "apps/render/view.hpp"
#include "io/cloud.hpp"

namespace render {

enum class View : std::uint8_t { both, top, perspective };

struct DrawOptions {
  View view = View::both;
  ColourBy colour_by = ColourBy::automatic;
  int width = 1600, height = 800;  // of the whole picture, 64 to 16384
  std::string preset = "behind";   // a camera by name ...
  std::optional<Camera> camera;    // ... or by place
  double top_metres = 0;           // width that the top view shows, 0: chosen
  double point_size = 1;
  bool is_light = false;  // background
  std::string title;
  std::vector<std::string> class_names;  // of ids 0, 1, ...; empty: the street classes
};

// A cloud without finite points gives a picture that says so.
Image draw(const io::Cloud& cloud, const DrawOptions& options);
Image beside(const Image& left, const Image& right);

}  // namespace render
