#include "io/simulator/ground.hpp"

#include <algorithm>

namespace io::simulator {

StreetShape StreetShape::random(std::uint64_t seed) {
  Random random(hash(seed, 11));
  StreetShape shape;
  shape.half_road = random.uniform(3.0, 5.5);
  if (random.chance(0.25)) shape.half_road += random.uniform(1.5, 4.5);  // more lanes
  shape.kerb = random.uniform(0.05, 0.17);
  shape.crown = random.uniform(0.005, 0.03);
  shape.verge = random.chance(0.4) ? random.uniform(1.0, 3.0) : 0.0;
  shape.pavement = random.uniform(1.5, 3.5);
  shape.yard = random.chance(0.45) ? random.uniform(0.6, 3.0) : random.uniform(2.5, 8.0);
  shape.has_sidewalk = random.chance(0.92);
  for (int i = 0; i < 2; ++i) {
    shape.bend_length[i] = i == 0 ? random.uniform(180, 420) : random.uniform(70, 150);
    shape.bend[i] = shape.bend_length[i] * random.uniform(0, i == 0 ? 0.03 : 0.012);
    shape.bend_phase[i] = random.uniform(0, 2 * kPi);
  }
  shape.hill_length = random.uniform(150, 500);
  shape.hill = shape.hill_length * random.uniform(0, 0.007);
  shape.hill_phase = random.uniform(0, 2 * kPi);
  shape.relief = random.uniform(0.2, 2.5);
  shape.grass = random.uniform(0.012, 0.075);
  for (double& bias : shape.bias) bias = random.uniform(-0.7, 0.9);
  shape.salt = random.next();
  return shape;
}

double Ground::centre(double s) const {
  double y = 0;
  for (int i = 0; i < 2; ++i) {
    y += shape_.bend[i] * sine(2 * kPi * s / shape_.bend_length[i] + shape_.bend_phase[i]);
  }
  return y;
}

Yaw Ground::heading(double s) const {
  double slope = 0;
  for (int i = 0; i < 2; ++i) {
    const double k = 2 * kPi / shape_.bend_length[i];
    slope += shape_.bend[i] * k * cosine(k * s + shape_.bend_phase[i]);
  }
  return Yaw::of_slope(slope);
}

double Ground::strips_outer(int strip) const {
  const double kerb_top = shape_.half_road + 0.02;
  const double pavement_begin = kerb_top + shape_.verge;
  const double pavement_end = pavement_begin + shape_.pavement;
  const double front = pavement_end + shape_.yard;
  switch (strip) {
    case 0:
      return shape_.half_road;
    case 1:
      return kerb_top;
    case 2:
      return pavement_begin;
    case 3:
      return pavement_end;
    case 4:
      return front;
    case 5:
      return front + 8;
    case 6:
      return front + 20;
    case 7:
      return front + 45;
    default:
      return front + 110;
  }
}

// Edge 0 is the centre line, edge i + 1 the far edge of strip i.
double Ground::edge_height(double s, int side, int edge, bool is_open) const {
  const double base = shape_.hill * sine(2 * kPi * s / shape_.hill_length + shape_.hill_phase);
  if (edge == 0) return base;
  const double gutter = base - shape_.crown * shape_.half_road;
  if (edge == 1) return gutter;
  const std::uint64_t salt = hash(shape_.salt, side);
  const double d = strips_outer(edge - 1);
  double rise = is_open ? 0.01 : shape_.kerb;
  if (edge >= 3) rise += 0.015 * (std::min(d, strips_outer(3)) - strips_outer(1));
  // Yards climb or fall a little, the land beyond more and more.
  if (edge >= 5) rise += 0.35 * shape_.relief * smooth_noise(s / 30, 0.5, salt);
  if (edge >= 6) {
    const double far = d - strips_outer(4);
    rise += shape_.relief * (1 - 20 / (20 + far)) *
            (1.2 * smooth_noise(s / 45, d / 25, salt + 1) + shape_.bias[side > 0 ? 1 : 0]);
  }
  return gutter + rise;
}

double Ground::height(double s, double d) const {
  const int side = d < 0 ? -1 : 1;
  const double distance = std::abs(d);
  double inner = 0, inner_height = edge_height(s, side, 0, false);
  for (int strip = 0; strip < kStrips; ++strip) {
    const double outer = strips_outer(strip), outer_height = edge_height(s, side, strip + 1, false);
    if (distance <= outer && outer > inner) {
      return inner_height + (outer_height - inner_height) * (distance - inner) / (outer - inner);
    }
    inner = outer;
    inner_height = outer_height;
  }
  return inner_height;
}

Vec3 Ground::place(double s, double d, double above) const {
  return {s, centre(s) + d, height(s, d) + above};
}

Surface Ground::surface(int strip, Style style, double s, int side, const Opening* opening,
                        double into) const {
  const Surface road{.label = Label::road, .reflectance = 0.27f, .roughness = 0.006f};
  const Surface paved{.label = Label::sidewalk, .reflectance = 0.36f, .roughness = 0.006f};
  const Surface grass{
      .label = Label::terrain, .reflectance = 0.42f, .roughness = static_cast<float>(shape_.grass)};
  const Surface soil{.label = Label::terrain, .reflectance = 0.30f, .roughness = 0.035f};
  if (strip == 0) return road;
  if (opening != nullptr && (!opening->is_street || into > 0)) return road;
  const Surface rough =
      unit(hash(shape_.salt, side, static_cast<std::int64_t>(std::floor(s / 17)))) < 0.75 ? grass
                                                                                          : soil;
  if (opening != nullptr && strip >= 3)
    return shape_.has_sidewalk ? paved : rough;  // beside a side street
  switch (strip) {
    case 1:
      return shape_.has_sidewalk ? paved : road;
    case 2:
      return rough;
    case 3:
      return shape_.has_sidewalk ? paved : rough;
    case 4:
      return style == Style::town ? paved : style == Style::commerce ? road : rough;
    case 5:
    case 6:
      return style == Style::commerce ? road : rough;
    default:
      return rough;
  }
}

namespace {

struct Line {
  double s = 0;
  // Between this line and the next: the opening of each side (right, left) or null, and whether it
  // is its roadway.
  std::array<const Opening*, 2> opening{};
  std::array<double, 2> into{};
};

constexpr double kSidePavement = 1.8;

std::vector<Line> cut_lines(double s0, double s1, const std::vector<Opening>& openings) {
  std::vector<double> cuts;
  for (double s = s0; s < s1; s += 2) cuts.push_back(s);
  cuts.push_back(s1);
  for (const Opening& opening : openings) {
    for (const double cut : {opening.begin - 0.02, opening.begin, opening.end, opening.end + 0.02})
      cuts.push_back(cut);
    if (!opening.is_street) continue;
    for (const double cut : {opening.begin - kSidePavement, opening.end + kSidePavement})
      cuts.push_back(cut);
  }
  std::sort(cuts.begin(), cuts.end());
  std::vector<Line> lines;
  for (const double s : cuts) {
    if (s < s0 || s > s1 || (!lines.empty() && s - lines.back().s < 1e-6)) continue;
    lines.push_back({.s = s});
  }
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    const double middle = (lines[i].s + lines[i + 1].s) / 2;
    for (const Opening& opening : openings) {
      const std::size_t side = opening.side > 0 ? 1 : 0;
      const double margin = opening.is_street ? kSidePavement : 0.0;
      if (middle < opening.begin - margin || middle > opening.end + margin) continue;
      lines[i].opening[side] = &opening;
      lines[i].into[side] = std::min(middle - opening.begin, opening.end - middle);
    }
  }
  return lines;
}

}  // namespace

