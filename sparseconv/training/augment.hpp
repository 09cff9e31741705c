// Labelled scans made into others that might have been: turned, mirrored, thinned, of another
// sensor.
//   augment(scan, {.rotation = 180, .skip_azimuths = 0.5}, seed)
//
// Changes follow in the order of the options. The same scan, options and seed give the same scan.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "sparseconv/training/labelled_cloud.hpp"

namespace sparseconv::training {

// Objects cut out of scans, to be put into others: how rare classes become less rare.
class InstanceBank {
 public:
  // Takes the objects of these classes that have at least `least` points, from the numbers of
  // scan.instances. Call it in a fixed order: which object a seed pastes depends on it.
  void add(const LabelledCloud& scan, std::span<const std::int32_t> classes,
           std::int64_t least = 15);
  std::int64_t size() const { return static_cast<std::int64_t>(objects_.size()); }
  struct Object {
    LabelledCloud points;
    double ground = 0;                // height of the lowest surroundings, metres
    double x = 0, y = 0, radius = 0;  // of a circle around it, seen from above
  };
  const Object& operator[](std::int64_t i) const { return objects_[static_cast<std::size_t>(i)]; }

 private:
  std::vector<Object> objects_;
};

struct AugmentOptions {
  // Objects pasted, at most: each turned about the sensor to a place where there is ground and
  // nothing else, standing on it, hiding what lies behind. Needs a bank.
  int paste = 0;
  double skip_beams = 0;     // probability that every second beam is left out: by the cloud's
                             // `ring`, else half of the bands of elevation 0.5 degrees wide, at
                             // random
  double skip_azimuths = 0;  // probability that every second azimuth step is left out
  double drop = 0;           // points are left out at random: a share drawn from [0, drop]
  double rotation = 0;       // degrees about the vertical, drawn from +-rotation
  double flip = 0;           // probability of mirroring y
  double tilt = 0;           // degrees, standard deviation of pitch and roll
  double scale = 0;          // all lengths times a factor drawn from 1 +- scale
  double shift_z = 0;        // metres, standard deviation; of the whole scan
  double jitter = 0;         // metres, standard deviation; of every point on every axis
  double intensity =
      0;  // factor exp(intensity * normal) on the field `intensity`, where there is one

  // Probability that the field `intensity` is 0 everywhere: a network trained so does without where
  // a sensor has none, or one that means something else.
  double mute_intensity = 0;

  // For street scans: what the bundled model was trained with, but for 8 mm of jitter.
  static AugmentOptions street();
};

LabelledCloud augment(const LabelledCloud& scan, const AugmentOptions& options, std::uint64_t seed,
                      const InstanceBank* bank = nullptr);

// The rows of a scan, in the order given.
LabelledCloud rows_of(const LabelledCloud& scan, std::span<const std::int64_t> rows);

}  // namespace sparseconv::training
