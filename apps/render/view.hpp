// From points to pixels: where a view looks from, and the buffer in which the nearest point of a
// pixel wins.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/render/colours.hpp"
#include "apps/render/image.hpp"
#include "io/cloud.hpp"

namespace render {

using Vector = std::array<double, 3>;

struct Camera {
  Vector eye{}, target{};
  double field_of_view = 60;  // degrees, of the width
};

// What a view shows: the box that holds all but a few far points. Nothing for clouds without a
// finite point.
struct Subject {
  Vector low{}, high{};
  bool is_scan =
      false;  // seen from within: the origin lies among the points and the extent is a sensor's
};
std::optional<Subject> subject_of(const io::Cloud& cloud);

// behind (above and behind the sensor), front, left, right, oblique, driver (from the sensor
// itself).
Camera preset_camera(std::string_view name, const Subject& subject);
std::vector<std::string> camera_names();

struct ViewStyle {
  Rgb background{16, 18, 24};
  double point_size = 1;  // multiple of the usual size
};

// Points drawn as discs, shaded at steps of depth so that shapes stand out.
Image draw_perspective(const io::Cloud& cloud, const Colouring& colouring, const Camera& camera,
                       int width, int height, const ViewStyle& style);
// From above, x to the right, the highest point on top. `metres` is the width that is shown.
struct TopView {
  double centre_x = 0, centre_y = 0, metres = 100;
};
TopView usual_top_view(const Subject& subject, int width, int height);
Image draw_top(const io::Cloud& cloud, const Colouring& colouring, const TopView& view, int width,
               int height, const ViewStyle& style);

}  // namespace render
