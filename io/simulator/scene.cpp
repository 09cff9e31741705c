#include "io/simulator/scene.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

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

// Cuts sets of primitives in two until few are left, by the surface area heuristic over equal bins
// along one axis of the centres.
class Scene::Builder {
 public:
  Builder(const std::vector<Box3>& bounds, std::vector<Node>& nodes)
      : bounds_(bounds),
        nodes_(nodes),
        order_(bounds.size()),
        aside_(bounds.size()),
        bins_(bounds.size()) {
    std::iota(order_.begin(), order_.end(), 0u);
    for (const Box3& box : bounds) centres_.push_back((box.low + box.high) * 0.5);
  }

  // Adds the nodes; returns the primitives in the order of the leaves.
  std::span<const std::uint32_t> run() {
    Box3 all = kNothing;
    for (const Box3& box : bounds_) all = joined(all, box);
    split(0, order_.size(), all);
    return order_;
  }

 private:
  static constexpr std::size_t kBins = 16, kLeaf = 3;
  struct Cut {
    std::size_t bin = 0;  // the first of the right side
    Box3 left = kNothing, right = kNothing;
  };

  void split(std::size_t first, std::size_t last, const Box3& bounds) {
    Box3 centres = kNothing;
    for (std::size_t i = first; i < last; ++i) {
      const Vec3 centre = centres_[order_[i]];
      centres = joined(centres, {centre, centre});
    }
    const std::size_t self = nodes_.size();
    Node& node = nodes_.emplace_back();
    for (std::size_t axis = 0; axis < 3; ++axis) {
      node.low[axis] = widened_low(bounds.low[static_cast<int>(axis)]);
      node.high[axis] = widened_high(bounds.high[static_cast<int>(axis)]);
    }
    const Vec3 extent = centres.high - centres.low;
    const int axis = extent.x >= extent.y && extent.x >= extent.z ? 0
                     : extent.y >= extent.z                       ? 1
                                                                  : 2;
    if (last - first <= kLeaf || extent[axis] <= 0) {
      node.second = static_cast<std::uint32_t>(first);
      node.count = static_cast<std::uint16_t>(last - first);
      return;
    }
    node.axis = static_cast<std::uint16_t>(axis);
    const Cut cut = cheapest_cut(first, last, axis, centres.low[axis], extent[axis]);
    const std::size_t middle = partition(first, last, cut.bin);
    split(first, middle, cut.left);
    nodes_[self].second = static_cast<std::uint32_t>(nodes_.size());
    split(middle, last, cut.right);
  }

  // The first and the last bin are never empty, so each side of the cut has primitives.
  Cut cheapest_cut(std::size_t first, std::size_t last, int axis, double low, double extent) {
    std::array<Box3, kBins> boxes;
    std::array<std::size_t, kBins> counts{};
    boxes.fill(kNothing);
    for (std::size_t i = first; i < last; ++i) {
      const double place = (centres_[order_[i]][axis] - low) / extent;
      const std::size_t bin = std::min(kBins - 1, static_cast<std::size_t>(place * kBins));
      bins_[i] = static_cast<std::uint8_t>(bin);
      boxes[bin] = joined(boxes[bin], bounds_[order_[i]]);
      ++counts[bin];
    }
    std::array<double, kBins> cost{};  // of a cut below bin i: area times number, on both sides
    std::array<Box3, kBins> below;
    Box3 box = kNothing;
    std::size_t count = 0;
    for (std::size_t i = 0; i + 1 < kBins; ++i) {
      box = joined(box, boxes[i]);
      count += counts[i];
      below[i + 1] = box;
      cost[i + 1] = half_area(box) * static_cast<double>(count);
    }
    box = kNothing;
    count = 0;
    Cut cut;
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t i = kBins - 1; i > 0; --i) {
      box = joined(box, boxes[i]);
      count += counts[i];
      cost[i] += half_area(box) * static_cast<double>(count);
      if (cost[i] >= best) continue;
      best = cost[i];
      cut = {i, below[i], box};
    }
    return cut;
  }

  // Both sides keep their order.
  std::size_t partition(std::size_t first, std::size_t last, std::size_t bin) {
    std::size_t left = first, right = 0;
    for (std::size_t i = first; i < last; ++i) {
      const std::uint32_t item = order_[i];
      order_[left] = item;
      aside_[right] = item;
      const bool is_left = bins_[i] < bin;
      left += is_left ? 1 : 0;
      right += is_left ? 0 : 1;
    }
    std::copy_n(aside_.begin(), right, order_.begin() + static_cast<std::ptrdiff_t>(left));
    return left;
  }

  const std::vector<Box3>& bounds_;
  std::vector<Node>& nodes_;
  std::vector<Vec3> centres_;
  std::vector<std::uint32_t> order_, aside_;
  std::vector<std::uint8_t> bins_;  // of a place in order_
};

