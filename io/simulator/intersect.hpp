// Where a ray meets one primitive.
#pragma once
#include <optional>
#include <span>

#include "io/simulator/scene.hpp"

namespace io::simulator {

// The stretch of a ray inside a primitive (enter == exit for a triangle); the normal is that of the
// entry.
struct Crossing {
  double enter = 0, exit = 0;
  Vec3 normal;
};
std::optional<Crossing> intersect(const Primitive& primitive, std::span<const Plane> planes,
                                  const Ray& ray);

// Where on that stretch the surface's texture stops the beam, if it does. `salt` tells primitives
// apart.
std::optional<double> stop(const Primitive& primitive, const Crossing& crossing, const Ray& ray,
                           std::uint64_t salt);

}  // namespace io::simulator
