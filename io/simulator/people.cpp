#include <algorithm>

#include "io/simulator/objects.hpp"

namespace io::simulator {
namespace {

Surface cloth(Label label, std::uint16_t instance, Random& random) {
  return {.label = label,
          .instance = instance,
          .reflectance = static_cast<float>(random.uniform(0.08, 0.65)),
          .roughness = 0.01f};
}

// A figure whose hips are at `hip` metres, bent forward by `bend` (run over rise), legs given by
// their feet.
struct Figure {
  double hip = 0.9, torso = 0.52, bend = 0.05, girth = 1;
  Vec3 feet[2], hands[2];
};

void add_figure(Scene& scene, const Stand& stand, const Figure& f, Label label, Random& random) {
  const Surface upper = cloth(label, stand.instance, random),
                lower = cloth(label, stand.instance, random);
  const Vec3 hip{0, 0, f.hip}, neck{f.bend * f.torso, 0, f.hip + f.torso};
  const auto world = [&](Vec3 v) { return stand.at(v.x, v.y, v.z); };
  const auto limb = [&](Vec3 from, Vec3 to, double joint, double radius, const Surface& surface) {
    const Vec3 middle = (from + to) * 0.5 + Vec3{joint, 0, 0};
    scene.add_capsule(world(from), world(middle), radius * 1.15, surface);
    scene.add_capsule(world(middle), world(to), radius * 0.85, surface);
  };
  scene.add_capsule(world(hip), world(neck - Vec3{0, 0, 0.12}), 0.145 * f.girth, upper);
  for (const double side : {-1.0, 1.0}) {  // shoulders make the trunk wider than deep
    scene.add_capsule(world(hip + Vec3{0, side * 0.07, 0}),
                      world(neck + Vec3{0, side * 0.13, -0.1}), 0.1 * f.girth, upper);
    const int index = side > 0 ? 1 : 0;
    limb(hip + Vec3{0, side * 0.1, 0}, f.feet[index] + Vec3{0, 0, 0.06}, 0.04, 0.075 * f.girth,
         lower);
    limb(neck + Vec3{0, side * 0.2, -0.06}, f.hands[index], -0.03, 0.048, upper);
  }
  Surface skin = upper;
  skin.reflectance = 0.45f;
  scene.add_ellipsoid(world(neck + Vec3{0.03, 0, 0.2}), {0.1, 0.085, 0.13}, stand.yaw, skin);
}

void add_rider(Scene& scene, const Stand& stand, double saddle, double bend, double hand_x,
               Random& random) {
  Figure figure;
  figure.hip = saddle;
  figure.bend = bend;
  figure.feet[0] = {0.12, -0.12, saddle - 0.75};
  figure.feet[1] = {0.05, 0.12, saddle - 0.5};
  for (const int side : {0, 1})
    figure.hands[side] = {hand_x, side == 0 ? -0.24 : 0.24, saddle + 0.12};
  add_figure(scene, stand, figure, Label::two_wheeler, random);
}

}  // namespace

void add_person(Scene& scene, const Stand& stand, Pose pose, Random& random) {
  const double scale = random.chance(0.12) ? random.uniform(0.6, 0.8) : random.uniform(0.9, 1.1);
  Figure figure;
  figure.hip = 0.9 * scale;
  figure.torso = 0.55 * scale;
  figure.girth = random.uniform(0.9, 1.35);
  const double stride =
      pose == Pose::walking ? random.uniform(-0.38, 0.38) : random.uniform(-0.06, 0.06);
  if (pose == Pose::sitting) figure.hip = 0.48;
  for (const int side : {0, 1}) {
    const double lateral = side == 0 ? -0.1 : 0.1, swing = side == 0 ? stride : -stride;
    figure.feet[side] = {pose == Pose::sitting ? 0.45 : swing, lateral, 0};
    figure.hands[side] = {0.06 - swing * 0.7, lateral * 2.6, figure.hip - 0.02};
  }
  if (random.chance(0.15)) figure.hands[0] = {0.2, -0.1, figure.hip + 0.42};  // a telephone
  add_figure(scene, stand, figure, Label::person, random);
  const Surface bag = cloth(Label::person, stand.instance, random);
  if (random.chance(0.25))
    scene.add_ellipsoid(stand.at(-0.2, 0, figure.hip + 0.3), {0.11, 0.16, 0.22}, stand.yaw, bag);
  if (random.chance(0.15))
    scene.add_ellipsoid(stand.at(0.05, 0.33, 0.45), {0.17, 0.07, 0.2}, stand.yaw, bag);
  if (random.chance(0.3)) {  // a coat or a skirt
    scene.add_frustum(stand.at(0, 0, figure.hip * 0.55), 0.23 * figure.girth, 0.15 * figure.girth,
                      figure.hip * 0.5, bag);
  }
}

void add_stroller(Scene& scene, const Stand& stand, Random& random) {
  const Surface surface = cloth(Label::ignore, stand.instance, random);
  scene.add_ellipsoid(stand.at(0, 0, 0.65), {0.4, 0.22, 0.25}, stand.yaw, surface);
  for (const double x : {-0.3, 0.3})
    scene.add_ellipsoid(stand.at(x, 0, 0.15), {0.14, 0.26, 0.14}, stand.yaw, surface);
}

void add_bicycle(Scene& scene, const Stand& stand, bool has_rider, Random& random) {
  const Surface frame{.label = Label::two_wheeler,
                      .instance = stand.instance,
                      .reflectance = static_cast<float>(random.uniform(0.1, 0.6)),
                      .gloss = 0.2f};
  Surface wheel = frame;
  wheel.texture = Texture::mesh;  // spokes
  wheel.density = 0.35f;
  wheel.reflectance = 0.2f;
  const auto tube = [&](Vec3 a, Vec3 b, double r) {
    scene.add_capsule(stand.at(a.x, a.y, a.z), stand.at(b.x, b.y, b.z), r, frame);
  };
  for (const double x : {-0.52, 0.52})
    scene.add_ellipsoid(stand.at(x, 0, 0.34), {0.34, 0.03, 0.34}, stand.yaw, wheel);
  tube({-0.52, 0, 0.34}, {-0.15, 0, 0.85}, 0.03);
  tube({0.52, 0, 0.34}, {0.38, 0, 0.95}, 0.03);
  tube({-0.1, 0, 0.3}, {0.42, 0, 0.8}, 0.03);
  tube({-0.15, 0, 0.8}, {0.4, 0, 0.85}, 0.025);
  tube({0.36, -0.27, 1.0}, {0.36, 0.27, 1.0}, 0.025);
  tube({-0.27, 0, 0.92}, {-0.03, 0, 0.92}, 0.06);
  if (random.chance(0.3))
    scene.add_box(stand.at(0.62, 0, 0.85), {0.16, 0.2, 0.13}, stand.yaw, frame);  // a basket
  if (has_rider)
    add_rider(scene, stand.moved(-0.15, 0), 0.98, random.uniform(0.15, 0.7), 0.48, random);
}

void add_motorcycle(Scene& scene, const Stand& stand, bool has_rider, Random& random) {
  const Surface body{.label = Label::two_wheeler,
                     .instance = stand.instance,
                     .reflectance = static_cast<float>(random.uniform(0.08, 0.5)),
                     .gloss = 0.3f};
  const bool is_scooter = random.chance(0.5);
  const double wheel = is_scooter ? 0.25 : 0.31, reach = is_scooter ? 0.62 : 0.72;
  for (const double x : {-reach, reach})
    scene.add_ellipsoid(stand.at(x, 0, wheel), {wheel, 0.07, wheel}, stand.yaw, body);
  scene.add_ellipsoid(stand.at(-0.25, 0, 0.6), {0.55, 0.16, 0.22}, stand.yaw, body);
  scene.add_ellipsoid(stand.at(0.25, 0, is_scooter ? 0.35 : 0.65),
                      {0.4, 0.17, is_scooter ? 0.15 : 0.28}, stand.yaw, body);
  scene.add_capsule(stand.at(reach, 0, wheel), stand.at(reach - 0.25, 0, 1.0), 0.06, body);
  scene.add_capsule(stand.at(reach - 0.28, -0.36, 1.03), stand.at(reach - 0.28, 0.36, 1.03), 0.03,
                    body);
  if (is_scooter) scene.add_box(stand.at(reach - 0.18, 0, 0.65), {0.05, 0.2, 0.3}, stand.yaw, body);
  if (random.chance(0.3))
    scene.add_box(stand.at(-0.75, 0, 0.95), {0.2, 0.22, 0.18}, stand.yaw, body);
  if (has_rider)
    add_rider(scene, stand.moved(-0.2, 0), 0.85, random.uniform(0.05, 0.4), 0.55, random);
}

}  // namespace io::simulator
