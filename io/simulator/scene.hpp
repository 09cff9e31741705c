// What a beam can meet: primitives with a surface each, and the bounding volume hierarchy that
// finds the nearest.
//   Scene scene;  scene.add_box({0, 0, 1}, {2, 1, 1}, yaw, surface);  ...  scene.build();
//   if (const auto hit = scene.cast({origin, direction, ray_id, 120.0})) ...
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "io/simulator/math.hpp"

namespace io::simulator {

enum class Label : std::uint8_t {
  ignore,
  road,
  sidewalk,
  terrain,
  building,
  fence,
  vegetation,
  vehicle,
  person,
  two_wheeler,
  pole,
};

// How much of a surface stops a beam. Anything but `solid` decides by a hash of ray and primitive,
// so the answer does not depend on the order in which primitives are visited.
enum class Texture : std::uint8_t {
  solid,
  facade,   // window recesses, glass that returns little (box)
  slats,    // vertical boards with gaps, width and gap from `scale` (box)
  rails,    // horizontal boards with gaps (box)
  mesh,     // wire mesh: a share `density` of the beams is stopped
  glass,    // car windows: as mesh on the sides, solid where the face looks up
  foliage,  // a volume of clumps; `density` = stops per metre inside a clump
};

struct Surface {
  Label label = Label::ignore;
  Texture texture = Texture::solid;
  std::uint16_t instance = 0;
  float reflectance = 0.3f;  // diffuse, 0..1; retro-reflectors above 1
  float gloss = 0;           // 0 matt .. 1 mirror: mirrors send the beam elsewhere
  float roughness = 0;       // metres of relief; grass: height of the blades
  float density = 1;
  float scale = 0.12f;
};

struct Primitive {
  enum class Shape : std::uint8_t { triangle, box, ellipsoid, capsule, frustum, hull };
  Shape shape = Shape::box;
  Surface surface;
  // triangle: corner, edge, edge. box, ellipsoid: centre, half sizes, (cos, sin, 0). capsule: two
  // ends, (radius,,). frustum: centre of the base, (radius below, radius above, height). hull:
  // (first plane, count, 0).
  std::array<Vec3, 3> data;
};

struct Plane {
  Vec3 normal;  // outwards, unit length
  double offset = 0;
};

struct Box3 {
  Vec3 low, high;
};

struct Ray {
  Vec3 origin, direction;  // unit length
  std::uint64_t id = 0;    // source of the ray's random decisions
  double reach = 120;
};

struct Hit {
  double distance = 0;
  Vec3 normal;  // faces the ray
  const Primitive* primitive = nullptr;
};

class Scene {
 public:
  void add_triangle(Vec3 a, Vec3 b, Vec3 c, const Surface& surface);
  void add_quad(Vec3 a, Vec3 b, Vec3 c, Vec3 d,
                const Surface& surface);  // corners in order; need not be flat
  void add_box(Vec3 centre, Vec3 half, Yaw yaw, const Surface& surface);
  void add_ellipsoid(Vec3 centre, Vec3 half, Yaw yaw, const Surface& surface);
  void add_capsule(Vec3 a, Vec3 b, double radius, const Surface& surface);
  void add_frustum(Vec3 base, double radius_low, double radius_high, double height,
                   const Surface& surface);
  // A convex body given by planes in a frame turned by `yaw` about `origin`; `bounds` in that
  // frame.
  void add_hull(Vec3 origin, Yaw yaw, std::span<const Plane> planes, const Box3& bounds,
                const Surface& surface);

  void build();                                   // after the last add
  std::optional<Hit> cast(const Ray& ray) const;  // after build()
  // The same for up to kBatch rays from one point with one reach, cheaper the nearer they lie
  // together. hits[i].primitive is null where ray i meets nothing.
  void cast(std::span<const Ray> rays, std::span<Hit> hits) const;
  std::size_t size() const { return primitives_.size(); }

 private:
  struct Node {  // children follow: first child is the next node
    std::array<float, 3> low, high;
    std::uint32_t second = 0;  // inner: index of the second child; leaf: first entry of order_
    std::uint16_t count = 0;   // leaf: number of primitives; inner: 0
    std::uint16_t axis = 0;
  };
  class Builder;
  class Packet;
  void add(Primitive primitive, const Box3& bounds);
  void visit_leaf(const Node& node, const Ray& ray, Hit& best) const;
  void visit_leaf(const Node& node, Packet& packet) const;

  std::vector<Primitive> primitives_;
  std::vector<Box3> bounds_;
  std::vector<Plane> planes_;
  std::vector<Node> nodes_;
};

}  // namespace io::simulator