void Scene::build() {
  nodes_.clear();
  if (primitives_.empty()) return;
  nodes_.reserve(primitives_.size());
  Builder builder(bounds_, nodes_);
  std::vector<Primitive> ordered;
  ordered.reserve(primitives_.size());
  for (const std::uint32_t index : builder.run()) ordered.push_back(primitives_[index]);
  primitives_ = std::move(ordered);
  bounds_.clear();
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

namespace {

// A direction of exactly zero becomes a tiny one: no 0 * infinity below.
float inverse_of(double d) { return static_cast<float>(1 / (std::abs(d) < 1e-12 ? 1e-12 : d)); }

// Walks down a hierarchy, the nearer child first. `meets(node)` says whether to look into a node,
// `visit(node)` looks into a leaf, `backwards[axis]` whether rays go against that axis.
template <class Node, class Meets, class Visit>
void walk(const std::vector<Node>& nodes, const std::array<bool, 3>& backwards, const Meets& meets,
          const Visit& visit) {
  std::array<std::uint32_t, 96> stack;
  std::size_t depth = 0;
  std::uint32_t at = 0;
  while (true) {
    const Node& node = nodes[at];
    const bool is_met = meets(node);
    if (is_met && node.count == 0) {
      stack[depth++] = backwards[node.axis] ? at + 1 : node.second;
      at = backwards[node.axis] ? node.second : at + 1;
      continue;
    }
    if (is_met) visit(node);
    if (depth == 0) return;
    at = stack[--depth];
  }
}

}  // namespace

std::optional<Hit> Scene::cast(const Ray& ray) const {
  if (nodes_.empty()) return std::nullopt;
  std::array<float, 3> origin{}, inverse{};
  std::array<bool, 3> backwards{};
  for (int axis = 0; axis < 3; ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    origin[at] = static_cast<float>(ray.origin[axis]);
    inverse[at] = inverse_of(ray.direction[axis]);
    backwards[at] = inverse[at] < 0;
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
  walk(nodes_, backwards, meets, [&](const Node& node) { visit_leaf(node, ray, best); });
  if (best.primitive == nullptr) return std::nullopt;
  if (dot(best.normal, ray.direction) > 0) best.normal = best.normal * -1;
  return best;
}

// Rays that go the same way along each axis visit what each of them visits alone, in that order, so
// that each finds what it finds alone.
class Scene::Packet {
 public:
  Packet(std::span<const Ray> rays, std::span<Hit> hits) : rays_(rays), hits_(hits) {
    limit_.fill(-1);  // lanes without a ray meet nothing
    for (int axis = 0; axis < 3; ++axis) {
      const auto at = static_cast<std::size_t>(axis);
      origin_[at] = static_cast<float>(rays[0].origin[axis]);
      inverse_[at].fill(0);
      backwards_[at] = inverse_of(rays[0].direction[axis]) < 0;
      for (std::size_t i = 0; i < rays.size(); ++i) {
        inverse_[at][i] = inverse_of(rays[i].direction[axis]);
        is_one_way_ = is_one_way_ && (inverse_[at][i] < 0) == backwards_[at];
      }
    }
    for (std::size_t i = 0; i < rays.size(); ++i) improve(i, {rays[i].reach, {}, nullptr});
  }

  bool is_one_way() const { return is_one_way_; }
  const std::array<bool, 3>& backwards() const { return backwards_; }
  std::size_t size() const { return rays_.size(); }
  const Ray& ray(std::size_t i) const { return rays_[i]; }
  const Hit& best(std::size_t i) const { return hits_[i]; }
  void improve(std::size_t i, const Hit& hit) {
    hits_[i] = hit;
    limit_[i] = static_cast<float>(hit.distance) + 1e-3f;
  }

  // Which rays meet the box, each by the arithmetic of a ray alone.
  bool meets(const Node& node) {
    std::array<float, 3> near{}, far{};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const float low = node.low[axis] - origin_[axis], high = node.high[axis] - origin_[axis];
      near[axis] = backwards_[axis] ? high : low;
      far[axis] = backwards_[axis] ? low : high;
    }
    int any = 0;
    for (std::size_t i = 0; i < kLanes; ++i) {
      const float x = near[0] * inverse_[0][i], y = near[1] * inverse_[1][i],
                  z = near[2] * inverse_[2][i];
      const float u = far[0] * inverse_[0][i], v = far[1] * inverse_[1][i],
                  w = far[2] * inverse_[2][i];
      float enter = x > 0 ? x : 0;
      enter = y > enter ? y : enter;
      enter = z > enter ? z : enter;
      float exit = u < limit_[i] ? u : limit_[i];
      exit = v < exit ? v : exit;
      exit = w < exit ? w : exit;
      met_[i] = enter <= exit * 1.00001f ? 1 : 0;
      any |= met_[i];
    }
    return any != 0;
  }
  bool is_met(std::size_t i) const { return met_[i] != 0; }  // by the last meets()

 private:
  static constexpr std::size_t kLanes = kBatch;
  std::span<const Ray> rays_;
  std::span<Hit> hits_;
  std::array<float, 3> origin_{};
  std::array<bool, 3> backwards_{};
  bool is_one_way_ = true;
  std::array<std::array<float, kLanes>, 3> inverse_{};
  std::array<float, kLanes> limit_{};
  std::array<int, kLanes> met_{};
};

void Scene::visit_leaf(const Node& node, Packet& packet) const {
  for (std::uint32_t i = node.second; i < node.second + node.count; ++i) {
    const Primitive& primitive = primitives_[i];
    const auto offer = [&](std::size_t lane, const Crossing& crossing) {
      const auto distance = stop(primitive, crossing, packet.ray(lane), i);
      if (!distance || *distance >= packet.best(lane).distance) return;
      packet.improve(lane, {*distance, crossing.normal, &primitive});
    };
    if (primitive.shape == Primitive::Shape::triangle) {
      const TriangleFromPoint triangle(primitive, packet.ray(0).origin);
      for (std::size_t lane = 0; lane < packet.size(); ++lane) {
        if (!packet.is_met(lane)) continue;
        const Vec3 direction = packet.ray(lane).direction;
        const double t = triangle.distance(direction);
        if (t <= 0 || t >= packet.best(lane).distance) continue;
        offer(lane, {t, t, triangle.normal(direction)});
      }
      continue;
    }
    for (std::size_t lane = 0; lane < packet.size(); ++lane) {
      if (!packet.is_met(lane)) continue;
      const auto crossing = intersect(primitive, planes_, packet.ray(lane));
      if (crossing && crossing->enter < packet.best(lane).distance) offer(lane, *crossing);
    }
  }
}

void Scene::cast(std::span<const Ray> rays, std::span<Hit> hits) const {
  if (rays.empty()) return;
  Packet packet(rays, hits);
  if (nodes_.empty()) return;
  if (!packet.is_one_way()) {
    for (std::size_t i = 0; i < rays.size(); ++i) hits[i] = cast(rays[i]).value_or(Hit{});
    return;
  }
  walk(
      nodes_, packet.backwards(), [&](const Node& node) { return packet.meets(node); },
      [&](const Node& node) { visit_leaf(node, packet); });
  for (std::size_t i = 0; i < rays.size(); ++i) {
    if (dot(hits[i].normal, rays[i].direction) > 0) hits[i].normal = hits[i].normal * -1;
  }
}

}  // namespace io::simulator
