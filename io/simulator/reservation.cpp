// The strip between the two ways of a wide street: a kerb around it, and on it grass or paving,
// shrubs, a hedge, a guard rail or a wall, trees and lamps.
#include "io/simulator/street.hpp"

namespace io::simulator {
namespace {

constexpr double kNarrowestWay = 3.0;  // what must be left for vehicles on each side, metres

}  // namespace

// From numbers of its own, so that streets without one are what they were.
void Street::choose_reservation() {
  Random random(hash(options_.seed, 83));
  const double room =
      ground_.shape().half_road - std::max(parking_width(-1), parking_width(1)) - kNarrowestWay;
  if (room < 0.5 || !random.chance(0.6)) return;
  reservation_ = random.uniform(0.45, std::min(room, 2.2));
  const double kind = random.uniform();
  on_reservation_ = kind < 0.2    ? Reservation::bare
                    : kind < 0.45 ? Reservation::beds
                    : kind < 0.7  ? Reservation::hedge
                    : kind < 0.87 ? Reservation::rail
                                  : Reservation::wall;
}

// Open where side streets meet the road, on either side.
void Street::add_reservation(Scene& scene, Chunk& chunk) const {
  if (reservation_ <= 0) return;
  Random random(hash(options_.seed, 53, chunk.number));
  const double end = chunk.begin + kChunk;
  std::vector<Opening> gaps;
  for (const Opening& opening : chunk.openings)
    if (opening.is_street) gaps.push_back({opening.begin - 1, opening.end + 1, 1, true});
  if (random.chance(0.15)) {  // to turn round
    const double at = chunk.begin + random.uniform(8, 26);
    gaps.push_back({at, at + random.uniform(4, 7), 1, true});
  }
  double from = chunk.begin;
  const auto is_open = [&](double s) {
    return std::any_of(gaps.begin(), gaps.end(),
                       [&](const Opening& gap) { return s >= gap.begin && s < gap.end; });
  };
  constexpr double kStep = 2;
  for (double s = chunk.begin; s < end; s += kStep) {
    if (!is_open(s)) continue;
    if (s - from > kStep) add_to_reservation(scene, chunk, from, s, random);
    from = s + kStep;
  }
  if (end - from > kStep) add_to_reservation(scene, chunk, from, end, random);
}

void Street::add_to_reservation(Scene& scene, Chunk& chunk, double from, double to,
                                Random& random) const {
  const double half = reservation_, kerb = std::max(0.08, ground_.shape().kerb);
  const Surface stone{.label = Label::sidewalk, .reflectance = 0.36f, .roughness = 0.006f};
  const Surface grass{.label = Label::terrain,
                      .reflectance = 0.42f,
                      .roughness = static_cast<float>(ground_.shape().grass)};
  const bool is_paved = half < 0.8 || on_reservation_ == Reservation::rail;
  const Surface& top = is_paved ? stone : grass;
  const auto corner = [&](double s, double d, double above) { return ground_.place(s, d, above); };
  for (double s = from; s < to; s += 2) {
    const double next = std::min(to, s + 2);
    scene.add_quad(corner(s, -half, kerb), corner(next, -half, kerb), corner(next, half, kerb),
                   corner(s, half, kerb), top);
    for (const double d : {-half, half}) {
      scene.add_quad(corner(s, d, -0.05), corner(next, d, -0.05), corner(next, d, kerb),
                     corner(s, d, kerb), stone);
    }
  }
  for (const double s : {from, to}) {
    scene.add_quad(corner(s, -half, -0.05), corner(s, half, -0.05), corner(s, half, kerb),
                   corner(s, -half, kerb), stone);
  }

  const auto on_top = [&](double s) {
    Stand place = stand(s, 1, 0, chunk.next_instance());
    place.base = ground_.place(s, 0, kerb);
    return place;
  };
  constexpr double kPiece = 5;
  for (double s = from + 0.6; s + 1 < to - 0.6; s += kPiece) {
    const double span = std::min(kPiece, to - 0.6 - s);
    const Stand place = on_top(s + span / 2);
    switch (on_reservation_) {
      case Reservation::bare:
        if (random.chance(0.15))
          add_sign(scene, place.turned(random.chance(0.5) ? 0 : kPi), random);
        break;
      case Reservation::beds:
        if (random.chance(std::min(0.9, 0.6 * options_.vegetation)))
          add_bed(scene, place, span * random.uniform(0.6, 1.0), half * random.uniform(1.2, 1.8),
                  random);
        else if (random.chance(0.4))
          add_bush(scene, place, half * random.uniform(0.5, 1.0), random);
        break;
      case Reservation::hedge:
        if (random.chance(0.9)) add_hedge(scene, place, span, random.uniform(0.5, 1.5), random);
        break;
      case Reservation::rail:
        add_guard_rail(scene, place, span, random);
        break;
      case Reservation::wall:
        add_fence(scene, place, span, FenceKind::wall, random);
        break;
    }
  }
  if (has_trees_ && half > 0.7 && on_reservation_ != Reservation::wall) {
    for (double s = from + random.uniform(1, tree_spacing_); s < to - 1; s += tree_spacing_)
      add_tree(scene, on_top(s), random.uniform(4, 10), random, 2.3);
  }
  for (double s = from + random.uniform(1, 2 * lamp_spacing_); s < to - 1; s += lamp_spacing_)
    add_lamp_post(scene, on_top(s), random);
}

}  // namespace io::simulator