void Ground::add_to(Scene& scene, double s0, double s1, Style style,
                    const std::vector<Opening>& openings) const {
  const std::vector<Line> lines = cut_lines(s0, s1, openings);
  const auto is_open_at = [&](double s, int side, int strip) {
    return std::any_of(openings.begin(), openings.end(), [&](const Opening& o) {
      return o.side == side && s > o.begin - 1e-3 && s < o.end + 1e-3 &&
             (o.is_street || strip <= 4);
    });
  };
  const auto vertex = [&](double s, int side, int edge) {
    const double d = edge == 0 ? 0.0 : strips_outer(edge - 1);
    const bool is_open = edge > 1 && is_open_at(s, side, edge - 1);
    return Vec3{s, centre(s) + side * d, edge_height(s, side, edge, is_open)};
  };
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    for (const int side : {-1, 1}) {
      const std::size_t at = side > 0 ? 1 : 0;
      const Opening* opening = lines[i].opening[at];
      for (int strip = 0; strip < kStrips; ++strip) {
        if (strip > 0 && strips_outer(strip) <= strips_outer(strip - 1)) continue;
        const bool reaches = opening != nullptr && (opening->is_street || strip <= 4);
        const Surface what =
            surface(strip, style, lines[i].s, side, reaches ? opening : nullptr, lines[i].into[at]);
        scene.add_quad(vertex(lines[i].s, side, strip), vertex(lines[i + 1].s, side, strip),
                       vertex(lines[i + 1].s, side, strip + 1), vertex(lines[i].s, side, strip + 1),
                       what);
      }
    }
  }
}

}  // namespace io::simulator
