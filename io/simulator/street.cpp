#include "io/simulator/street.hpp"

#include <algorithm>

namespace io::simulator {

std::uint16_t Chunk::next_instance() {
  constexpr int kChunks = 60, kObjects = 1000;
  const auto slot = static_cast<int>(((number % kChunks) + kChunks) % kChunks);
  objects = static_cast<std::uint16_t>((objects + 1) % kObjects);
  return static_cast<std::uint16_t>(1 + slot * kObjects + objects);
}

bool Chunk::is_free(int side, double from, double to) const {
  return std::none_of(openings.begin(), openings.end(), [&](const Opening& o) {
    return o.side == side && from < o.end && to > o.begin;
  });
}

Street::Street(const StreetOptions& options)
    : options_(options), ground_(StreetShape::random(options.seed)) {
  Random random(hash(options.seed, 23));
  const double kind = random.uniform();
  main_style_ = kind < 0.3    ? Style::town
                : kind < 0.72 ? Style::suburb
                : kind < 0.86 ? Style::park
                              : Style::commerce;
  parking_[0] = random.chance(0.6) && ground_.shape().half_road > 5;
  parking_[1] = random.chance(0.6);
  parked_share_ = random.uniform(0.05, 0.6);
  has_trees_ = random.chance(0.6);
  has_utility_line_ = random.chance(0.25);
  tree_spacing_ = random.uniform(7, 16);
  lamp_spacing_ = random.uniform(20, 38);
  storey_height_ = random.uniform(6, 17);
  ego_speed_ = random.uniform(3, 13);
  ego_start_ = random.uniform(0, 4000);
  choose_reservation();
  choose_lane(random);
  const double parked_row = ground_.shape().half_road - 1.08;
  if (parking_[0] && parked_row + ego_lane_ < kBeside) {
    parking_[0] = false;
    choose_lane(random);
  }
}

void Street::choose_lane(Random& random) {
  ego_lane_ = -lane_distance(-1, random.integer(lanes_of(-1)));
}

Stand Street::stand(double s, int side, double distance, std::uint16_t instance) const {
  const Yaw heading = ground_.heading(s);
  return {ground_.place(s, side * distance), side > 0 ? heading : Yaw{-heading.c, -heading.s},
          instance};
}

Chunk Street::plan(std::int64_t number) const {
  Chunk chunk;
  chunk.number = number;
  chunk.begin = static_cast<double>(number) * kChunk;
  // Neighbouring chunks share a style, in stretches of three.
  const auto stretch = static_cast<std::int64_t>(std::floor(static_cast<double>(number) / 3));
  Random style(hash(options_.seed, 31, stretch));
  chunk.style = style.chance(0.65) ? main_style_ : static_cast<Style>(style.integer(4));
  chunk.random = Random(hash(options_.seed, 37, number));
  Random& random = chunk.random;
  if (random.chance(0.22)) {
    const double middle = chunk.begin + random.uniform(10, 30), half = random.uniform(2.6, 4.5);
    const int which = random.integer(3);
    for (const int side : {-1, 1}) {
      if (which == 2 || (which == 0) == (side < 0))
        chunk.openings.push_back({middle - half, middle + half, side, true});
    }
  }
  return chunk;
}

void Street::add_to(Scene& scene, double time, double reach) const {
  const double s = ego_s(time);
  const auto first = static_cast<std::int64_t>(std::floor((s - reach) / kChunk));
  const auto last = static_cast<std::int64_t>(std::floor((s + reach) / kChunk));
  for (std::int64_t number = first; number <= last; ++number) {
    Chunk chunk = plan(number);
    add_lots(scene, chunk);  // adds the openings of driveways
    add_kerbside(scene, chunk);
    add_reservation(scene, chunk);
    ground_.add_to(scene, chunk.begin, chunk.begin + kChunk, chunk.style, chunk.openings);
  }
  add_vehicles(scene, time, reach);
  add_walkers(scene, time, reach);
  add_cyclists(scene, time, reach);
}

}  // namespace io::simulator
