#include <algorithm>

#include "io/simulator/objects.hpp"

namespace io::simulator {
namespace {

Surface metal(const Stand& stand, double reflectance) {
  return {.label = Label::pole,
          .instance = stand.instance,
          .reflectance = static_cast<float>(reflectance),
          .gloss = 0.15f};
}

// Sign faces send the light back to where it came from.
Surface retro(const Stand& stand) {
  return {.label = Label::pole, .instance = stand.instance, .reflectance = 2.2f};
}

Surface stuff(const Stand& stand, Random& random) {
  return {.label = Label::ignore,
          .instance = stand.instance,
          .reflectance = static_cast<float>(random.uniform(0.1, 0.6)),
          .gloss = static_cast<float>(random.uniform(0, 0.4))};
}

}  // namespace

void add_lamp_post(Scene& scene, const Stand& stand, Random& random) {
  const Surface surface = metal(stand, random.uniform(0.2, 0.5));
  const double height = random.uniform(4, 9), foot = random.uniform(0.06, 0.12);
  scene.add_frustum(stand.at(0, 0, -0.1), foot * 1.4, foot * 1.4, 1.0, surface);
  scene.add_frustum(stand.at(0, 0, 0.9), foot, foot * 0.6, height - 0.9, surface);
  if (height < 5.5 && random.chance(0.6)) {
    scene.add_ellipsoid(stand.at(0, 0, height + 0.15), {0.25, 0.25, 0.3}, stand.yaw, surface);
    return;
  }
  const double reach = random.uniform(0.8, 2.4);
  scene.add_capsule(stand.at(0, 0, height), stand.at(0, reach, height + 0.25), foot * 0.5, surface);
  scene.add_box(stand.at(0, reach + 0.25, height + 0.25), {0.14, 0.35, 0.08}, stand.yaw, surface);
}

void add_utility_pole(Scene& scene, const Stand& stand, double height) {
  const Surface wood = metal(stand, 0.3);
  scene.add_frustum(stand.at(0, 0, -0.1), 0.15, 0.1, height + 0.1, wood);
  scene.add_capsule(stand.at(0, -0.9, height - 0.3), stand.at(0, 0.9, height - 0.3), 0.05, wood);
}

void add_wires(Scene& scene, Vec3 from, Vec3 to, int count, double sag) {
  const Surface wire{.label = Label::ignore, .reflectance = 0.3f};
  constexpr int kPieces = 6;
  for (int i = 0; i < count; ++i) {
    const double shift = count == 1 ? 0.0 : 1.6 * i / (count - 1) - 0.8;
    const auto at = [&](int piece) {
      const double t = static_cast<double>(piece) / kPieces;
      return from + (to - from) * t + Vec3{0, shift, -4 * sag * t * (1 - t)};
    };
    for (int piece = 0; piece < kPieces; ++piece)
      scene.add_capsule(at(piece), at(piece + 1), 0.012, wire);
  }
}

void add_sign(Scene& scene, const Stand& stand, Random& random) {
  const Surface post = metal(stand, random.uniform(0.25, 0.5)), face = retro(stand);
  const double radius = random.uniform(0.025, 0.045), height = random.uniform(2.0, 3.0);
  const int kind = random.integer(5);
  if (kind == 4) {  // a board on two posts
    const double half = random.uniform(0.6, 1.4);
    for (const double y : {-half, half})
      scene.add_capsule(stand.at(0, y, 0), stand.at(0, y, height), radius, post);
    scene.add_box(stand.at(-0.06, 0, height - 0.4), {0.02, half + 0.15, 0.5}, stand.yaw, face);
    return;
  }
  scene.add_capsule(stand.base, stand.at(0, 0, height), radius, post);
  const int plates = 1 + random.integer(2);
  for (int i = 0; i < plates; ++i) {
    const double z = height - 0.3 - 0.68 * i;
    if (kind <= 1)
      scene.add_ellipsoid(stand.at(-0.05, 0, z), {0.02, 0.31, 0.31}, stand.yaw, face);
    else
      scene.add_box(stand.at(-0.05, 0, z), {0.015, random.uniform(0.2, 0.45), 0.28}, stand.yaw,
                    face);
  }
}

void add_traffic_light(Scene& scene, const Stand& stand, Random& random) {
  const Surface post = metal(stand, 0.25);
  scene.add_frustum(stand.at(0, 0, -0.1), 0.09, 0.07, 3.5, post);
  scene.add_box(stand.at(-0.15, 0, 2.7), {0.12, 0.17, 0.5}, stand.yaw, post);
  if (!random.chance(0.5)) return;
  const double reach = random.uniform(3, 5);
  scene.add_frustum(stand.at(0, 0, 3.3), 0.08, 0.08, 2.4, post);
  scene.add_capsule(stand.at(0, 0, 5.6), stand.at(0, reach, 5.8), 0.06, post);
  scene.add_box(stand.at(-0.15, reach, 5.4), {0.12, 0.17, 0.5}, stand.yaw, post);
}

void add_bollard(Scene& scene, const Stand& stand, Random& random) {
  const double height = random.uniform(0.6, 1.1), radius = random.uniform(0.04, 0.11);
  scene.add_frustum(stand.at(0, 0, -0.05), radius, radius * 0.9, height,
                    metal(stand, random.uniform(0.2, 0.6)));
}

void add_clutter(Scene& scene, const Stand& stand, Random& random) {
  const Surface surface = stuff(stand, random);
  switch (random.integer(8)) {
    case 0:
    case 1:  // a bin on wheels, often with a brother
      for (int i = 0; i < 1 + static_cast<int>(random.chance(0.5)); ++i) {
        const double shift = 0.65 * i;
        scene.add_box(stand.at(shift, 0, 0.5), {0.27, 0.3, 0.48}, stand.yaw, surface);
        scene.add_box(stand.at(shift, 0.02, 1.02), {0.3, 0.34, 0.05}, stand.yaw, surface);
      }
      break;
    case 2: {  // a bench
      scene.add_box(stand.at(0, 0, 0.45), {0.8, 0.22, 0.03}, stand.yaw, surface);
      scene.add_box(stand.at(0, 0.22, 0.72), {0.8, 0.03, 0.16}, stand.yaw, surface);
      for (const double x : {-0.65, 0.65})
        scene.add_box(stand.at(x, 0, 0.22), {0.04, 0.2, 0.22}, stand.yaw, surface);
      break;
    }
    case 3: {  // a cabinet of the electricity works
      const double height = random.uniform(0.4, 0.75);
      scene.add_box(stand.at(0, 0, height), {random.uniform(0.3, 0.7), 0.18, height}, stand.yaw,
                    surface);
      break;
    }
    case 4:  // a cone
      scene.add_frustum(stand.base, 0.16, 0.03, 0.7, surface);
      scene.add_box(stand.at(0, 0, 0.02), {0.2, 0.2, 0.02}, stand.yaw, surface);
      break;
    case 5: {  // a skip or a container
      const double half = random.uniform(0.8, 2.6), height = random.uniform(0.5, 1.2);
      scene.add_box(stand.at(0, 0, height), {half, 0.8, height}, stand.yaw, surface);
      break;
    }
    case 6: {  // boxes, bags
      const int count = 2 + random.integer(4);
      for (int i = 0; i < count; ++i) {
        const double x = random.uniform(-0.6, 0.6), y = random.uniform(-0.4, 0.4),
                     r = random.uniform(0.12, 0.35);
        scene.add_ellipsoid(stand.at(x, y, r * 0.8), {r, r, r}, stand.yaw, surface);
      }
      break;
    }
    default:  // a table with chairs, a planter without its plant
      scene.add_frustum(stand.base, 0.45, 0.55, 0.55, surface);
      scene.add_box(stand.at(0.9, 0, 0.45), {0.22, 0.22, 0.03}, stand.yaw, surface);
      scene.add_box(stand.at(1.12, 0, 0.68), {0.03, 0.22, 0.25}, stand.yaw, surface);
  }
}

void add_shelter(Scene& scene, const Stand& stand, Random& random) {
  Surface frame = stuff(stand, random), glass = frame;
  glass.texture = Texture::mesh;
  glass.density = 0.3f;
  glass.gloss = 0.8f;
  scene.add_box(stand.at(0, 0, 2.4), {2.0, 0.75, 0.06}, stand.yaw, frame);
  scene.add_box(stand.at(0, -0.7, 1.3), {2.0, 0.02, 1.0}, stand.yaw, glass);
  for (const double x : {-2.0, 2.0}) {
    scene.add_capsule(stand.at(x, -0.7, 0), stand.at(x, -0.7, 2.4), 0.05, frame);
    scene.add_box(stand.at(x, 0, 1.3), {0.02, 0.6, 1.0}, stand.yaw, glass);
  }
  scene.add_box(stand.at(0, -0.45, 0.48), {1.2, 0.2, 0.04}, stand.yaw, frame);
}

void add_ego_body(Scene& scene, const Stand& stand, double sensor_height, double clearance,
                  Random& random) {
  const Surface paint{.label = Label::ignore,
                      .instance = 0,
                      .reflectance = static_cast<float>(random.uniform(0.1, 0.6)),
                      .gloss = 0.3f};
  // The roof lies below the sensor; the bonnet and the mirrors stand out in front of it.
  const double below = clearance * random.uniform(0.85, 1.2), roof = sensor_height - below;
  const double front = random.uniform(0.3, 0.75), back = random.uniform(0.4, 1.1),
               half = random.uniform(0.45, 0.62);
  scene.add_box(stand.at((front - back) / 2, 0, roof - 0.1), {(front + back) / 2, half, 0.1},
                stand.yaw, paint);
  scene.add_box(stand.at((front - back) / 2, 0, roof * 0.35),
                {(front + back) / 2 + 0.6, 0.85, roof * 0.3}, stand.yaw, paint);
  scene.add_box(stand.at(front + 0.9, 0, 0.55), {0.6, 0.8, 0.25}, stand.yaw, paint);
  if (random.chance(0.5)) {  // a rack
    for (const double x : {front * 0.7, -back * 0.6}) {
      scene.add_capsule(stand.at(x, -half, roof + 0.08), stand.at(x, half, roof + 0.08), 0.03,
                        paint);
    }
  }
  for (const double y : {-1.0, 1.0})
    scene.add_ellipsoid(stand.at(front + 0.3, y * 0.98, 1.05), {0.08, 0.12, 0.09}, stand.yaw,
                        paint);
}

}  // namespace io::simulator
