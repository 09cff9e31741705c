// Labelled lidar scans of procedural streets. The same options give the same bytes on every machine
// and for every number of threads. Classes: 0 ignore, 1 road, 2 sidewalk, 3 terrain, 4 building, 5
// fence, 6 vegetation, 7 vehicle, 8 person, 9 two-wheeler and rider, 10 pole or sign.
//   io::Simulator simulator({.sensor = "hdl64", .seed = 1});
//   const io::Cloud scan = simulator.frame(0);
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/cloud.hpp"

namespace io {

struct SimulatorOptions {
  std::string sensor = "hdl64";  // one of simulator_sensors()
  std::uint64_t seed = 1;        // of the street, its traffic and the sensor's noise
  // Multiples of the range noise (2 cm for hdl64), of how far beams waver within their footprint
  // (0.05 degrees) and of each beam's own error of range (6 mm). Real sensors have less noise and
  // hardly waver, but their beams differ: 0.3, 0.05 and 6 for hdl64, 0.22, 0.05 and 1 for hdl32.
  double noise = 1, waver = 1, bias = 1;
  double relief = 1;   // multiple of the roughness of surfaces (grass: 12 to 75 mm); real ones: 0.3
  double dropout = 1;  // multiple of the share of beams lost at random
  double rain = 0;     // 0 dry .. 1 heavy: returns from drops, near the sensor
  double wet = 0;      // 0 dry .. 1: roads and pavements that send shallow beams away, in patches
  double traffic = 1, people = 1, vegetation = 1, clutter = 1;  // how much of each, 1 = as usual
  double intensity_spread = 0;  // 0: reflectances as measured .. 1: scaled and bent at random
  double tilt = 0;              // degrees, standard deviation of the mount's pitch and roll
  double height_spread = 0;     // metres, standard deviation of the mount's height
  double ego_body = 1;          // probability that the own vehicle is in sight of its sensor
  int azimuth_stride = 1;  // every n-th azimuth step is taken: 2 for range images of half width

  // All of the above drawn at random, the sensor too: the endless source that training takes its
  // scans from.
  static SimulatorOptions randomised(std::uint64_t seed);
};

std::vector<std::string> simulator_sensors();      // hdl64 hdl32 vlp16 os1-128
std::vector<std::string> simulator_class_names();  // of the ids 0 .. 10

// Sensor frame to the sensor frame of scan 0: a 3 x 4 matrix, row-major, as in KITTI's poses.txt.
struct SimulatorPose {
  std::array<double, 12> matrix;
};

class Simulator {
 public:
  explicit Simulator(
      const SimulatorOptions& options);  // Error: unknown sensor, a negative or non-finite option
  ~Simulator();
  Simulator(Simulator&&) noexcept;
  Simulator& operator=(Simulator&&) noexcept;

  // Scan `index` (>= 0): x y z intensity (float32), label instance ring (uint16; ring 0 looks up
  // most), time (float32, seconds since scan 0); points by ring, then azimuth. The world stands
  // still while the sensor turns. Runs on the threads of the caller's arena; may be called from
  // several threads at once.
  Cloud frame(std::int64_t index) const;
  SimulatorPose pose(std::int64_t index) const;
  double frames_per_second() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace io
