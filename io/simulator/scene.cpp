#include "io/simulator/scene.hpp"

#include <algorithm>
#include <limits>

#include "io/simulator/intersect.hpp"

namespace io::simulator {
namespace {

Box3 joined(const Box3& a, const Box3& b) {
  return {
      {std::min(a.low.x, b.low.x), std::min(a.low.y, b.low.y), std::min(a.low.z, b.low.z)},
      {std::max(a.high.x, b.high.x), std::max(a.high.y, b.high.y), std::max(a.high.z, b.high.z)}};
}

Box3 around(Vec3 centre, Vec3 half) { return {centre - half, centre + half}; }

// Half sizes of the axis-aligned box around a box turned by `yaw`.
Vec3 turned(Vec3 half, Yaw yaw) {
  const double c = std::abs(yaw.c), s = std::abs(yaw.s);
  return {c * half.x + s * half.y, s * half.x + c * half.y, half.z};
}

constexpr Box3 kNothing{{1e30, 1e30, 1e30}, {-1e30, -1e30, -1e30}};

double half_area(const Box3& box) {
  const Vec3 d = box.high - box.low;
  return d.x * d.y + d.y * d.z + d.z * d.x;
}

// Bounds are kept in float: widened by more than what the conversion loses at 100 km from the
// origin.
float widened_low(double v) { return static_cast<float>(v - 1e-3 - 1e-6 * std::abs(v)); }
float widened_high(double v) { return static_cast<float>(v + 1e-3 + 1e-6 * std::abs(v)); }

}  // namespace

struct Scene::Item {
  Box3 bounds;
  Vec3 centre;
  std::uint32_t index = 0;
};

void Scene::add(Primitive primitive, const Box3& bounds) {
  primitives_.push_back(primitive);
  bounds_.push_back(bounds);
}

void Scene::add_triangle(Vec3 a, Vec3 b, Vec3 c, const Surface& surface) {
  const Box3 bounds = joined(joined({a, a}, {b, b}), {c, c});
  add({Primitive::Shape::triangle, surface, {a, b - a, c - a}}, bounds);
}

void Scene::add_quad(Vec3 a, Vec3 b, Vec3 c, Vec3 d, const Surface& surface) {
  add_triangle(a, b, c, surface);
  add_triangle(a, c, d, surface);
}

void Scene::add_box(Vec3 centre, Vec3 half, Yaw yaw, const Surface& surface) {
  add({Primitive::Shape::box, surface, {centre, half, Vec3{yaw.c, yaw.s, 0}}},
      around(centre, turned(half, yaw)));
}

void Scene::add_ellipsoid(Vec3 centre, Vec3 half, Yaw yaw, const Surface& surface) {
  add({Primitive::Shape::ellipsoid, surface, {centre, half, Vec3{yaw.c, yaw.s, 0}}},
      around(centre, turned(half, yaw)));
}

void Scene::add_capsule(Vec3 a, Vec3 b, double radius, const Surface& surface) {
  const Vec3 r{radius, radius, radius};
  add({Primitive::Shape::capsule, surface, {a, b, Vec3{radius, 0, 0}}},
      joined(around(a, r), around(b, r)));
}

void Scene::add_frustum(Vec3 base, double radius_low, double radius_high, double height,
                        const Surface& surface) {
  const double r = std::max(radius_low, radius_high);
  add({Primitive::Shape::frustum, surface, {base, Vec3{radius_low, radius_high, height}, Vec3{}}},
      {base - Vec3{r, r, 0}, base + Vec3{r, r, height}});
}

void Scene::add_hull(Vec3 origin, Yaw yaw, std::span<const Plane> planes, const Box3& bounds,
                     const Surface& surface) {
  const auto first = static_cast<double>(planes_.size());
  for (const Plane& plane : planes) {
    const Vec3 normal = yaw(plane.normal);
    planes_.push_back({normal, plane.offset + dot(normal, origin)});
  }
  const Vec3 centre = origin + yaw((bounds.low + bounds.high) * 0.5);
  add({Primitive::Shape::hull,
       surface,
       {Vec3{first, static_cast<double>(planes.size()), 0}, Vec3{}, Vec3{}}},
      around(centre, turned((bounds.high - bounds.low) * 0.5, yaw)));
}

void Scene::build() {
  std::vector<Item> items(primitives_.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Box3& box = bounds_[i];
    items[i] = {box, (box.low + box.high) * 0.5, static_cast<std::uint32_t>(i)};
  }
  nodes_.clear();
  if (items.empty()) return;
  nodes_.reserve(items.size());
  split(items, 0);
  std::vector<Primitive> ordered;
  ordered.reserve(items.size());
  for (const Item& item : items) ordered.push_back(primitives_[item.index]);
  primitives_ = std::move(ordered);
  bounds_.clear();
}

// Equal bins along one axis of the centres, and between which of them a cut is cheapest by the
// surface area heuristic.
class Scene::Bins {
 public:
  static constexpr std::size_t kCount = 16;
  Bins(std::span<const Item> items, const Box3& centres, int axis)
      : axis_(axis), low_(centres.low[axis]), extent_(centres.high[axis] - centres.low[axis]) {
    boxes_.fill(kNothing);
    for (const Item& item : items) {
      const std::size_t bin = bin_of(item);
      boxes_[bin] = joined(boxes_[bin], item.bounds);
      ++counts_[bin];
    }
  }

