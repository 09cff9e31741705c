// The ground of an endless street: a gently curved and sloped centre line with strips beside it
// (road, kerb, verge, pavement, yards, land). A place is given by s (metres along the street) and d
// (metres to the left of its centre).
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "io/simulator/scene.hpp"

namespace io::simulator {

enum class Style : std::uint8_t { town, suburb, park, commerce };

// What holds for the whole street.
struct StreetShape {
  double half_road = 4;  // metres from the centre to the kerb
  double kerb = 0.12;    // height
  double crown = 0.02;   // fall of the road from the centre to the kerb, per metre
  double verge = 0;      // width of the grass between kerb and pavement, 0 for none
  double pavement = 2;   // width
  double yard = 5;       // from the pavement to the fronts of buildings
  bool has_sidewalk = true;
  double bend[2] = {0, 0}, bend_length[2] = {200, 90}, bend_phase[2] = {0, 0};
  double hill = 0, hill_length = 300, hill_phase = 0;  // of the centre line
  double relief = 1;                                   // metres of relief of the land beside
  double grass = 0.05;                                 // metres: height of its blades
  double bias[2] = {0, 0};  // right, left: that land climbs (> 0) or falls away, over relief
  std::uint64_t salt = 0;
  static StreetShape random(std::uint64_t seed);
};

// Where the strips are cut by a side street or a driveway.
struct Opening {
  double begin = 0, end = 0;  // along the street
  int side = 1;               // +1 left, -1 right
  bool is_street = false;     // a side street goes on beyond the yard, a driveway ends there
};

class Ground {
 public:
  explicit Ground(const StreetShape& shape) : shape_(shape) {}
  const StreetShape& shape() const { return shape_; }

  double centre(double s) const;            // y of the centre line
  Yaw heading(double s) const;              // of the centre line
  double height(double s, double d) const;  // openings left aside
  Vec3 place(double s, double d, double above = 0) const;
  double front() const { return strips_outer(4); }  // d of the fronts of buildings
  double pavement_begin() const { return strips_outer(2); }
  double pavement_end() const { return strips_outer(3); }

  // Adds the surface between s0 and s1.
  void add_to(Scene& scene, double s0, double s1, Style style,
              const std::vector<Opening>& openings) const;

 private:
  static constexpr int kStrips = 9;      // road, kerb, verge, pavement, yard, 4 x land
  double strips_outer(int strip) const;  // |d| of the far edge of a strip
  double edge_height(double s, int side, int edge, bool is_open) const;
  Surface surface(int strip, Style style, double s, int side, const Opening* opening,
                  double into) const;

  StreetShape shape_;
};

}  // namespace io::simulator
