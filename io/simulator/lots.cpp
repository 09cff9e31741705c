// What stands beyond the pavement: houses, gardens, blocks, parks, car parks, and what closes the
// view behind them.
#include <algorithm>

#include "io/simulator/street.hpp"

namespace io::simulator {

void Street::add_lots(Scene& scene, Chunk& chunk) const {
  const double margin = 2.2;  // the pavement of a side street
  for (const int side : {-1, 1}) {
    double from = chunk.begin, end = chunk.begin + kChunk;
    const auto street =
        std::find_if(chunk.openings.begin(), chunk.openings.end(),
                     [&](const Opening& o) { return o.side == side && o.is_street; });
    if (street != chunk.openings.end()) {
      const Opening opening = *street;
      add_side_street(scene, chunk, opening);
      add_lot(scene, chunk, side, from, opening.begin - margin);
      add_lot(scene, chunk, side, opening.end + margin, end);
    } else {
      const double usual = chunk.style == Style::suburb ? 15.0
                           : chunk.style == Style::town ? 17.0
                                                        : 40.0;
      while (from < end - 1) {
        double to = std::min(end, from + usual * chunk.random.uniform(0.75, 1.25));
        if (end - to < 8) to = end;
        add_lot(scene, chunk, side, from, to);
        from = to;
      }
    }
    add_backdrop(scene, chunk, side);
  }
}

void Street::add_lot(Scene& scene, Chunk& chunk, int side, double from, double to) const {
  if (to - from < 4) return;
  const double bank = chunk.style == Style::town ? 0.02 : 0.12;
  if (chunk.random.chance(bank * std::min(2.0, options_.vegetation))) {
    const double setback = chunk.random.uniform(0.3, 5);
    const Stand place =
        stand((from + to) / 2, side, ground_.pavement_end() + setback, chunk.next_instance());
    return add_bank(scene, place, to - from, chunk.random);
  }
  const double kind = chunk.random.uniform();
  switch (chunk.style) {
    case Style::town:
      if (kind < 0.88) return add_building_lot(scene, chunk, side, from, to);
      return kind < 0.95 ? add_car_park(scene, chunk, side, from, to)
                         : add_park(scene, chunk, side, from, to);
    case Style::suburb:
      if (kind < 0.85) return add_building_lot(scene, chunk, side, from, to);
      return add_park(scene, chunk, side, from, to);
    case Style::park:
      if (kind < 0.15) return add_building_lot(scene, chunk, side, from, to);
      return add_park(scene, chunk, side, from, to);
    case Style::commerce:
      if (kind < 0.45) return add_building_lot(scene, chunk, side, from, to);
      return kind < 0.8 ? add_car_park(scene, chunk, side, from, to)
                        : add_park(scene, chunk, side, from, to);
  }
}

void Street::add_building_lot(Scene& scene, Chunk& chunk, int side, double from, double to) const {
  Random& random = chunk.random;
  const double middle = (from + to) / 2, width = to - from, front = ground_.front();
  BuildingSize size;
  if (chunk.style == Style::town) {
    size.width = width + 0.04;  // wall to wall
    size.depth = random.uniform(9, 14);
    size.height = storey_height_ * random.uniform(0.75, 1.25);
    const double setback = random.uniform(-0.4, 0.4);
    const Stand place = stand(middle, side, front + setback, chunk.next_instance());
    return random.chance(0.3) ? add_house(scene, place, size, random)
                              : add_block(scene, place, size, random);
  }
  if (chunk.style == Style::commerce) {
    size = {width * random.uniform(0.5, 0.9), random.uniform(15, 30), random.uniform(4, 14)};
    const double setback = random.uniform(0, 18);
    add_block(scene, stand(middle, side, front + setback, chunk.next_instance()), size, random);
    if (random.chance(0.6)) add_boundary(scene, chunk, side, from, to);
    return;
  }
  // A house in its garden, a driveway beside it.
  const double gap = random.uniform(2.5, 6);
  size = {std::max(5.0, width - gap), random.uniform(7, 12), random.uniform(2.8, 6.5)};
  const double shift = random.uniform(-0.5, 0.5) * gap * 0.6, setback = random.uniform(0, 5);
  const Stand house = stand(middle + shift, side, front + setback, chunk.next_instance());
  add_house(scene, house, size, random);
  if (random.chance(0.3)) {  // a wing towards the street
    const double wing = size.width * random.uniform(0.25, 0.45), out = random.uniform(0.8, 2.5);
    const double place = random.sign() * (size.width - wing) / 2;
    if (setback + ground_.shape().yard > out + 0.8)
      add_house(scene, house.moved(place, -out), {wing, out + 3, size.height * 0.9}, random);
  }
  double free_from = from + 0.3, free_to = to - 0.3;
  if (random.chance(0.6)) {
    const double drive = shift > 0 ? from + 0.5 : to - 3.4;
    chunk.openings.push_back({drive, drive + 2.9, side, false});
    if (random.chance(0.5)) {
      const double at = ground_.pavement_end() + random.uniform(2.6, 4.5);
      const Stand place = stand(drive + 1.45, side, at, chunk.next_instance());
      const VehicleKind vehicle = random_parked_kind(random);
      if (vehicle_length(vehicle) < 6)
        add_vehicle(scene, place.turned(random.sign() * kPi / 2), vehicle, random);
    }
    if (random.chance(0.3)) {
      const double at = ground_.front() + random.uniform(-0.5, 4);
      add_garage(scene, stand(drive + 1.45, side, at, chunk.next_instance()), random);
    }
    if (shift > 0)
      free_from = drive + 3.1;
    else
      free_to = drive - 0.2;
  }
  add_boundary(scene, chunk, side, free_from, free_to);
  add_garden(scene, chunk, side, free_from, free_to);
}

// Between the pavement and the lot: a fence, a wall, a hedge, or nothing.
void Street::add_boundary(Scene& scene, Chunk& chunk, int side, double from, double to) const {
  Random& random = chunk.random;
  const double gate = random.uniform(from, to), span_first = gate - 0.6 - from,
               span_second = to - gate - 0.6;
  const double kind = random.uniform(), height = random.uniform(0.7, 2.0);
  const auto fence = static_cast<FenceKind>(random.integer(5));
  if (kind > 0.9) return;
  const auto add_part = [&](double begin, double span) {
    if (span < 1) return;
    const Stand place =
        stand(begin + span / 2, side, ground_.pavement_end() + 0.35, chunk.next_instance());
    if (kind < 0.24) return add_fence(scene, place, span, fence, random);
    add_hedge(scene, place.moved(0, 0.3), span, height, random);
    if (kind > 0.7)
      add_fence(scene, {place.base, place.yaw, chunk.next_instance()}, span, FenceKind::wire,
                random);
  };
  add_part(from, span_first);
  add_part(gate + 0.6, span_second);
}

void Street::add_garden(Scene& scene, Chunk& chunk, int side, double from, double to) const {
  Random& random = chunk.random;
  const double near = ground_.pavement_end() + 1.4, far = ground_.front() - 0.3;
  if (far < near || to < from + 1) return;
  const int plants = static_cast<int>(random.uniform(1, 10) * options_.vegetation);
  for (int i = 0; i < plants; ++i) {
    const double s = random.uniform(from, to), distance = random.uniform(near, far);
    const Stand place = stand(s, side, distance, chunk.next_instance());
    const double kind = random.uniform();
    if (kind < 0.6)
      add_bush(scene, place, random.uniform(0.4, 1.3), random);
    else if (kind < 0.85)
      add_tree(scene, place, random.uniform(2.5, 7), random);
    else
      add_conifer(scene, place, random.uniform(1.5, 7), random);
  }
  if (random.chance(0.3 * options_.clutter)) {
    const double s = random.uniform(from, to);
    add_clutter(scene, stand(s, side, (near + far) / 2, chunk.next_instance()), random);
  }
  // Fences and sheds between the gardens behind.
  if (random.chance(0.5)) {
    const Stand place = stand(to, side, ground_.front() + 9, chunk.next_instance()).turned(kPi / 2);
    add_fence(scene, place, 14, static_cast<FenceKind>(random.integer(3)), random);
  }
  if (random.chance(0.35))
    add_shed(scene, stand(to - 1, side, ground_.front() + 12, chunk.next_instance()), random);
}

void Street::add_park(Scene& scene, Chunk& chunk, int side, double from, double to) const {
  Random& random = chunk.random;
  const double near = ground_.pavement_end() + 1.2;
  if (random.chance(0.45)) add_boundary(scene, chunk, side, from, to);
  const double trees = random.uniform(0.5, 3.5) * options_.vegetation * (to - from) / 10;
  for (int i = 0; i < static_cast<int>(trees); ++i) {
    const double s = random.uniform(from, to), distance = near + random.uniform(0.5, 22);
    const Stand place = stand(s, side, distance, chunk.next_instance());
    if (random.chance(0.2))
      add_conifer(scene, place, random.uniform(3, 14), random);
    else
      add_tree(scene, place, random.uniform(4, 14), random);
  }
  const double bushes = random.uniform(0.5, 5) * options_.vegetation * (to - from) / 10;
  for (int i = 0; i < static_cast<int>(bushes); ++i) {
    const double s = random.uniform(from, to), distance = near + random.uniform(0, 16);
    add_bush(scene, stand(s, side, distance, chunk.next_instance()), random.uniform(0.3, 1.8),
             random);
  }
  if (random.chance(0.3 * options_.clutter)) {
    const double s = random.uniform(from, to);
    add_clutter(scene, stand(s, side, near, chunk.next_instance()), random);
  }
  if (random.chance(0.2 * options_.people)) {
    const double s = random.uniform(from, to), distance = near + random.uniform(0, 8);
    add_person(scene, stand(s, side, distance, chunk.next_instance()), Pose::walking, random);
  }
}

void Street::add_car_park(Scene& scene, Chunk& chunk, int side, double from, double to) const {
  Random& random = chunk.random;
  if (random.chance(0.5)) add_boundary(scene, chunk, side, from, to);
  const double share = random.uniform(0.2, 0.9);
  const int rows = 1 + random.integer(2);
  for (int row = 0; row < rows; ++row) {
    const double distance = ground_.pavement_end() + 4.2 + row * 11;
    for (double s = from + 1.6; s < to - 1.4; s += 2.7) {
      if (!random.chance(share)) continue;
      const VehicleKind vehicle = random_parked_kind(random);
      if (vehicle_length(vehicle) > 6 && row == 0) continue;
      const double turn = kPi / 2 * random.sign();
      add_vehicle(scene,
                  stand(s, side, distance, chunk.next_instance())
                      .turned(turn + random.uniform(-0.05, 0.05)),
                  vehicle, random);
    }
  }
  if (random.chance(0.6)) {
    add_lamp_post(scene,
                  stand((from + to) / 2, side, ground_.pavement_end() + 9, chunk.next_instance()),
                  random);
  }
}

// A second row of buildings and trees, so that most beams end somewhere.
void Street::add_backdrop(Scene& scene, Chunk& chunk, int side) const {
  Random& random = chunk.random;
  const bool is_green = chunk.style == Style::park || random.chance(0.35);
  for (double s = chunk.begin; s < chunk.begin + kChunk - 1; s += 20) {
    if (!chunk.is_free(side, s, s + 20)) continue;
    const double distance = ground_.front() + random.uniform(18, 34);
    const Stand place = stand(s + 10, side, distance, chunk.next_instance());
    if (is_green && random.chance(0.9)) {
      add_thicket(scene, place, 21 * std::min(1.0, options_.vegetation), random);
    } else if (random.chance(0.75)) {
      const BuildingSize size{random.uniform(10, 19), 10, random.uniform(4, 10)};
      add_house(scene, place, size, random);
    }
  }
}

void Street::add_side_street(Scene& scene, Chunk& chunk, const Opening& opening) const {
  Random& random = chunk.random;
  const double width = opening.end - opening.begin, front = ground_.front();
  for (const double edge : {-1.0, 1.0}) {
    const double kerb = (edge < 0 ? opening.begin : opening.end) - edge * 1.1;
    const bool parks = random.chance(0.5) && width > 6;
    for (double distance = ground_.pavement_end() + 4; parks && distance < front + 50;
         distance += 6.2) {
      if (!random.chance(parked_share_)) continue;
      const VehicleKind vehicle = random_parked_kind(random);
      if (vehicle_length(vehicle) > 6) continue;
      add_vehicle(scene,
                  stand(kerb, opening.side, distance, chunk.next_instance()).turned(edge * kPi / 2),
                  vehicle, random);
    }
    const double corner = (edge < 0 ? opening.begin : opening.end) + edge * 0.5;
    const double along = ground_.pavement_begin() + 0.4;
    if (random.chance(0.5)) {
      add_sign(scene,
               stand(corner, opening.side, along, chunk.next_instance())
                   .turned(random.uniform(0, 2 * kPi)),
               random);
    } else if (random.chance(0.25)) {
      add_traffic_light(scene, stand(corner, opening.side, along, chunk.next_instance()), random);
    }
    // Houses along the side street close the view.
    for (double distance = front + 16; distance < front + 62; distance += 15) {
      const double s = (edge < 0 ? opening.begin : opening.end) + edge * random.uniform(3.5, 6.5);
      const Stand place =
          stand(s, opening.side, distance, chunk.next_instance()).turned(-edge * kPi / 2);
      if (random.chance(0.7))
        add_house(scene, place, {random.uniform(9, 14), 8, random.uniform(4, 9)}, random);
      else
        add_thicket(scene, place, 10, random);
    }
  }
  const double end = front + random.uniform(60, 80);
  add_house(scene,
            stand((opening.begin + opening.end) / 2, opening.side, end, chunk.next_instance()),
            {24, 10, 8}, random);
  if (random.chance(0.3 * options_.traffic)) {
    const double distance = random.uniform(ground_.pavement_begin() + 4, front + 30);
    const double s = opening.begin + width * 0.5 + random.sign() * width * 0.2;
    if (width > 6.5)
      add_vehicle(scene, stand(s, opening.side, distance, chunk.next_instance()).turned(kPi / 2),
                  random_parked_kind(random), random);
  }
}

}  // namespace io::simulator
