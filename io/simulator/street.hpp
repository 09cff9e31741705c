// An endless street by seed, laid out in chunks of 40 m that depend on the seed and their number
// alone, so that any stretch can be built without what comes before it. Traffic moves on it with
// time.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "io/simulator/ground.hpp"
#include "io/simulator/objects.hpp"

namespace io::simulator {

struct StreetOptions {
  std::uint64_t seed = 1;
  double traffic = 1, people = 1, vegetation = 1, clutter = 1;  // how much of each, 1 = as usual
};

inline constexpr double kChunk = 40;  // metres
// From the sensor to the middle of the nearest row of vehicles beside it: closer ones would hide
// the street.
inline constexpr double kBeside = 3;

// One chunk: what its lots and kerbs need to know.
struct Chunk {
  std::int64_t number = 0;
  double begin = 0;
  Style style = Style::suburb;
  std::vector<Opening> openings;
  Random random{0};
  std::uint16_t objects = 0;

  // A new object's number, the same in every frame and unlike those of all chunks in sight.
  std::uint16_t next_instance();
  bool is_free(int side, double from, double to) const;  // of openings
};

class Street {
 public:
  explicit Street(const StreetOptions& options);
  const Ground& ground() const { return ground_; }
  double ego_speed() const { return ego_speed_; }
  double ego_lane() const { return ego_lane_; }        // d of the ego vehicle
  double reservation() const { return reservation_; }  // half its width; 0: there is none
  double ego_s(double time) const { return ego_start_ + ego_speed_ * time; }

  // Adds everything within `reach` of the ego vehicle at `time`, the vehicle itself excepted.
  void add_to(Scene& scene, double time, double reach) const;

 private:
  void choose_lane(Random& random);
  Chunk plan(std::int64_t number) const;
  // Where things stand: along is the heading of the street, or against it on the right side, so
  // that +y leads away from the road on both sides.
  Stand stand(double s, int side, double distance, std::uint16_t instance) const;
  double parking_width(int side) const { return parking_[side > 0 ? 1 : 0] ? 2.1 : 0.0; }
  double lanes_width(int side) const {  // beside the reservation
    return ground_.shape().half_road - parking_width(side) - reservation_;
  }
  int lanes_of(int side) const { return std::max(1, static_cast<int>(lanes_width(side) / 3.1)); }
  // From the centre line to the middle of a lane, 0 the innermost.
  double lane_distance(int side, int lane) const {
    return reservation_ + lanes_width(side) * (lane + 0.5) / lanes_of(side);
  }

  void add_lots(Scene& scene, Chunk& chunk) const;  // lots.cpp
  void add_lot(Scene& scene, Chunk& chunk, int side, double from, double to) const;
  void add_building_lot(Scene& scene, Chunk& chunk, int side, double from, double to) const;
  void add_garden(Scene& scene, Chunk& chunk, int side, double from, double to) const;
  void add_park(Scene& scene, Chunk& chunk, int side, double from, double to) const;
  void add_car_park(Scene& scene, Chunk& chunk, int side, double from, double to) const;
  void add_boundary(Scene& scene, Chunk& chunk, int side, double from, double to) const;
  void add_backdrop(Scene& scene, Chunk& chunk, int side) const;
  void add_side_street(Scene& scene, Chunk& chunk, const Opening& opening) const;

  void add_kerbside(Scene& scene, Chunk& chunk) const;  // kerbside.cpp
  void add_parked(Scene& scene, Chunk& chunk, int side) const;
  void add_beds(Scene& scene, Chunk& chunk, int side) const;
  void add_row(Scene& scene, Chunk& chunk, int side) const;
  void add_utility_line(Scene& scene, Chunk& chunk) const;
  void add_bystanders(Scene& scene, Chunk& chunk, int side) const;

  void choose_reservation();  // reservation.cpp
  void add_reservation(Scene& scene, Chunk& chunk) const;
  void add_to_reservation(Scene& scene, Chunk& chunk, double from, double to, Random& random) const;

  void add_vehicles(Scene& scene, double time, double reach) const;  // traffic.cpp
  void add_vehicle_row(Scene& scene, double time, double reach, int side, int lane,
                       double distance) const;
  void add_walkers(Scene& scene, double time, double reach) const;
  void add_cyclists(Scene& scene, double time, double reach) const;

  StreetOptions options_;
  Ground ground_;
  Style main_style_ = Style::suburb;
  bool parking_[2] = {true, true};  // right, left
  // Half the width of the central reservation, 0: none; what stands on it.
  double reservation_ = 0;
  enum class Reservation : std::uint8_t { bare, beds, hedge, rail, wall } on_reservation_{};
  double parked_share_ = 0.6;
  bool has_trees_ = true, has_utility_line_ = false;
  double tree_spacing_ = 11, lamp_spacing_ = 28;
  double storey_height_ = 9;  // usual height of blocks
  double ego_speed_ = 8, ego_lane_ = -2, ego_start_ = 0;
};

}  // namespace io::simulator
