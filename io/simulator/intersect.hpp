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

// A triangle seen from one point: what its crossings with rays from there share.
class TriangleFromPoint {
 public:
  TriangleFromPoint(const Primitive& triangle, Vec3 origin)
      : u_(triangle.data[1]),
        v_(triangle.data[2]),
        from_(origin - triangle.data[0]),
        across_(cross(from_, u_)),
        height_(dot(v_, across_)) {}

  // How far away the ray meets it; 0 or less: not at all.
  double distance(Vec3 direction) const {
    const Vec3 aside = cross(direction, v_);
    const double determinant = dot(u_, aside), size = std::abs(determinant);
    // What is clearly outside costs no division.
    const double along = dot(from_, aside);
    if (is_outside(along, determinant, size)) return 0;
    const double beside = dot(direction, across_);
    if (is_outside(beside, determinant, size) || determinant == 0) return 0;
    const double a = along / determinant, b = beside / determinant;
    if (a < -kSlack || a > 1 + kSlack || b < -kSlack || a + b > 1 + kSlack) return 0;
    return height_ / determinant;
  }
  Vec3 normal(Vec3 direction) const {  // faces the ray
    const Vec3 normal = normalised(cross(u_, v_));
    return dot(normal, direction) > 0 ? normal * -1 : normal;
  }

 private:
  // A hair of overlap, so that no beam slips between neighbours.
  static constexpr double kSlack = 1e-9;
  static bool is_outside(double part, double determinant, double size) {
    return std::abs(part) > size * (1 + 2 * kSlack) ||
           (part * determinant < 0 && std::abs(part) > size * (2 * kSlack));
  }
  Vec3 u_, v_, from_, across_;
  double height_;
};

// Where on that stretch the surface's texture stops the beam, if it does. `salt` tells primitives
// apart.
std::optional<double> stop(const Primitive& primitive, const Crossing& crossing, const Ray& ray,
                           std::uint64_t salt);

}  // namespace io::simulator