  std::size_t bin_of(const Item& item) const {
    const double place = (item.centre[axis_] - low_) / extent_;
    return std::min(kCount - 1, static_cast<std::size_t>(place * kCount));
  }

  // The first and the last bin are never empty, so each side of the cut has items.
  std::size_t cheapest_cut() const {
    std::array<double, kCount> cost{};  // of a cut below bin i: area times number, on both sides
    Box3 box = kNothing;
    std::size_t count = 0;
    for (std::size_t i = 0; i + 1 < kCount; ++i) {
      box = joined(box, boxes_[i]);
      count += counts_[i];
      cost[i + 1] = half_area(box) * static_cast<double>(count);
    }
    box = kNothing;
    count = 0;
    std::size_t cut = 0;
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t i = kCount - 1; i > 0; --i) {
      box = joined(box, boxes_[i]);
      count += counts_[i];
      cost[i] += half_area(box) * static_cast<double>(count);
      if (cost[i] >= best) continue;
      best = cost[i];
      cut = i;
    }
    return cut;
  }

 private:
  int axis_;
  double low_, extent_;
  std::array<Box3, kCount> boxes_;
  std::array<std::size_t, kCount> counts_{};
};

void Scene::split(std::span<Item> items, std::uint32_t first) {
  constexpr std::size_t kLeaf = 3;
  Box3 bounds = kNothing, centres = kNothing;
  for (const Item& item : items) {
    bounds = joined(bounds, item.bounds);
    centres = joined(centres, {item.centre, item.centre});
  }
  const std::size_t self = nodes_.size();
  nodes_.emplace_back();
  for (std::size_t axis = 0; axis < 3; ++axis) {
    nodes_[self].low[axis] = widened_low(bounds.low[static_cast<int>(axis)]);
    nodes_[self].high[axis] = widened_high(bounds.high[static_cast<int>(axis)]);
  }
  const Vec3 extent = centres.high - centres.low;
  const int axis = extent.x >= extent.y && extent.x >= extent.z ? 0 : extent.y >= extent.z ? 1 : 2;
  if (items.size() <= kLeaf || extent[axis] <= 0) {
    nodes_[self].second = first;
    nodes_[self].count = static_cast<std::uint16_t>(items.size());
    return;
  }
  const Bins bins(items, centres, axis);
  const std::size_t cut = bins.cheapest_cut();
  const auto middle = std::stable_partition(
      items.begin(), items.end(), [&](const Item& item) { return bins.bin_of(item) < cut; });
  const auto left = static_cast<std::size_t>(middle - items.begin());
  nodes_[self].axis = static_cast<std::uint16_t>(axis);
  split(items.first(left), first);
  nodes_[self].second = static_cast<std::uint32_t>(nodes_.size());
  split(items.subspan(left), first + static_cast<std::uint32_t>(left));
}

void Scene::visit_leaf(const Node& node, const Ray& ray, Hit& best) const {
  for (std::uint32_t i = node.second; i < node.second + node.count; ++i) {
    const Primitive& primitive = primitives_[i];
    const auto crossing = intersect(primitive, planes_, ray);
    if (!crossing || crossing->enter >= best.distance) continue;
    const auto distance = stop(primitive, *crossing, ray, i);
    if (!distance || *distance >= best.distance) continue;
    best = {*distance, crossing->normal, &primitive};
  }
}

std::optional<Hit> Scene::cast(const Ray& ray) const {
  if (nodes_.empty()) return std::nullopt;
  std::array<float, 3> origin{}, inverse{};
  for (int axis = 0; axis < 3; ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    // A direction of exactly zero becomes a tiny one: no 0 * infinity below.
    const double d = ray.direction[axis];
    origin[at] = static_cast<float>(ray.origin[axis]);
    inverse[at] = static_cast<float>(1 / (std::abs(d) < 1e-12 ? 1e-12 : d));
  }
  Hit best{ray.reach, {}, nullptr};
  const auto meets = [&](const Node& node) {
    float enter = 0, exit = static_cast<float>(best.distance) + 1e-3f;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const float t0 = (node.low[axis] - origin[axis]) * inverse[axis];
      const float t1 = (node.high[axis] - origin[axis]) * inverse[axis];
      enter = std::max(enter, std::min(t0, t1));
      exit = std::min(exit, std::max(t0, t1));
    }
    return enter <= exit * 1.00001f;
  };
  std::array<std::uint32_t, 96> stack;
  std::size_t depth = 0;
  std::uint32_t at = 0;
  while (true) {
    const Node& node = nodes_[at];
    bool descend = false;
    if (meets(node)) {
      if (node.count > 0) {
        visit_leaf(node, ray, best);
      } else {
        const bool backwards = inverse[node.axis] < 0;
        stack[depth++] = backwards ? at + 1 : node.second;
        at = backwards ? node.second : at + 1;
        descend = true;
      }
    }
    if (descend) continue;
    if (depth == 0) break;
    at = stack[--depth];
  }
  if (best.primitive == nullptr) return std::nullopt;
  if (dot(best.normal, ray.direction) > 0) best.normal = best.normal * -1;
  return best;
}

}  // namespace io::simulator
