// What stands between the road and the lots: parked vehicles, trees, lamps, signs, clutter, people
// who wait.
#include <algorithm>

#include "io/simulator/street.hpp"

namespace io::simulator {

void Street::add_kerbside(Scene& scene, Chunk& chunk) const {
  for (const int side : {-1, 1}) {
    if (parking_width(side) > 0) add_parked(scene, chunk, side);
    add_beds(scene, chunk, side);
    add_row(scene, chunk, side);
    add_bystanders(scene, chunk, side);
  }
  if (has_utility_line_) add_utility_line(scene, chunk);
}

void Street::add_parked(Scene& scene, Chunk& chunk, int side) const {
  Random& random = chunk.random;
  double s = chunk.begin + random.uniform(0.3, 2);
  while (true) {
    const VehicleKind kind = random_parked_kind(random);
    const double room = vehicle_length(kind) + random.uniform(0.5, 1.6);
    if (s + room > chunk.begin + kChunk) break;
    const bool is_free = chunk.is_free(side, s - 1, s + room + 1);
    if (is_free && random.chance(0.1 * options_.vegetation)) {  // a bed instead of a place
      const Stand place =
          stand(s + room / 2, side, ground_.shape().half_road - 1.0, chunk.next_instance());
      add_bed(scene, place, random.uniform(1.2, 3.5), 1.8, random);
      if (random.chance(0.5)) add_tree(scene, place, random.uniform(4, 9), random, 2.0);
    } else if (is_free && random.chance(parked_share_ * std::min(1.5, options_.traffic))) {
      const double distance = ground_.shape().half_road - 1.08 + random.uniform(-0.12, 0.12);
      const double turn = kPi + random.uniform(-0.04, 0.04);
      add_vehicle(scene, stand(s + room / 2, side, distance, chunk.next_instance()).turned(turn),
                  kind, random);
    }
    s += room;
  }
}

// Shrubs in beds: in gaps of the parking lane, on the verge, along the far edge of the pavement.
void Street::add_beds(Scene& scene, Chunk& chunk, int side) const {
  Random& random = chunk.random;
  const double share = (chunk.style == Style::town ? 0.1 : 0.28) * options_.vegetation;
  for (double s = chunk.begin + 2; s < chunk.begin + kChunk - 4; s += 6) {
    if (!random.chance(share)) continue;
    const double span = random.uniform(1.2, 6), depth = random.uniform(0.6, 2.0);
    const double kind = random.uniform();
    const double verge = ground_.shape().verge;
    double distance = ground_.pavement_end() + 0.1 + depth / 2;
    if (kind < 0.4 && verge > depth) distance = ground_.pavement_begin() - verge / 2;
    if (!chunk.is_free(side, s - span / 2 - 0.5, s + span / 2 + 0.5)) continue;
    add_bed(scene, stand(s, side, distance, chunk.next_instance()), span, depth, random);
  }
}

// One line along the kerb that trees, lamps, signs and clutter share.
void Street::add_row(Scene& scene, Chunk& chunk, int side) const {
  Random& random = chunk.random;
  const double line = ground_.shape().verge > 0
                          ? ground_.pavement_begin() - ground_.shape().verge / 2
                          : ground_.pavement_begin() + 0.35;
  const bool has_lamps = side < 0 || ground_.shape().half_road > 5;
  double next_tree = chunk.begin + random.uniform(0, tree_spacing_);
  double next_lamp = chunk.begin + random.uniform(0, lamp_spacing_);
  for (double s = chunk.begin + 1; s < chunk.begin + kChunk - 1; s += 1.7) {
    if (!chunk.is_free(side, s - 0.8, s + 0.8)) continue;
    const Stand place = stand(s, side, line, chunk.next_instance());
    if (has_lamps && s > next_lamp) {
      add_lamp_post(scene, place.turned(kPi), random);
      next_lamp = s + lamp_spacing_;
    } else if (has_trees_ && s > next_tree) {
      if (random.chance(0.85 * options_.vegetation))
        add_tree(scene, place, random.uniform(4.5, 11), random, 2.3);
      next_tree = s + tree_spacing_ * random.uniform(0.8, 1.2);
    } else {
      const double kind = random.uniform(), turn = random.uniform(-0.4, 0.4);
      const double away = random.chance(0.5) ? 0.0 : kPi;
      if (kind < 0.045)
        add_sign(scene, place.turned(turn + away), random);
      else if (kind < 0.075)
        add_bollard(scene, place, random);
      else if (kind < 0.075 + 0.035 * options_.clutter)
        add_clutter(scene, place.turned(turn), random);
      else if (kind > 0.985)
        add_bush(scene, place, 0.5, random);
      else if (kind > 0.965)
        add_bicycle(scene, place.turned(turn), false, random);
    }
  }
}

void Street::add_utility_line(Scene& scene, Chunk& chunk) const {
  const double line = ground_.pavement_end() + 0.1, height = 7.5;
  const auto top = [&](double s) { return ground_.place(s, line, height - 0.25); };
  const double s = chunk.begin + 3;
  if (chunk.is_free(1, s - 0.5, s + 0.5))
    add_utility_pole(scene, stand(s, 1, line, chunk.next_instance()), height);
  add_wires(scene, top(s), top(s + kChunk), 3, 0.7);
}

void Street::add_bystanders(Scene& scene, Chunk& chunk, int side) const {
  Random& random = chunk.random;
  const double near = ground_.pavement_begin() + 0.5, far = ground_.pavement_end() - 0.2;
  if (random.chance(0.08 * options_.people)) {  // a group that talks
    const double s = chunk.begin + random.uniform(2, kChunk - 2);
    const double distance = random.uniform(near, far);
    const int count = 2 + random.integer(3);
    for (int i = 0; i < count; ++i) {
      const Yaw around = Yaw::of_angle(2 * kPi * i / count);
      const Stand place =
          stand(s + around.c * 0.6, side, distance + around.s * 0.5, chunk.next_instance());
      add_person(scene, place.turned(random.uniform(0, 2 * kPi)), Pose::standing, random);
    }
  }
  if (chunk.style != Style::park && random.chance(0.08)) {  // a bus stop
    const double s = chunk.begin + random.uniform(5, kChunk - 5);
    if (chunk.is_free(side, s - 3, s + 3)) {
      const Stand place = stand(s, side, far + 0.4, chunk.next_instance());
      add_shelter(scene, place.turned(kPi), random);
      const int waiting = random.integer(4);
      for (int i = 0; i < waiting; ++i) {
        const Pose pose = random.chance(0.4) ? Pose::sitting : Pose::standing;
        const double x = random.uniform(-1.6, 1.6), y = pose == Pose::sitting ? 0.35 : -0.4;
        Stand spot = place.moved(x, y);
        spot.instance = chunk.next_instance();
        add_person(scene, spot.turned(-kPi / 2), pose, random);
      }
    }
  }
  if (chunk.style == Style::town && random.chance(0.25)) {  // bicycles and scooters in a row
    const double s = chunk.begin + random.uniform(3, kChunk - 8);
    const bool are_scooters = random.chance(0.3);
    const int count = 2 + random.integer(6);
    for (int i = 0; i < count; ++i) {
      const double at = s + i * (are_scooters ? 1.0 : 0.65);
      if (!chunk.is_free(side, at - 1, at + 1)) continue;
      const Stand place =
          stand(at, side, far, chunk.next_instance()).turned(kPi / 2 + random.uniform(-0.15, 0.15));
      if (are_scooters)
        add_motorcycle(scene, place, false, random);
      else
        add_bicycle(scene, place, false, random);
    }
  }
}

}  // namespace io::simulator
