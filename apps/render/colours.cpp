#include "apps/render/colours.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "gemm_core/base/error.hpp"

namespace render {
namespace {

struct Named {
  std::string_view name;
  ColourBy by;
};
constexpr std::array<Named, 5> kChoices = {{{"auto", ColourBy::automatic},
                                            {"label", ColourBy::label},
                                            {"height", ColourBy::height},
                                            {"intensity", ColourBy::intensity},
                                            {"rgb", ColourBy::rgb}}};

// The values between which all but a hundredth at either end lie; exact to a 4096th of the full
// range.
std::array<double, 2> usual_range(const io::Cloud& cloud, const io::Column& column) {
  double low = INFINITY, high = -INFINITY;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < cloud.size(); ++i) {
    const double v = column.at(i);
    if (!std::isfinite(v) || !cloud.is_finite(i)) continue;
    low = std::min(low, v);
    high = std::max(high, v);
    ++count;
  }
  if (count == 0) return {0, 1};
  if (!(high > low)) return {low - 0.5, low + 0.5};
  constexpr int kBins = 4096;
  std::vector<std::int64_t> bins(kBins, 0);
  for (std::int64_t i = 0; i < cloud.size(); ++i) {
    const double v = column.at(i);
    if (!std::isfinite(v) || !cloud.is_finite(i)) continue;
    ++bins[static_cast<std::size_t>(
        std::min(kBins - 1.0, (v / 2 - low / 2) / (high / 2 - low / 2) * kBins))];
  }
  const auto value_at = [&](double share) {
    std::int64_t below = 0;
    for (int bin = 0; bin < kBins; ++bin) {
      below += bins[static_cast<std::size_t>(bin)];
      if (static_cast<double>(below) >= share * static_cast<double>(count))
        return low + (high - low) * (bin + share) / kBins;
    }
    return high;
  };
  const double first = value_at(0.01), last = value_at(0.99);
  if (last > first) return {first, last};
  return {low, high};
}

double full_scale(base::DType type) {
  switch (type) {
    case base::DType::u8:
      return 255;
    case base::DType::u16:
      return 65535;
    case base::DType::i8:
      return 127;
    case base::DType::i16:
      return 32767;
    default:
      return base::is_float(type) ? 1 : 255;
  }
}

}  // namespace

ColourBy parse_colour_by(std::string_view text) {
  std::string names;
  for (const Named& choice : kChoices) {
    if (choice.name == text) return choice.by;
    names.append(" ").append(choice.name);
  }
  base::fail("colour by '", text, "', expected one of:", names);
}

Rgb class_colour(std::int64_t id) {
  constexpr std::array<Rgb, 11> kStreet = {{{110, 110, 116},
                                            {168, 92, 180},
                                            {238, 140, 200},
                                            {150, 200, 110},
                                            {232, 170, 60},
                                            {214, 110, 50},
                                            {30, 150, 50},
                                            {70, 130, 250},
                                            {245, 45, 45},
                                            {60, 225, 235},
                                            {250, 240, 130}}};
  if (id >= 0 && id < static_cast<std::int64_t>(kStreet.size()))
    return kStreet[static_cast<std::size_t>(id)];
  // Hues a golden section apart stay distinct however many there are.
  const double hue =
      static_cast<double>(static_cast<std::uint64_t>(id) % 9973) * 0.6180339887498949 * 6;
  const auto channel = [&](double shift) {
    const double h = std::fmod(hue + shift, 6.0);
    const double v = std::clamp(std::abs(h - 3) - 1, 0.0, 1.0);
    return static_cast<std::uint8_t>(70 + 170 * v);
  };
  return {channel(0), channel(4), channel(2)};
}

std::string class_name(std::int64_t id, const std::vector<std::string>& names) {
  if (id >= 0 && id < static_cast<std::int64_t>(names.size()))
    return names[static_cast<std::size_t>(id)];
  return base::concat("class ", id);
}

Rgb ramp_colour(double share) {
  constexpr std::array<Rgb, 8> kStops = {{{48, 30, 110},
                                          {50, 90, 200},
                                          {35, 150, 210},
                                          {40, 190, 150},
                                          {110, 210, 90},
                                          {210, 215, 60},
                                          {250, 160, 50},
                                          {235, 75, 50}}};
  if (!(share > 0)) return kStops.front();
  const double place = std::min(share, 1.0) * (kStops.size() - 1);
  const auto below = std::min(kStops.size() - 2, static_cast<std::size_t>(place));
  return mixed(kStops[below], kStops[below + 1], place - static_cast<double>(below));
}

Colouring::Colouring(const io::Cloud& cloud, ColourBy by) : cloud_(&cloud), by_(by) {
  const bool has_rgb =
      cloud.find("r") != nullptr && cloud.find("g") != nullptr && cloud.find("b") != nullptr;
  const bool has_label = cloud.find("label") != nullptr;
  const bool has_class = cloud.find("class") != nullptr;
  if (by_ == ColourBy::automatic) {
    by_ = has_label || has_class ? ColourBy::label : has_rgb ? ColourBy::rgb : ColourBy::height;
  }
  if (cloud.size() == 0) return;
  switch (by_) {
    case ColourBy::rgb: {
      const std::array<std::string_view, 3> names = {"r", "g", "b"};
      for (std::size_t i = 0; i < 3; ++i) channels_[i] = &cloud.get(names[i]);
      channel_scale_ = 255 / full_scale(channels_[0]->field.type);
      return;
    }
    case ColourBy::label: {
      value_ = &cloud.get(has_label || !has_class ? "label" : "class");
      std::map<std::int64_t, std::int64_t> counts;
      for (std::int64_t i = 0; i < cloud.size(); ++i) {
        const double v = value_->at(i);
        if (std::isfinite(v) && std::abs(v) < 1e15) ++counts[static_cast<std::int64_t>(v)];
      }
      for (const auto& [id, points] : counts) classes_.push_back({id, points});
      return;
    }
    default: {
      value_ = &cloud.get(by_ == ColourBy::height ? "z" : "intensity");
      const auto range = usual_range(cloud, *value_);
      low_ = range[0];
      high_ = range[1];
    }
  }
}

Rgb Colouring::of(std::int64_t point) const {
  if (by_ == ColourBy::rgb) {
    const auto channel = [&](int i) {
      const double v = channels_[i]->at(point) * channel_scale_;
      return static_cast<std::uint8_t>(std::isfinite(v) ? std::clamp(v, 0.0, 255.0) : 0.0);
    };
    return {channel(0), channel(1), channel(2)};
  }
  const double v = value_->at(point);
  if (!std::isfinite(v)) return {255, 0, 255};
  if (by_ == ColourBy::label)
    return class_colour(std::abs(v) < 1e15 ? static_cast<std::int64_t>(v) : -1);
  return ramp_colour((v - low_) / (high_ - low_));
}

}  // namespace render
