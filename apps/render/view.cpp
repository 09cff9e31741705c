#include "apps/render/view.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gemm_core/base/error.hpp"

namespace render {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr int kOversampling = 2;  // an edge is the mean of this many samples a side

Vector minus(const Vector& a, const Vector& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }
double dot(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
Vector cross(const Vector& a, const Vector& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
Vector unit(const Vector& a) {
  const double length = std::sqrt(dot(a, a));
  return {a[0] / length, a[1] / length, a[2] / length};
}

// Nearest sample of each fine pixel.
class DepthBuffer {
 public:
  DepthBuffer(int width, int height)
      : width_(width * kOversampling),
        height_(height * kOversampling),
        depth_(static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_), kNothing),
        colour_(depth_.size()) {}

  int width() const { return width_; }
  int height() const { return height_; }

  // A disc; radius in fine pixels.
  void splat(double x, double y, double radius, float depth, Rgb colour) {
    const int x0 = first(x - radius), x1 = last(x + radius, width_), y0 = first(y - radius),
              y1 = last(y + radius, height_);
    const double limit = std::max(radius * radius, 0.51);
    for (int py = y0; py <= y1; ++py) {
      for (int px = x0; px <= x1; ++px) {
        const double dx = px + 0.5 - x, dy = py + 0.5 - y;
        if (dx * dx + dy * dy > limit) continue;
        const std::size_t at = offset(px, py);
        if (depth >= depth_[at]) continue;
        depth_[at] = depth;
        colour_[at] = colour;
      }
    }
  }

  // Darkens samples that lie behind their neighbours: the cheapest light there is.
  void shade(double strength) {
    std::vector<Rgb> shaded(colour_);
    constexpr int kReach = 2;
    for (int y = 0; y < height_; ++y) {
      for (int x = 0; x < width_; ++x) {
        const float own = depth_[offset(x, y)];
        if (own == kNothing) continue;
        double behind = 0;
        for (const auto& [dx, dy] : {std::array{kReach, 0}, std::array{-kReach, 0},
                                     std::array{0, kReach}, std::array{0, -kReach}}) {
          const int nx = x + dx, ny = y + dy;
          if (nx < 0 || ny < 0 || nx >= width_ || ny >= height_) continue;
          const float other = depth_[offset(nx, ny)];
          if (other < own)
            behind +=
                std::min(1.0, std::log(static_cast<double>(own) / static_cast<double>(other)) * 20);
        }
        shaded[offset(x, y)] =
            mixed(colour_[offset(x, y)], {0, 0, 0}, 0.75 * (1 - std::exp(-strength * behind)));
      }
    }
    colour_ = std::move(shaded);
  }

  Image resolve(Rgb background) const {
    Image image(width_ / kOversampling, height_ / kOversampling, background);
    for (int y = 0; y < image.height(); ++y) {
      for (int x = 0; x < image.width(); ++x) {
        std::array<int, 3> sum{};
        for (int sub = 0; sub < kOversampling * kOversampling; ++sub) {
          const std::size_t at = offset(x * kOversampling + sub % kOversampling,
                                        y * kOversampling + sub / kOversampling);
          const Rgb colour = depth_[at] == kNothing ? background : colour_[at];
          sum[0] += colour.r;
          sum[1] += colour.g;
          sum[2] += colour.b;
        }
        constexpr int kSamples = kOversampling * kOversampling;
        const auto mean = [&](std::size_t i) {
          return static_cast<std::uint8_t>((sum[i] + kSamples / 2) / kSamples);
        };
        image.at(x, y) = {mean(0), mean(1), mean(2)};
      }
    }
    return image;
  }

 private:
  static constexpr float kNothing = std::numeric_limits<float>::infinity();
  static int first(double v) { return std::max(0, static_cast<int>(std::floor(v))); }
  static int last(double v, int size) {
    return std::min(size - 1, static_cast<int>(std::floor(v)));
  }
  std::size_t offset(int x, int y) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) +
           static_cast<std::size_t>(x);
  }
  int width_, height_;
  std::vector<float> depth_;
  std::vector<Rgb> colour_;
};

// How many values at either end of a sorted sample are far away: a hundredth, none of a few.
std::size_t far_count(const std::vector<double>& sorted) { return sorted.size() / 100; }

}  // namespace

std::optional<Subject> subject_of(const io::Cloud& cloud) {
  constexpr std::int64_t kSample = 200000;
  const std::int64_t step = std::max<std::int64_t>(1, cloud.size() / kSample);
  std::array<std::vector<double>, 3> values;
  for (std::int64_t i = 0; i < cloud.size(); i += step) {
    if (!cloud.is_finite(i)) continue;
    const Vector p = cloud.position(i);
    for (std::size_t axis = 0; axis < 3; ++axis) values[axis].push_back(p[axis]);
  }
  if (values[0].empty()) {  // perhaps the finite points lie between the steps
    const auto bounds = cloud.bounds();
    if (!bounds) return std::nullopt;
    return Subject{bounds->min, bounds->max, false};
  }
  Subject subject;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    std::sort(values[axis].begin(), values[axis].end());
    subject.low[axis] = values[axis][far_count(values[axis])];
    subject.high[axis] = values[axis][values[axis].size() - 1 - far_count(values[axis])];
  }
  const double extent =
      std::max(subject.high[0] - subject.low[0], subject.high[1] - subject.low[1]);
  const auto holds_origin = [&](std::size_t axis) {
    return subject.low[axis] < 0 && subject.high[axis] > 0;
  };
  subject.is_scan = extent > 15 && extent < 400 && holds_origin(0) && holds_origin(1) &&
                    std::abs(subject.low[2]) < 30;
  return subject;
}

