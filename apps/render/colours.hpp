// From points to colours: classes, ramps for height and intensity, the cloud's own RGB.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/render/image.hpp"
#include "io/cloud.hpp"

namespace render {

enum class ColourBy : std::uint8_t { automatic, label, height, intensity, rgb };
ColourBy parse_colour_by(std::string_view text);  // "auto", "label", ...; Error lists them

Rgb class_colour(std::int64_t id);
// The name of a class of the street scans (io::simulator_class_names), else "class 12".
std::string class_name(std::int64_t id, const std::vector<std::string>& names);
Rgb ramp_colour(double share);  // 0 blue .. 1 yellow-red; clamped

// Colours of a cloud's points. Ranges of ramps leave out the extreme percent at either end.
class Colouring {
 public:
  // Automatic: label where there is one, else RGB, else height. Error when the cloud lacks the
  // field.
  Colouring(const io::Cloud& cloud, ColourBy by);
  Rgb of(std::int64_t point) const;

  ColourBy by() const { return by_; }
  double low() const { return low_; }
  double high() const { return high_; }
  struct ClassShare {
    std::int64_t id = 0, points = 0;
  };
  const std::vector<ClassShare>& classes() const { return classes_; }  // those that occur, by id

 private:
  const io::Cloud* cloud_;
  ColourBy by_;
  const io::Column* value_ = nullptr;  // label, z or intensity
  const io::Column* channels_[3] = {nullptr, nullptr, nullptr};
  double low_ = 0, high_ = 1, channel_scale_ = 1;
  std::vector<ClassShare> classes_;
};

}  // namespace render
