#include <algorithm>

#include "io/simulator/objects.hpp"

namespace io::simulator {
namespace {

struct Range {
  double low, high;
};

// `density`: stops a metre inside a clump; `clump`: its size.
Surface leaves(const Stand& stand, Range density_range, Range clump_range, Random& random) {
  const double density = random.uniform(density_range.low, density_range.high);
  const double clump = random.uniform(clump_range.low, clump_range.high);
  return {.label = Label::vegetation,
          .texture = Texture::foliage,
          .instance = stand.instance,
          .reflectance = static_cast<float>(random.uniform(0.3, 0.55)),
          .density = static_cast<float>(density),
          .scale = static_cast<float>(clump)};
}

Surface bark(const Stand& stand) {
  return {.label = Label::vegetation,
          .instance = stand.instance,
          .reflectance = 0.3f,
          .roughness = 0.03f};
}

}  // namespace

void add_tree(Scene& scene, const Stand& stand, double height, Random& random, double headroom) {
  const Surface wood = bark(stand);
  const double girth = random.chance(0.25) ? random.uniform(1.2, 3.0) : 1.0;
  const double trunk = (height * random.uniform(0.018, 0.03) + 0.03) * girth,
               clear = height * random.uniform(0.15, 0.42);
  const Vec3 lean{random.uniform(-0.04, 0.04), random.uniform(-0.04, 0.04), 1};
  const auto along = [&](double z) { return stand.base + lean * z; };
  scene.add_frustum(stand.at(0, 0, -0.2), trunk * 1.6, trunk, 0.6, wood);
  scene.add_capsule(along(0.2), along(clear), trunk, wood);
  scene.add_capsule(along(clear), along(height * 0.85), trunk * 0.55, wood);
  if (random.chance(0.1)) {  // more stems from the same root
    const int stems = 2 + random.integer(4);
    for (int i = 0; i < stems; ++i) {
      const Yaw around = Yaw::of_angle(2 * kPi * (i + random.uniform(0, 0.5)) / stems);
      const double out = random.uniform(0.3, 1.0), up = height * random.uniform(0.25, 0.5);
      scene.add_capsule(stand.at(0, 0, 0.1), along(up) + around(Vec3{out, 0, 0}),
                        trunk * random.uniform(0.5, 0.9), wood);
    }
  }
  const double radius = height * random.uniform(0.2, 0.36);
  const bool is_bare = random.chance(0.15);  // winter: branches and few leaves
  const int branches = is_bare ? 12 : 5;
  for (int i = 0; i < branches; ++i) {
    const double turn = 2 * kPi * (i + random.uniform(0, 0.7)) / branches * 2;
    const double from = random.uniform(clear, height * 0.7),
                 rise = random.uniform(0.1, 0.8) * radius;
    const Yaw around = Yaw::of_angle(turn);
    scene.add_capsule(along(from), along(from + rise) + around(Vec3{radius * 0.85, 0, 0}),
                      trunk * 0.25, wood);
  }
  const Surface crown =
      leaves(stand, is_bare ? Range{0.2, 0.3} : Range{0.8, 3.5}, {0.25, 0.6}, random);
  const int parts = 3 + random.integer(5);
  for (int i = 0; i < parts; ++i) {
    const Yaw around = Yaw::of_angle(2 * kPi * (i + random.uniform(0, 0.5)) / parts);
    const double out = i == 0 ? 0.0 : radius * random.uniform(0.3, 0.6);
    const double size = radius * random.uniform(0.5, 0.9);
    const double z = std::max(random.uniform(clear * 1.1, height * 0.85), headroom + size * 0.8);
    scene.add_ellipsoid(along(z) + around(Vec3{out, 0, 0}), {size, size, size * 0.8}, stand.yaw,
                        crown);
  }
}

void add_conifer(Scene& scene, const Stand& stand, double height, Random& random) {
  const double radius = height * random.uniform(0.14, 0.25), foot = random.uniform(0.0, 1.2);
  scene.add_frustum(stand.base, 0.03 * height * 0.6, 0.02, height * 0.9, bark(stand));
  const Surface needles = leaves(stand, {2, 7}, {0.2, 0.4}, random);
  scene.add_frustum(stand.at(0, 0, foot), radius, radius * 0.35, (height - foot) * 0.6, needles);
  scene.add_frustum(stand.at(0, 0, foot + (height - foot) * 0.5), radius * 0.6, 0.02,
                    (height - foot) * 0.5, needles);
}

void add_bush(Scene& scene, const Stand& stand, double size, Random& random) {
  const Surface surface = random.chance(0.4) ? leaves(stand, {10, 40}, {0.04, 0.15}, random)
                                             : leaves(stand, {3, 10}, {0.12, 0.3}, random);
  const int parts = 1 + random.integer(4);
  for (int i = 0; i < parts; ++i) {
    const double r = size * random.uniform(0.45, 0.75), x = random.uniform(-0.5, 0.5) * size;
    const double y = random.uniform(-0.5, 0.5) * size;
    scene.add_ellipsoid(stand.at(x, y, r * 0.7), {r, r, r * random.uniform(0.8, 1.3)}, stand.yaw,
                        surface);
  }
}

void add_hedge(Scene& scene, const Stand& stand, double span, double height, Random& random) {
  const bool is_trimmed =
      random.chance(0.6);  // a trimmed one is nearly a wall, rough by centimetres
  const Surface surface = is_trimmed ? leaves(stand, {15, 60}, {0.03, 0.12}, random)
                                     : leaves(stand, {6, 16}, {0.1, 0.2}, random);
  const double thick = random.uniform(0.3, 0.9);
  const int parts = std::max(1, static_cast<int>(span / 2.5));
  for (int i = 0; i < parts; ++i) {  // parts of unequal height and depth: no hedge is a box
    const double half = span / parts / 2, h = height * random.uniform(0.88, 1.1),
                 w = thick * random.uniform(0.85, 1.2);
    scene.add_box(stand.at(-span / 2 + half * (2 * i + 1), 0, h / 2), {half * 1.02, w, h / 2},
                  stand.yaw, surface);
  }
}

// Low shrubs in a bed: boxes of foliage with a ragged top, or one mound; now and then taller ones
// in it.
void add_bed(Scene& scene, const Stand& stand, double span, double depth, Random& random) {
  const bool is_dense = random.chance(0.7);
  const Surface surface = is_dense ? leaves(stand, {12, 60}, {0.03, 0.12}, random)
                                   : leaves(stand, {4, 14}, {0.08, 0.2}, random);
  const double height = random.chance(0.6) ? random.uniform(0.12, 0.45) : random.uniform(0.4, 0.95);
  const bool is_mound = random.chance(0.4);
  if (is_mound) {
    scene.add_ellipsoid(stand.at(0, 0, -0.05), {span / 2, depth / 2, height + 0.05}, stand.yaw,
                        surface);
  }
  const int parts = std::max(1, static_cast<int>(span / 1.2));
  for (int i = 0; i < parts; ++i) {
    const double half = span / parts / 2, h = height * random.uniform(0.75, 1.15),
                 w = depth / 2 * random.uniform(0.85, 1.0);
    const double x = -span / 2 + half * (2 * i + 1);
    if (!is_mound)
      scene.add_box(stand.at(x, 0, h / 2), {half * 1.02, w, h / 2}, stand.yaw, surface);
    if (random.chance(0.2)) {
      const double r = random.uniform(0.25, 0.6) * depth, y = random.uniform(-0.2, 0.2) * depth;
      scene.add_ellipsoid(stand.at(x, y, h), {r, r, r * 0.8}, stand.yaw, surface);
    }
  }
}

// An overgrown bank that climbs away from the street, flat on top.
void add_bank(Scene& scene, const Stand& stand, double span, Random& random) {
  const double run = random.uniform(3, 9), rise = run * random.uniform(0.36, 0.8);
  const double slant = random.uniform(0.5, 3), top = 12;
  const Surface growth{.label = Label::vegetation,
                       .instance = stand.instance,
                       .reflectance = static_cast<float>(random.uniform(0.3, 0.5)),
                       .roughness = static_cast<float>(random.uniform(0.02, 0.2))};
  const double half = span / 2;
  const Vec3 a = stand.at(-half, 0, -0.1), b = stand.at(half, 0, -0.1),
             c = stand.at(half - slant, run, rise), d = stand.at(-half + slant, run, rise),
             e = stand.at(half - slant, run + top, rise),
             f = stand.at(-half + slant, run + top, rise), g = stand.at(half, run + top, -0.1),
             h = stand.at(-half, run + top, -0.1);
  scene.add_quad(a, b, c, d, growth);
  scene.add_quad(d, c, e, f, growth);
  scene.add_quad(b, g, e, c, growth);
  scene.add_quad(h, a, d, f, growth);
  const int plants = static_cast<int>(random.uniform(0, span / 4));
  for (int i = 0; i < plants; ++i) {
    const double x = random.uniform(-half + slant, half - slant), along = random.uniform(0.1, 1);
    Stand place = stand;
    place.base = stand.at(x, along * run, along * rise);
    if (random.chance(0.5))
      add_bush(scene, place, random.uniform(0.3, 1.2), random);
    else
      add_tree(scene, place, random.uniform(3, 8), random);
  }
}

void add_thicket(Scene& scene, const Stand& stand, double span, Random& random) {
  const int trees = std::max(2, static_cast<int>(span / 3.5));
  for (int i = 0; i < trees; ++i) {
    const double x = -span / 2 + span * (i + random.uniform(0.1, 0.9)) / trees;
    const double y = random.uniform(-2.5, 2.5);
    const Stand place = stand.moved(x, y);
    if (random.chance(0.2))
      add_conifer(scene, place, random.uniform(6, 14), random);
    else
      add_tree(scene, place, random.uniform(5, 14), random);
    if (random.chance(0.7))
      add_bush(scene, place.moved(1.5, -1.2), random.uniform(0.8, 2.2), random);
  }
}

}  // namespace io::simulator
