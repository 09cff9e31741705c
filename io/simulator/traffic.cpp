// What moves: vehicles in their lanes, walkers on the pavements, cyclists. Each row of movers is a
// lattice of places that slides along the street; which places are taken, and by what, depends on
// the seed and the place's number.
#include <algorithm>

#include "io/simulator/street.hpp"

namespace io::simulator {
namespace {

struct Row {
  std::uint64_t salt = 0;
  double spacing = 30, speed = 0,
         offset = 0;  // position of place j at time t: j * spacing + offset + speed * t
};

template <class Visit>
void visit_places(const Row& row, double time, double from, double to, const Visit& visit) {
  const double shift = row.offset + row.speed * time;
  const auto first = static_cast<std::int64_t>(std::floor((from - shift) / row.spacing));
  const auto last = static_cast<std::int64_t>(std::floor((to - shift) / row.spacing));
  for (std::int64_t place = first; place <= last; ++place) {
    Random random(hash(row.salt, place));
    visit(static_cast<double>(place) * row.spacing + shift, place, random);
  }
}

// Movers are numbered above all chunks' objects: 5500 numbers, spread by row and place.
std::uint16_t mover_instance(std::uint64_t salt, std::int64_t place, int member) {
  return static_cast<std::uint16_t>(60001 + (hash(salt, 5) + static_cast<std::uint64_t>(place) * 5 +
                                             static_cast<std::uint64_t>(member)) %
                                                5500);
}

}  // namespace

void Street::add_vehicles(Scene& scene, double time, double reach) const {
  for (const int side : {-1, 1}) {
    for (int lane = 0; lane < lanes_of(side); ++lane) {
      const double distance = lane_distance(side, lane);
      const bool is_oncoming = side > 0;
      if (is_oncoming && (lanes_width(side) < 2.3 || distance - ego_lane_ < kBeside)) continue;
      add_vehicle_row(scene, time, reach, side, lane, distance);
    }
  }
}

void Street::add_vehicle_row(Scene& scene, double time, double reach, int side, int lane,
                             double distance) const {
  const double ego = ego_s(time);
  const bool is_oncoming = side > 0;
  Row row{.salt = hash(options_.seed, 41, side, lane)};
  Random random(row.salt);
  row.spacing = std::max(16.0, random.uniform(18, 60) / std::max(0.05, options_.traffic));
  // The own direction keeps pace with the ego vehicle, so that who is beside it does not change.
  row.speed = is_oncoming ? -random.uniform(3, 14) : ego_speed_;
  row.offset = is_oncoming ? random.uniform(0, row.spacing) : ego_start_;
  const double share = std::min(0.9, 0.55 * options_.traffic);
  visit_places(row, time, ego - reach, ego + reach, [&](double s, std::int64_t place, Random& own) {
    if ((!is_oncoming && place == 0) || !own.chance(share)) return;
    const double wander = own.uniform(-0.2, 0.2), at = s + own.uniform(-1.5, 1.5);
    // +x of a stand is with the street on the left side, against it on the right one: vehicles face
    // the other way.
    const Stand facing =
        stand(at, side, distance + wander, mover_instance(row.salt, place, 0)).turned(kPi);
    if (own.chance(0.05)) return add_motorcycle(scene, facing, true, own);
    const VehicleKind kind = random_moving_kind(own);
    // A large one that comes by would be all that the sensor sees.
    const bool is_small = vehicle_length(kind) < 5;
    add_vehicle(scene, facing, is_small || !is_oncoming ? kind : VehicleKind::suv, own);
  });
}

void Street::add_walkers(Scene& scene, double time, double reach) const {
  if (options_.people <= 0) return;
  const double ego = ego_s(time), near = ground_.pavement_begin() + 0.6;
  for (const int side : {-1, 1}) {
    for (const int way : {-1, 1}) {
      Row row{.salt = hash(options_.seed, 43, side, way)};
      Random random(row.salt);
      row.spacing = std::max(4.0, random.uniform(25, 120) / options_.people);
      row.speed = way * random.uniform(0.9, 1.5);
      const double distance =
          near + (way > 0 ? 0.7 : 0.2) * std::max(0.2, ground_.shape().pavement - 0.8);
      visit_places(
          row, time, ego - reach, ego + reach, [&](double s, std::int64_t place, Random& own) {
            if (!own.chance(0.6)) return;
            const int count = own.chance(0.55) ? 1 : 2 + own.integer(3);
            const double at = s + own.uniform(-3, 3);
            for (int i = 0; i < count; ++i) {
              const double along = at + 0.45 * (i % 2) + 1.1 * (i / 2),
                           across = distance + 0.55 * (i % 2) - 0.2;
              const Stand where = stand(along, side, across, mover_instance(row.salt, place, i));
              const Stand facing = (side > 0) == (way > 0) ? where : where.turned(kPi);
              add_person(scene, facing, Pose::walking, own);
              if (i == 0 && own.chance(0.06)) add_stroller(scene, facing.moved(0.75, 0), own);
            }
          });
    }
  }
}

void Street::add_cyclists(Scene& scene, double time, double reach) const {
  if (options_.people <= 0) return;
  const double ego = ego_s(time);
  for (const int side : {-1, 1}) {
    Row row{.salt = hash(options_.seed, 47, side)};
    Random random(row.salt);
    row.spacing = random.uniform(35, 120) / options_.people;
    row.speed = -side * random.uniform(3, 6);
    const double distance = reservation_ + lanes_width(side) - 0.45;
    visit_places(
        row, time, ego - reach, ego + reach, [&](double s, std::int64_t place, Random& own) {
          // Not beside the ego vehicle, which may use the same stretch of road.
          if (!own.chance(0.6) || (side < 0 && std::abs(s - ego) < 4)) return;
          add_bicycle(scene,
                      stand(s, side, distance, mover_instance(row.salt, place, 0)).turned(kPi),
                      true, own);
        });
  }
}

}  // namespace io::simulator