std::vector<std::string> camera_names() {
  return {"behind", "front", "left", "right", "oblique", "driver"};
}

Camera preset_camera(std::string_view name, const Subject& subject) {
  const Vector middle = {(subject.low[0] + subject.high[0]) / 2,
                         (subject.low[1] + subject.high[1]) / 2,
                         (subject.low[2] + subject.high[2]) / 2};
  const double extent =
      std::max({subject.high[0] - subject.low[0], subject.high[1] - subject.low[1],
                subject.high[2] - subject.low[2], 1e-3});
  const double floor = subject.low[2];
  const auto around = [&](double x, double y, double z) {
    if (subject.is_scan)
      return Camera{{x * 24, y * 24, floor + z * 24}, {-x * 8, -y * 8, floor + 0.5}, 62};
    return Camera{
        {middle[0] + x * extent, middle[1] + y * extent, middle[2] + z * extent}, middle, 55};
  };
  if (name == "behind") return around(-1, 0, 0.62);
  if (name == "front") return around(1, 0, 0.62);
  if (name == "left") return around(0, 1, 0.62);
  if (name == "right") return around(0, -1, 0.62);
  if (name == "oblique") return around(-0.75, -0.75, 0.75);
  if (name == "driver") {
    const double reach = subject.is_scan ? 20 : extent;
    const Vector eye = subject.is_scan ? Vector{0, 0, 0} : middle;
    return {eye, {eye[0] + reach, eye[1], eye[2] - reach * 0.05}, 85};
  }
  std::string names;
  for (const std::string& known : camera_names()) names.append(" ").append(known);
  base::fail("camera '", name, "', expected x,y,z,tx,ty,tz or one of:", names);
}

Image draw_perspective(const io::Cloud& cloud, const Colouring& colouring, const Camera& camera,
                       int width, int height, const ViewStyle& style) {
  DepthBuffer buffer(width, height);
  const Vector gaze = minus(camera.target, camera.eye);
  ENSURE(dot(gaze, gaze) > 0, "camera: eye and target are the same point");
  const Vector forward = unit(gaze);
  const bool is_steep = std::abs(forward[2]) > 0.999;  // looking straight down: north is up
  const Vector right = unit(cross(forward, is_steep ? Vector{0, 1, 0} : Vector{0, 0, 1}));
  const Vector up = cross(right, forward);
  const double focus = buffer.width() / 2.0 / std::tan(camera.field_of_view * kPi / 360);
  const double half_width = buffer.width() / 2.0, half_height = buffer.height() / 2.0;
  const double near = 1e-3 * std::sqrt(dot(gaze, gaze)),
               world_size = 0.0022 * std::sqrt(dot(gaze, gaze));
  for (std::int64_t i = 0; i < cloud.size(); ++i) {
    if (!cloud.is_finite(i)) continue;
    const Vector offset = minus(cloud.position(i), camera.eye);
    const double depth = dot(offset, forward);
    if (depth < near) continue;
    const double x = half_width + focus * dot(offset, right) / depth,
                 y = half_height - focus * dot(offset, up) / depth;
    if (!(x > -20 && y > -20 && x < buffer.width() + 20 && y < buffer.height() + 20)) continue;
    const double radius = style.point_size * std::clamp(world_size * focus / depth, 1.0, 6.0);
    buffer.splat(x, y, radius, static_cast<float>(depth), colouring.of(i));
  }
  buffer.shade(0.9);
  return buffer.resolve(style.background);
}

TopView usual_top_view(const Subject& subject, int width, int height) {
  const double aspect = static_cast<double>(width) / height;
  if (subject.is_scan) {  // the near part of a scan, where its points are
    const double reach = std::min({subject.high[0], -subject.low[0], 45.0});
    return {0, 0, 2 * std::max(reach, 12.0) * std::max(1.0, std::min(aspect, 1.6))};
  }
  const double x = subject.high[0] - subject.low[0], y = subject.high[1] - subject.low[1];
  const double metres = 1.08 * std::max({x, y * aspect, 1e-6});
  return {(subject.low[0] + subject.high[0]) / 2, (subject.low[1] + subject.high[1]) / 2, metres};
}

Image draw_top(const io::Cloud& cloud, const Colouring& colouring, const TopView& view, int width,
               int height, const ViewStyle& style) {
  DepthBuffer buffer(width, height);
  const double scale = buffer.width() / view.metres;
  const double half_width = buffer.width() / 2.0, half_height = buffer.height() / 2.0;
  const auto bounds = cloud.bounds();
  if (!bounds) return buffer.resolve(style.background);
  for (std::int64_t i = 0; i < cloud.size(); ++i) {
    if (!cloud.is_finite(i)) continue;
    const Vector p = cloud.position(i);
    const double x = half_width + (p[0] - view.centre_x) * scale,
                 y = half_height - (p[1] - view.centre_y) * scale;
    if (!(x > -20 && y > -20 && x < buffer.width() + 20 && y < buffer.height() + 20)) continue;
    buffer.splat(x, y, 1.0 * style.point_size, static_cast<float>(bounds->max[2] - p[2]),
                 colouring.of(i));
  }
  return buffer.resolve(style.background);
}

}  // namespace render
