// The things of a street, each built from primitives at a stand: the point of the ground below its
// middle and the way it faces (its own x axis). All randomness comes from the generator that is
// passed.
#pragma once
#include <cstdint>

#include "io/simulator/scene.hpp"

namespace io::simulator {

struct Stand {
  Vec3 base;
  Yaw yaw;
  std::uint16_t instance = 0;
  // A point given in the frame of the stand.
  Vec3 at(double x, double y, double z) const { return base + yaw(Vec3{x, y, z}); }
  Stand moved(double x, double y) const { return {at(x, y, 0), yaw, instance}; }
  Stand turned(double radians) const { return {base, yaw * Yaw::of_angle(radians), instance}; }
};

// vehicles.cpp
enum class VehicleKind : std::uint8_t {
  hatchback,
  sedan,
  estate,
  suv,
  van,
  pickup,
  truck,
  bus,
  trailer
};
VehicleKind random_parked_kind(Random& random);
VehicleKind random_moving_kind(Random& random);
double vehicle_length(VehicleKind kind);  // about; metres
void add_vehicle(Scene& scene, const Stand& stand, VehicleKind kind, Random& random);

// people.cpp
enum class Pose : std::uint8_t { standing, walking, sitting };
void add_person(Scene& scene, const Stand& stand, Pose pose, Random& random);
void add_stroller(Scene& scene, const Stand& stand, Random& random);
void add_bicycle(Scene& scene, const Stand& stand, bool has_rider, Random& random);
void add_motorcycle(Scene& scene, const Stand& stand, bool has_rider, Random& random);

// plants.cpp
// The crown begins above `headroom`: trees beside a road are cut.
void add_tree(Scene& scene, const Stand& stand, double height, Random& random, double headroom = 0);
void add_conifer(Scene& scene, const Stand& stand, double height, Random& random);
void add_bush(Scene& scene, const Stand& stand, double size, Random& random);
void add_hedge(Scene& scene, const Stand& stand, double span, double height,
               Random& random);  // along its x axis
void add_bed(Scene& scene, const Stand& stand, double span, double depth,
             Random& random);  // low shrubs, along its x axis
void add_bank(Scene& scene, const Stand& stand, double span,
              Random& random);  // along its x axis, climbing towards +y
void add_thicket(Scene& scene, const Stand& stand, double span,
                 Random& random);  // a stretch of wood

// buildings.cpp; the stand is the middle of the front, which faces its -y side; the building lies
// towards +y
struct BuildingSize {
  double width = 12, depth = 10, height = 9;
};
void add_house(Scene& scene, const Stand& stand, const BuildingSize& size,
               Random& random);  // pitched roof
void add_block(Scene& scene, const Stand& stand, const BuildingSize& size,
               Random& random);  // flat roof, balconies
void add_shed(Scene& scene, const Stand& stand, Random& random);
void add_garage(Scene& scene, const Stand& stand, Random& random);
enum class FenceKind : std::uint8_t { boards, rails, wire, bars, wall };
void add_fence(Scene& scene, const Stand& stand, double span, FenceKind kind,
               Random& random);  // along its x axis

void add_guard_rail(Scene& scene, const Stand& stand, double span,
                    Random& random);  // along its x axis

// furniture.cpp
void add_lamp_post(Scene& scene, const Stand& stand, Random& random);  // the arm reaches towards +y
void add_utility_pole(Scene& scene, const Stand& stand, double height);
void add_wires(Scene& scene, Vec3 from, Vec3 to, int count, double sag);
void add_sign(Scene& scene, const Stand& stand, Random& random);  // the plate faces -x
void add_traffic_light(Scene& scene, const Stand& stand, Random& random);
void add_bollard(Scene& scene, const Stand& stand, Random& random);
void add_clutter(Scene& scene, const Stand& stand,
                 Random& random);  // bins, boxes, cones, benches: no class
void add_shelter(Scene& scene, const Stand& stand, Random& random);  // of a bus stop: no class
// The sensor stands `clearance` above the roof.
void add_ego_body(Scene& scene, const Stand& stand, double sensor_height, double clearance,
                  Random& random);

}  // namespace io::simulator
