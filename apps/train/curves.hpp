// Curves over the epochs of a training as a picture.
#pragma once
#include <string>
#include <vector>

#include "apps/render/image.hpp"

namespace render {

struct Curve {
  std::string name;
  Rgb colour;
  std::vector<double> values;  // one an epoch; NaN leaves a gap
};

struct Panel {
  std::string title;
  std::vector<Curve> curves;
  bool is_share = false;  // the axis runs from 0 to 1; else from 0 to the largest value
};

// Panels side by side, each with axes, ticks and a legend. Panels without a value say so.
Image draw_curves(const std::vector<Panel>& panels, int first_epoch = 1);

}  // namespace render
