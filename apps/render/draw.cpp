#include "apps/render/draw.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "gemm_core/base/error.hpp"
#include "io/simulator.hpp"

namespace render {
namespace {

struct Ink {
  Rgb background, text, faint;
};

Ink ink_of(const DrawOptions& options) {
  if (options.is_light) return {{255, 255, 255}, {30, 32, 38}, {150, 150, 156}};
  return {{16, 18, 24}, {235, 236, 240}, {110, 112, 120}};
}

std::string short_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  std::string result = text.data();
  std::replace(result.begin(), result.end(), ',', '.');  // whatever the locale
  return result;
}

void draw_scale_bar(Image& image, double metres_per_pixel, const Ink& ink) {
  const double wanted = image.width() * 0.2 * metres_per_pixel;
  const double power = std::pow(10, std::floor(std::log10(wanted)));
  const double length = wanted / power >= 5 ? 5 * power : wanted / power >= 2 ? 2 * power : power;
  const int pixels = std::max(1, static_cast<int>(length / metres_per_pixel));
  const int x = image.width() - pixels - 16, y = image.height() - 18;
  const std::string label = base::concat(short_number(length), " m");
  image.fill({x - 8, y - 26, pixels + 16, 38}, ink.background);
  image.fill({x, y, pixels, 3}, ink.text);
  for (const int end : {x, x + pixels - 2}) image.fill({end, y - 5, 2, 13}, ink.text);
  image.text(x + (pixels - text_width(label)) / 2, y - 24, label, ink.text);
}

struct Legend {
  std::vector<std::pair<std::string, Rgb>> entries;  // of classes
};

Legend legend_of(const Colouring& colouring, const DrawOptions& options) {
  const auto names =
      options.class_names.empty() ? io::simulator_class_names() : options.class_names;
  std::int64_t total = 0;
  for (const auto& share : colouring.classes()) total += share.points;
  Legend legend;
  for (const auto& share : colouring.classes()) {
    const double percent = 100.0 * static_cast<double>(share.points) / static_cast<double>(total);
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), "%d.%d%%", static_cast<int>(percent),
                  static_cast<int>(percent * 10) % 10);
    legend.entries.emplace_back(class_name(share.id, names) + " " + text.data(),
                                class_colour(share.id));
  }
  return legend;
}

constexpr int kRow = 24, kSwatch = 14, kGap = 22;

int entry_width(const std::string& name) { return kSwatch + 7 + text_width(name) + kGap; }

// Entries that fit no more than `limit` rows are counted at the end.
int legend_rows(const Legend& legend, int width) {
  int rows = 1, x = 12;
  for (const auto& [name, colour] : legend.entries) {
    if (x + entry_width(name) > width && x > 12) {
      ++rows;
      x = 12;
    }
    x += entry_width(name);
  }
  return std::min(rows, 4);
}

void draw_legend(Image& image, const Legend& legend, int top, int rows, const Ink& ink) {
  int x = 12, row = 0;
  std::size_t done = 0;
  for (const auto& [name, colour] : legend.entries) {
    if (x + entry_width(name) > image.width() && x > 12) {
      if (row + 1 == rows) {
        image.text(x, top + row * kRow, base::concat("+", legend.entries.size() - done), ink.faint);
        return;
      }
      ++row;
      x = 12;
    }
    image.fill({x, top + row * kRow, kSwatch, kSwatch}, colour);
    image.text(x + kSwatch + 7, top + row * kRow, name, ink.text);
    x += entry_width(name);
    ++done;
  }
}

void draw_ramp(Image& image, const Colouring& colouring, int top, const Ink& ink) {
  const std::string unit = colouring.by() == ColourBy::height ? " m" : "";
  const std::string name = colouring.by() == ColourBy::height ? "height " : "intensity ";
  const std::string low = name + short_number(colouring.low()) + unit,
                    high = short_number(colouring.high()) + unit;
  image.text(12, top, low, ink.text);
  const int x = 12 + text_width(low) + 10,
            length = std::clamp(image.width() - x - text_width(high) - 22, 10, 260);
  for (int i = 0; i < length; ++i)
    image.fill({x + i, top, 1, kSwatch}, ramp_colour(i / (length - 1.0)));
  image.text(x + length + 10, top, high, ink.text);
}

Image draw_empty(const io::Cloud& cloud, const DrawOptions& options, const Ink& ink) {
  Image image(options.width, options.height, ink.background);
  const std::string words =
      cloud.size() == 0 ? "0 points" : "0 finite points of " + std::to_string(cloud.size());
  const int scale = std::max(1, std::min(4, options.width / std::max(1, text_width(words, 1) + 8)));
  image.text((options.width - text_width(words, scale)) / 2,
             (options.height - text_height(scale)) / 2, words, ink.text, scale);
  return image;
}

Image draw_top_panel(const io::Cloud& cloud, const Colouring& colouring, const Subject& subject,
                     const DrawOptions& options, int width, int height) {
  const Ink ink = ink_of(options);
  TopView view = usual_top_view(subject, width, height);
  if (options.top_metres > 0) view.metres = options.top_metres;
  Image image =
      draw_top(cloud, colouring, view, width, height, {ink.background, options.point_size});
  draw_scale_bar(image, view.metres / width, ink);
  return image;
}

}  // namespace

Image draw(const io::Cloud& cloud, const DrawOptions& options) {
  constexpr int kSmallest = 64, kLargest = 16384;
  ENSURE(options.width >= kSmallest && options.width <= kLargest && options.height >= kSmallest &&
             options.height <= kLargest,
         "picture of ", options.width, " x ", options.height, ", expected ", kSmallest, " to ",
         kLargest, " a side");
  ENSURE(options.point_size > 0 && options.point_size <= 20, "point size ", options.point_size,
         ", expected above 0 up to 20");
  const Ink ink = ink_of(options);
  const auto subject = subject_of(cloud);
  if (!subject) return draw_empty(cloud, options, ink);
  const Colouring colouring(cloud, options.colour_by);
  const Legend legend = legend_of(colouring, options);
  const bool has_legend = colouring.by() != ColourBy::rgb && options.height >= 160;
  const int rows = has_legend ? legend_rows(legend, options.width) : 0,
            footer = rows > 0 ? rows * kRow + 10 : 0;

  Image image(options.width, options.height, ink.background);
  const int height = options.height - footer;
  const Camera camera = options.camera ? *options.camera : preset_camera(options.preset, *subject);
  const ViewStyle style{ink.background, options.point_size};
  if (options.view == View::perspective) {
    image.copy(draw_perspective(cloud, colouring, camera, options.width, height, style), 0, 0);
  } else if (options.view == View::top) {
    image.copy(draw_top_panel(cloud, colouring, *subject, options, options.width, height), 0, 0);
  } else {
    const int left = options.width * 11 / 20;
    image.copy(draw_perspective(cloud, colouring, camera, left, height, style), 0, 0);
    image.copy(
        draw_top_panel(cloud, colouring, *subject, options, options.width - left - 4, height),
        left + 4, 0);
  }
  if (!options.title.empty()) image.text(12, 10, options.title, ink.text);
  if (rows == 0) return image;
  if (colouring.by() == ColourBy::label)
    draw_legend(image, legend, height + 8, rows, ink);
  else
    draw_ramp(image, colouring, height + 8, ink);
  return image;
}

Image beside(const Image& left, const Image& right) {
  constexpr int kSeam = 4;
  Image image(left.width() + kSeam + right.width(), std::max(left.height(), right.height()),
              {128, 128, 128});
  image.copy(left, 0, 0);
  image.copy(right, left.width() + kSeam, 0);
  return image;
}

}  // namespace render
