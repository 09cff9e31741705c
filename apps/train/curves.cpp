#include "apps/train/curves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace render {
namespace {

constexpr int kWidth = 640, kHeight = 400;                       // of a panel
constexpr int kLeft = 72, kRight = 16, kTop = 48, kBottom = 40;  // margins
constexpr Rgb kPaper{255, 255, 255}, kInk{40, 40, 40}, kGrid{225, 225, 225};

void draw_dot(Image& image, double x, double y, int radius, Rgb colour) {
  const int cx = static_cast<int>(std::lround(x)), cy = static_cast<int>(std::lround(y));
  image.fill({cx - radius, cy - radius, 2 * radius + 1, 2 * radius + 1}, colour);
}

// Steps of at most one pixel along the longer axis.
void draw_line(Image& image, double x0, double y0, double x1, double y1, Rgb colour) {
  const int steps =
      std::max(1, static_cast<int>(std::ceil(std::max(std::abs(x1 - x0), std::abs(y1 - y0)))));
  for (int i = 0; i <= steps; ++i) {
    const double t = static_cast<double>(i) / steps;
    draw_dot(image, x0 + t * (x1 - x0), y0 + t * (y1 - y0), 1, colour);
  }
}

// The smallest of 1, 2, 5 times a power of ten that is not below `value`.
double round_up(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (value <= factor * power * (1 + 1e-9)) return factor * power;
  }
  return 10 * power;
}

class PanelDrawing {
 public:
  PanelDrawing(const Panel& panel, int first_epoch)
      : panel_(panel), first_(first_epoch), image_(kWidth, kHeight, kPaper) {
    for (const Curve& curve : panel.curves) {
      epochs_ = std::max(epochs_, curve.values.size());
      for (const double value : curve.values)
        if (std::isfinite(value)) largest_ = std::max(largest_, value);
    }
    top_ = panel.is_share ? 1 : largest_ > 0 ? round_up(largest_) : 1;
  }

  Image draw() {
    image_.text(kLeft, 12, panel_.title, kInk, 2);
    draw_axes();
    int legend = kWidth - kRight;
    for (auto curve = panel_.curves.rbegin(); curve != panel_.curves.rend(); ++curve) {
      legend -= text_width(curve->name, 1) + 26;
      image_.fill({legend, 34, 12, 4}, curve->colour);
      image_.text(legend + 16, 32, curve->name, kInk, 1);
    }
    for (const Curve& curve : panel_.curves) draw_curve(curve);
    if (epochs_ == 0) image_.text(kLeft + 20, kHeight / 2, "no epoch yet", kInk, 2);
    return std::move(image_);
  }

 private:
  double x_of(std::size_t epoch) const {
    const double span = epochs_ > 1 ? static_cast<double>(epochs_ - 1) : 1;
    return kLeft + static_cast<double>(epoch) / span * (kWidth - kLeft - kRight);
  }
  double y_of(double value) const {
    return kHeight - kBottom - value / top_ * (kHeight - kTop - kBottom);
  }

  void draw_axes() {
    for (int tick = 0; tick <= 5; ++tick) {
      const double value = top_ * tick / 5;
      const int y = static_cast<int>(std::lround(y_of(value)));
      image_.fill({kLeft, y, kWidth - kLeft - kRight, 1}, tick == 0 ? kInk : kGrid);
      const std::string label = fmt::format("{:.3g}", value);
      image_.text(kLeft - 8 - text_width(label, 1), y - 4, label, kInk, 1);
    }
    image_.fill({kLeft, kTop, 1, kHeight - kTop - kBottom}, kInk);
    const std::size_t step = std::max<std::size_t>(1, (epochs_ + 9) / 10);
    for (std::size_t epoch = 0; epoch < epochs_; epoch += step) {
      const std::string label = fmt::format("{}", static_cast<std::size_t>(first_) + epoch);
      const int x = static_cast<int>(std::lround(x_of(epoch)));
      image_.fill({x, kHeight - kBottom, 1, 4}, kInk);
      image_.text(x - text_width(label, 1) / 2, kHeight - kBottom + 8, label, kInk, 1);
    }
    image_.text(kWidth / 2, kHeight - 16, "epoch", kInk, 1);
  }

  void draw_curve(const Curve& curve) {
    for (std::size_t i = 0; i < curve.values.size(); ++i) {
      if (!std::isfinite(curve.values[i])) continue;
      const double x = x_of(i), y = y_of(std::clamp(curve.values[i], 0.0, top_));
      draw_dot(image_, x, y, 2, curve.colour);
      if (i == 0 || !std::isfinite(curve.values[i - 1])) continue;
      draw_line(image_, x_of(i - 1), y_of(std::clamp(curve.values[i - 1], 0.0, top_)), x, y,
                curve.colour);
    }
  }

  const Panel& panel_;
  int first_;
  std::size_t epochs_ = 0;
  double largest_ = 0, top_ = 1;
  Image image_;
};

}  // namespace

Image draw_curves(const std::vector<Panel>& panels, int first_epoch) {
  Image picture(kWidth * std::max<int>(1, static_cast<int>(panels.size())), kHeight, kPaper);
  int x = 0;
  for (const Panel& panel : panels) {
    picture.copy(PanelDrawing(panel, first_epoch).draw(), x, 0);
    x += kWidth;
  }
  return picture;
}

}  // namespace render
