#include "io/simulator/intersect.hpp"

#include <algorithm>
#include <limits>

namespace io::simulator {
namespace {

constexpr double kFar = 1e30;

struct Slab {
  double enter = -kFar, exit = kFar;
  int axis = 0;
  bool empty() const { return enter > exit; }
};

// The stretch of origin + t * direction inside [-half, half] on every axis.
Slab cross_slabs(Vec3 origin, Vec3 direction, Vec3 half) {
  Slab slab;
  for (int axis = 0; axis < 3; ++axis) {
    const double o = origin[axis], d = direction[axis], h = half[axis];
    if (d == 0) {
      if (o < -h || o > h) return {1, 0, 0};
      continue;
    }
    const double t0 = (-h - o) / d, t1 = (h - o) / d;
    const double near = std::min(t0, t1), far = std::max(t0, t1);
    if (near > slab.enter) {
      slab.enter = near;
      slab.axis = axis;
    }
    slab.exit = std::min(slab.exit, far);
  }
  return slab;
}

std::optional<Crossing> cross_box(const Primitive& p, const Ray& ray) {
  const Yaw yaw{p.data[2].x, p.data[2].y};
  const Vec3 direction = yaw.inverse(ray.direction);
  const Slab slab = cross_slabs(yaw.inverse(ray.origin - p.data[0]), direction, p.data[1]);
  if (slab.empty() || slab.exit <= 0) return std::nullopt;
  Vec3 normal;
  const double side = direction[slab.axis] > 0 ? -1.0 : 1.0;
  (slab.axis == 0 ? normal.x : slab.axis == 1 ? normal.y : normal.z) = side;
  return Crossing{slab.enter, slab.exit, yaw(normal)};
}

// Roots of a t^2 + 2 b t + c.
std::optional<std::array<double, 2>> roots(double a, double b, double c) {
  const double discriminant = b * b - a * c;
  if (discriminant < 0 || a == 0) return std::nullopt;
  const double root = std::sqrt(discriminant);
  const double first = (-b - root) / a, second = (-b + root) / a;
  return std::array<double, 2>{std::min(first, second), std::max(first, second)};
}

std::optional<Crossing> cross_ellipsoid(const Primitive& p, const Ray& ray) {
  const Yaw yaw{p.data[2].x, p.data[2].y};
  const Vec3 half = p.data[1];
  const Vec3 inverse{1 / half.x, 1 / half.y, 1 / half.z};
  const auto scaled = [&](Vec3 v) {
    return Vec3{v.x * inverse.x, v.y * inverse.y, v.z * inverse.z};
  };
  const Vec3 o = scaled(yaw.inverse(ray.origin - p.data[0])),
             d = scaled(yaw.inverse(ray.direction));
  const auto t = roots(dot(d, d), dot(o, d), dot(o, o) - 1);
  if (!t || (*t)[1] <= 0) return std::nullopt;
  const Vec3 local = scaled(o + d * (*t)[0]);
  return Crossing{(*t)[0], (*t)[1], yaw(normalised(local))};
}

std::optional<Crossing> cross_capsule(const Primitive& p, const Ray& ray) {
  const Vec3 a = p.data[0], axis = p.data[1] - a;
  const double radius = p.data[2].x, span = dot(axis, axis);
  const Vec3 o = ray.origin - a;
  const double along_d = dot(axis, ray.direction), along_o = dot(axis, o);
  // Infinite cylinder first; its hit counts where it lies between the ends, else the cap of that
  // end decides.
  const double qa = span - along_d * along_d;
  const double qb = span * dot(o, ray.direction) - along_o * along_d;
  const double qc = span * dot(o, o) - along_o * along_o - radius * radius * span;
  double along = along_o;
  if (qa > 1e-12 * span) {
    const auto t = roots(qa, qb, qc);
    if (!t) return std::nullopt;
    along = along_o + (*t)[0] * along_d;
    if (along > 0 && along < span) {
      if ((*t)[0] <= 0) return std::nullopt;
      const Vec3 normal = (o + ray.direction * (*t)[0] - axis * (along / span)) * (1 / radius);
      return Crossing{(*t)[0], (*t)[1], normal};
    }
  }
  const Vec3 centre = along <= 0 ? Vec3{} : axis;
  const Vec3 oc = o - centre;
  const auto t = roots(1, dot(oc, ray.direction), dot(oc, oc) - radius * radius);
  if (!t || (*t)[0] <= 0) return std::nullopt;
  return Crossing{(*t)[0], (*t)[1], (oc + ray.direction * (*t)[0]) * (1 / radius)};
}

std::optional<Crossing> cross_frustum(const Primitive& p, const Ray& ray) {
  const double low = p.data[1].x, high = p.data[1].y, height = p.data[1].z;
  const Vec3 o = ray.origin - p.data[0], d = ray.direction;
  double enter = -kFar, exit = kFar;  // between the two lids
  if (d.z != 0) {
    const double t0 = -o.z / d.z, t1 = (height - o.z) / d.z;
    enter = std::min(t0, t1);
    exit = std::max(t0, t1);
  } else if (o.z < 0 || o.z > height) {
    return std::nullopt;
  }
  // Inside the cone: distance from the axis below the radius at that height, a quadratic in t.
  const double slope = (high - low) / height;
  const double at_origin = low + slope * o.z, per_t = slope * d.z;
  const double a = d.x * d.x + d.y * d.y - per_t * per_t;
  const double b = o.x * d.x + o.y * d.y - at_origin * per_t;
  const double c = o.x * o.x + o.y * o.y - at_origin * at_origin;
  const auto t = roots(a, b, c);
  bool through_side = false;
  if (a > 0) {
    if (!t) return std::nullopt;
    through_side = (*t)[0] > enter;
    enter = std::max(enter, (*t)[0]);
    exit = std::min(exit, (*t)[1]);
  } else if (t) {
    // Steeper than the slope: inside before the first root or after the second one. The mirrored
    // cone beyond the apex is not between the lids, so one of the two is empty.
    if ((*t)[1] < exit) {
      through_side = (*t)[1] > enter;
      enter = std::max(enter, (*t)[1]);
    } else {
      exit = std::min(exit, (*t)[0]);
    }
  }
  if (enter > exit || exit <= 0) return std::nullopt;
  if (!through_side) return Crossing{enter, exit, {0, 0, d.z > 0 ? -1.0 : 1.0}};
  const Vec3 at = o + d * enter;
  const double radius = std::max(1e-9, at_origin + per_t * enter);
  return Crossing{enter, exit, normalised(Vec3{at.x, at.y, -slope * radius})};
}

std::optional<Crossing> cross_hull(const Primitive& p, std::span<const Plane> planes,
                                   const Ray& ray) {
  Crossing crossing{-kFar, kFar, {}};
  const auto first = static_cast<std::size_t>(p.data[0].x),
             count = static_cast<std::size_t>(p.data[0].y);
  for (const Plane& plane : planes.subspan(first, count)) {
    const double speed = dot(plane.normal, ray.direction);
    const double distance = plane.offset - dot(plane.normal, ray.origin);
    if (speed == 0) {
      if (distance < 0) return std::nullopt;
    } else if (speed < 0) {
      const double t = distance / speed;
      if (t > crossing.enter) {
        crossing.enter = t;
        crossing.normal = plane.normal;
      }
    } else {
      crossing.exit = std::min(crossing.exit, distance / speed);
    }
  }
  if (crossing.enter > crossing.exit || crossing.exit <= 0) return std::nullopt;
  return crossing;
}

std::optional<Crossing> cross_triangle(const Primitive& p, const Ray& ray) {
  const TriangleFromPoint triangle(p, ray.origin);
  const double t = triangle.distance(ray.direction);
  if (t <= 0) return std::nullopt;
  return Crossing{t, t, triangle.normal(ray.direction)};
}

double fraction(double x) { return x - std::floor(x); }

// Clumps of leaves: a share of the cells of two interleaved grids is full.
bool in_clump(Vec3 at, double cell, std::uint64_t salt) {
  const auto cell_of = [&](double shift) {
    const auto index = [&](double v) {
      return static_cast<std::int64_t>(std::floor(v / cell + shift));
    };
    return unit(hash(salt, index(at.x), index(at.y), index(at.z)));
  };
  return cell_of(0) + cell_of(0.5) < 1.05;
}

// Free paths through a medium: stops are drawn for the densest place and kept where there is a
// clump.
std::optional<double> stop_in_foliage(const Primitive& p, const Crossing& crossing, const Ray& ray,
                                      std::uint64_t salt) {
  double t = std::max(crossing.enter, 0.0);
  for (std::uint64_t step = 0; step < 48; ++step) {
    const double u = unit(hash(ray.id, salt, step));
    t -= natural_log(1 - u) / p.surface.density;
    if (t > crossing.exit) return std::nullopt;
    if (in_clump(ray.origin + ray.direction * t, p.surface.scale, p.surface.instance)) return t;
  }
  return std::nullopt;
}

bool boards_stop(const Primitive& p, const Crossing& crossing, const Ray& ray) {
  const Yaw yaw{p.data[2].x, p.data[2].y};
  const Vec3 local = yaw.inverse(ray.origin + ray.direction * crossing.enter - p.data[0]);
  const double along = p.surface.texture == Texture::rails ? local.z : local.x;
  return fraction(along / p.surface.scale + 1e-3) < p.surface.density;
}

}  // namespace

std::optional<Crossing> intersect(const Primitive& primitive, std::span<const Plane> planes,
                                  const Ray& ray) {
  switch (primitive.shape) {
    case Primitive::Shape::triangle:
      return cross_triangle(primitive, ray);
    case Primitive::Shape::box:
      return cross_box(primitive, ray);
    case Primitive::Shape::ellipsoid:
      return cross_ellipsoid(primitive, ray);
    case Primitive::Shape::capsule:
      return cross_capsule(primitive, ray);
    case Primitive::Shape::frustum:
      return cross_frustum(primitive, ray);
    case Primitive::Shape::hull:
      return cross_hull(primitive, planes, ray);
  }
  return std::nullopt;
}

std::optional<double> stop(const Primitive& primitive, const Crossing& crossing, const Ray& ray,
                           std::uint64_t salt) {
  const Surface& surface = primitive.surface;
  if (surface.texture == Texture::foliage) return stop_in_foliage(primitive, crossing, ray, salt);
  if (crossing.enter <= 0) return std::nullopt;  // from inside: the far wall is not modelled
  bool stops = true;
  switch (surface.texture) {
    case Texture::slats:
    case Texture::rails:
      stops = boards_stop(primitive, crossing, ray);
      break;
    case Texture::mesh:
      stops = unit(hash(ray.id, salt)) < surface.density;
      break;
    case Texture::glass:
      stops = crossing.normal.z > 0.6 || unit(hash(ray.id, salt)) < surface.density;
      break;
    default:
      break;
  }
  if (!stops) return std::nullopt;
  return crossing.enter;
}

}  // namespace io::simulator
