// Named sensors, and what a sensor makes of the surface that a beam has met.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/simulator/scene.hpp"

namespace io::simulator {

struct Sensor {
  std::string name;
  std::vector<double> elevations;  // degrees, highest first
  int azimuths = 0;                // steps a turn
  double rate = 10;                // turns a second
  double height = 1.73;            // above the ground
  double clearance = 0.36;         // above the roof of its vehicle
  double nearest = 0.9, farthest = 120;
  double noise = 0.02;     // metres, standard deviation at 20 m
  double dropout = 0.01;   // share of beams lost at random; 0.4 times as many again in rows
  double sensitivity = 1;  // range at which a dim surface is lost, relative to hdl64
  double gain = 1;         // of the intensity
};

Sensor make_sensor(std::string_view name);  // Error lists the names
std::vector<std::string> sensor_names();

// How intensities and ranges come about, besides the surface.
struct Calibration {
  double gain = 1, power = 1, floor = 0;
  // A factor for each label: other wavelengths and other towns see the same materials differently.
  std::array<double, 11> material{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  double relief = 1;   // a factor on the roughness of all surfaces
  double wetness = 0;  // of roads and pavements, 0 to 1: the share of shallow beams that are lost
};

struct Return {
  double range = 0, intensity = 0;
  Label label = Label::ignore;
  std::uint16_t instance = 0;
};

// The returns of up to kBatch beams with a hit each, or nothing where one is lost. Each depends on
// its ray.id alone besides the arguments.
void sense(const Sensor& sensor, const Calibration& calibration, std::span<const Ray> rays,
           std::span<const Hit> hits, std::span<std::optional<Return>> returns);

}  // namespace io::simulator
