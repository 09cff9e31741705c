#include <algorithm>
#include <array>

#include "io/simulator/objects.hpp"

namespace io::simulator {
namespace {

Surface wall(const Stand& stand, Random& random) {
  const double reflectance = random.uniform(0.25, 0.65);
  return {.label = Label::building,
          .texture = Texture::facade,
          .instance = stand.instance,
          .reflectance = static_cast<float>(reflectance),
          .roughness = static_cast<float>(random.uniform(0.003, 0.03)),
          .scale = static_cast<float>(random.uniform(1.8, 3.8))};
}

Surface plain(Surface surface) {
  surface.texture = Texture::solid;
  return surface;
}

void add_front_details(Scene& scene, const Stand& stand, const BuildingSize& size,
                       const Surface& surface, Random& random) {
  const Surface solid = plain(surface);
  const double door = random.uniform(-0.35, 0.35) * size.width;
  scene.add_box(stand.at(door, -0.5, 0.1), {0.8, 0.5, 0.25}, stand.yaw, solid);  // steps
  if (random.chance(0.6))
    scene.add_box(stand.at(door, -0.45, 2.45), {0.9, 0.55, 0.07}, stand.yaw, solid);  // a canopy
  for (const double end : {-1.0, 1.0}) {                                              // rain pipes
    if (random.chance(0.5)) {
      scene.add_capsule(stand.at(end * (size.width / 2 - 0.2), -0.07, 0),
                        stand.at(end * (size.width / 2 - 0.2), -0.07, size.height), 0.05, solid);
    }
  }
  if (random.chance(0.35)) {  // a bay
    const double x = random.uniform(-0.3, 0.3) * size.width, depth = random.uniform(0.4, 1.2);
    scene.add_box(stand.at(x, -depth / 2, size.height * 0.4),
                  {random.uniform(0.9, 2.0), depth / 2, size.height * 0.4}, stand.yaw, surface);
  }
}

}  // namespace

void add_house(Scene& scene, const Stand& stand, const BuildingSize& size, Random& random) {
  const Surface surface = wall(stand, random);
  const double half = size.width / 2, h = size.height;
  scene.add_box(stand.at(0, size.depth / 2, h / 2 - 0.5), {half, size.depth / 2, h / 2 + 0.5},
                stand.yaw, surface);
  Surface tiles = plain(surface);
  tiles.reflectance = static_cast<float>(random.uniform(0.15, 0.45));
  tiles.roughness = 0.03f;
  const double eaves = 0.4, rise = random.uniform(0.3, 0.7);
  if (random.chance(0.6)) {  // ridge along the street
    const double top = h + rise * size.depth / 2, low = h - rise * eaves;
    const std::array<Vec3, 6> v = {stand.at(-half - eaves, -eaves, low),
                                   stand.at(half + eaves, -eaves, low),
                                   stand.at(half + eaves, size.depth / 2, top),
                                   stand.at(-half - eaves, size.depth / 2, top),
                                   stand.at(half + eaves, size.depth + eaves, low),
                                   stand.at(-half - eaves, size.depth + eaves, low)};
    scene.add_quad(v[0], v[1], v[2], v[3], tiles);
    scene.add_quad(v[3], v[2], v[4], v[5], tiles);
    for (const double end : {-1.0, 1.0}) {
      scene.add_triangle(stand.at(end * half, 0, h), stand.at(end * half, size.depth, h),
                         stand.at(end * half, size.depth / 2, top), plain(surface));
    }
    if (random.chance(0.4))
      scene.add_box(stand.at(random.uniform(-0.3, 0.3) * size.width, size.depth * 0.22, h + 0.5),
                    {0.9, 1.0, 0.9}, stand.yaw, plain(surface));
  } else {  // gable to the street
    const double top = h + rise * half, low = h - rise * eaves;
    for (const double end : {-1.0, 1.0}) {
      scene.add_quad(stand.at(end * (half + eaves), -eaves, low), stand.at(0, -eaves, top),
                     stand.at(0, size.depth + eaves, top),
                     stand.at(end * (half + eaves), size.depth + eaves, low), tiles);
    }
    scene.add_triangle(stand.at(-half, 0, h), stand.at(half, 0, h), stand.at(0, 0, top),
                       plain(surface));
  }
  scene.add_box(stand.at(half * 0.4, size.depth * 0.55, h + rise * 2.5), {0.3, 0.3, 1.2}, stand.yaw,
                plain(surface));  // a chimney
  add_front_details(scene, stand, size, surface, random);
}

void add_block(Scene& scene, const Stand& stand, const BuildingSize& size, Random& random) {
  const Surface surface = wall(stand, random);
  const Surface solid = plain(surface);
  const double half = size.width / 2, h = size.height;
  scene.add_box(stand.at(0, size.depth / 2, h / 2 - 0.5), {half, size.depth / 2, h / 2 + 0.5},
                stand.yaw, surface);
  scene.add_box(stand.at(0, -0.05, h - 0.2), {half, 0.25, 0.2}, stand.yaw, solid);  // a cornice
  if (random.chance(0.5))
    scene.add_box(stand.at(0, -0.04, 3.4), {half, 0.14, 0.12}, stand.yaw, solid);
  if (random.chance(0.5)) {  // a plinth
    scene.add_box(stand.at(0, 0, 0.3), {half, 0.06, 0.5}, stand.yaw, solid);
  }
  if (random.chance(0.4)) {  // balconies
    const double column = random.uniform(3, 5), depth = random.uniform(0.9, 1.6);
    for (double z = 3.1; z < h - 2; z += 2.9) {
      for (double x = -half + column / 2; x < half - 1; x += column) {
        scene.add_box(stand.at(x, -depth / 2, z), {1.1, depth / 2, 0.09}, stand.yaw, solid);
        Surface railing = solid;
        railing.texture = Texture::slats;
        railing.density = 0.45f;
        railing.scale = 0.13f;
        scene.add_box(stand.at(x, -depth, z + 0.55), {1.1, 0.025, 0.5}, stand.yaw, railing);
      }
    }
  }
  if (random.chance(0.4)) {  // shop awnings
    for (double x = -half + 2; x < half - 2; x += 4.5) {
      if (random.chance(0.6))
        scene.add_quad(stand.at(x - 1.7, 0, 3.1), stand.at(x + 1.7, 0, 3.1),
                       stand.at(x + 1.7, -1.3, 2.5), stand.at(x - 1.7, -1.3, 2.5), solid);
    }
  }
  add_front_details(scene, stand, size, surface, random);
}

void add_shed(Scene& scene, const Stand& stand, Random& random) {
  const Surface surface = plain(wall(stand, random));
  const double width = random.uniform(1.5, 3.2), depth = random.uniform(1.5, 5.5),
               height = random.uniform(1.9, 2.7);
  scene.add_box(stand.at(0, depth / 2, height / 2), {width, depth / 2, height / 2}, stand.yaw,
                surface);
  scene.add_box(stand.at(0, depth / 2, height), {width + 0.15, depth / 2 + 0.15, 0.08}, stand.yaw,
                surface);
}

void add_garage(Scene& scene, const Stand& stand, Random& random) {
  const Surface surface = plain(wall(stand, random));
  const double half = random.uniform(1.5, 3.2), depth = random.uniform(5, 7),
               height = random.uniform(2.2, 2.9);
  scene.add_box(stand.at(0, depth / 2, height / 2), {half, depth / 2, height / 2}, stand.yaw,
                surface);
  scene.add_box(stand.at(0, depth / 2 - 0.1, height), {half + 0.1, depth / 2 + 0.15, 0.12},
                stand.yaw, surface);
  Surface door = surface;
  door.reflectance = static_cast<float>(random.uniform(0.3, 0.7));
  scene.add_box(stand.at(0, 0.04, height / 2 - 0.1), {half * 0.8, 0.07, height / 2 - 0.25},
                stand.yaw, door);
}

void add_fence(Scene& scene, const Stand& stand, double span, FenceKind kind, Random& random) {
  Surface surface{.label = Label::fence,
                  .instance = stand.instance,
                  .reflectance = static_cast<float>(random.uniform(0.2, 0.6)),
                  .roughness = 0.008f};
  const double half = span / 2;
  double height = random.uniform(0.9, 1.7), thick = 0.015;
  switch (kind) {
    case FenceKind::boards:
      surface.texture = Texture::slats;
      surface.scale = static_cast<float>(random.uniform(0.1, 0.18));
      surface.density = static_cast<float>(random.uniform(0.6, 0.95));
      break;
    case FenceKind::rails:
      surface.texture = Texture::rails;
      surface.scale = static_cast<float>(random.uniform(0.25, 0.45));
      surface.density = static_cast<float>(random.uniform(0.3, 0.5));
      break;
    case FenceKind::wire:
      surface.texture = Texture::mesh;
      surface.density = static_cast<float>(random.uniform(0.12, 0.4));
      height = random.uniform(1.0, 2.4);
      break;
    case FenceKind::bars:
      surface.texture = Texture::slats;
      surface.scale = static_cast<float>(random.uniform(0.11, 0.16));
      surface.density = 0.2f;
      surface.gloss = 0.2f;
      break;
    case FenceKind::wall:
      height = random.chance(0.25) ? random.uniform(1.7, 2.8) : random.uniform(0.4, 1.7);
      thick = random.uniform(0.08, 0.2);
      surface.roughness = 0.02f;
      break;
  }
  scene.add_box(stand.at(0, 0, height / 2 + 0.03), {half, thick, height / 2}, stand.yaw, surface);
  if (kind == FenceKind::wall) return;
  Surface post = surface;
  post.texture = Texture::solid;
  const double spacing = random.uniform(1.8, 3.0);
  for (double x = -half; x <= half; x += spacing) {
    scene.add_capsule(stand.at(x, 0.03, 0), stand.at(x, 0.03, height + 0.05), 0.04, post);
  }
  if (kind == FenceKind::boards || kind == FenceKind::bars) {
    for (const double z : {0.25, 0.85})
      scene.add_box(stand.at(0, 0.03, height * z), {half, 0.02, 0.04}, stand.yaw, post);
  }
}

// A band of steel on posts, on one side or both.
void add_guard_rail(Scene& scene, const Stand& stand, double span, Random& random) {
  const Surface steel{.label = Label::fence,
                      .instance = stand.instance,
                      .reflectance = static_cast<float>(random.uniform(0.3, 0.6)),
                      .gloss = 0.3f,
                      .roughness = 0.015f};
  const double height = random.uniform(0.62, 0.85), half = span / 2;
  const bool is_double = random.chance(0.5);
  for (const double side : {-1.0, 1.0}) {
    if (side > 0 && !is_double) break;
    scene.add_box(stand.at(0, 0.12 * side, height - 0.16), {half, 0.03, 0.16}, stand.yaw, steel);
  }
  for (double x = -half; x <= half; x += 2)
    scene.add_box(stand.at(x, 0, height / 2 - 0.05), {0.04, 0.06, height / 2}, stand.yaw, steel);
}

}  // namespace io::simulator
