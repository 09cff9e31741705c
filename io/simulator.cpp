#include "io/simulator.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "gemm_core/base/parallel.hpp"
#include "io/simulator/sensors.hpp"
#include "io/simulator/street.hpp"

namespace io {

using namespace simulator;

namespace {

struct Rotation {
  Vec3 x{1, 0, 0}, y{0, 1, 0}, z{0, 0, 1};  // columns: the axes of the sensor in the world
  Vec3 to_world(Vec3 v) const { return x * v.x + y * v.y + z * v.z; }
  Vec3 to_sensor(Vec3 v) const { return {dot(x, v), dot(y, v), dot(z, v)}; }
};

struct Frame {
  Vec3 position;
  Rotation rotation;
};

// The frame whose x axis looks along `forward` and whose y axis is nearest to `left`.
Rotation frame_of(Vec3 forward, Vec3 left) {
  const Vec3 x = normalised(forward);
  const Vec3 z = normalised(cross(x, left));
  return {x, cross(z, x), z};
}

// x' = x + angle * y and so on, made orthogonal: for small angles.
Rotation tilted(const Rotation& r, double pitch, double roll) {
  return frame_of(r.x + r.z * pitch, r.y + r.z * roll);
}

void check(double value, const char* name) {
  ENSURE(std::isfinite(value) && value >= 0 && value <= 100, "simulator: ", name, " is ", value,
         ", expected 0 to 100");
}

struct Sample {
  float range = -1, intensity = 0;
  std::uint16_t label = 0, instance = 0;
  std::array<float, 3> point{};
};

}  // namespace

struct Simulator::Impl {
  SimulatorOptions options;
  Sensor sensor;
  Street street;
  Calibration calibration;
  double mount_pitch = 0, mount_roll = 0, height = 1.73;
  bool shows_body = true;
  std::vector<Vec3> beams;        // (cosine, sine of the elevation, 0)
  std::vector<double> beam_bias;  // metres
  std::vector<Vec3> azimuths;     // (cosine, sine, 0)

  explicit Impl(const SimulatorOptions& o)
      : options(o),
        sensor(make_sensor(o.sensor)),
        street({o.seed, o.traffic, o.people, o.vegetation, o.clutter}) {
    Random random(hash(o.seed, 3));
    sensor.noise *= o.noise;
    sensor.dropout = std::min(0.95, sensor.dropout * o.dropout);
    mount_pitch = random.gaussian() * o.tilt * kPi / 180;
    mount_roll = random.gaussian() * o.tilt * kPi / 180;
    height = sensor.height + random.gaussian() * o.height_spread;
    shows_body = random.chance(o.ego_body);
    const double spread = o.intensity_spread;
    calibration.gain = exponential(random.gaussian() * 0.6 * spread);
    calibration.power = exponential(random.gaussian() * 0.35 * spread);
    calibration.floor = std::max(0.0, random.gaussian() * 0.03 * spread);
    calibration.wetness = o.wet;
    calibration.relief = o.relief;
    Random materials(hash(o.seed, 5));
    for (double& factor : calibration.material)
      factor = exponential(materials.gaussian() * 0.35 * spread);
    for (const double elevation : sensor.elevations) {  // each device has its own small errors
      const double radians = (elevation + 0.03 * random.gaussian()) * kPi / 180;
      beams.push_back({cosine(radians), sine(radians), 0});
      beam_bias.push_back(0.006 * random.gaussian() * o.bias);
    }
    for (int i = 0; i < sensor.azimuths; i += o.azimuth_stride) {
      const double angle = 2 * kPi * i / sensor.azimuths;
      azimuths.push_back({cosine(angle), sine(angle), 0});
    }
  }

  double time_of(std::int64_t index) const { return static_cast<double>(index) / sensor.rate; }

  Stand ego_stand(std::int64_t index) const {
    const double s = street.ego_s(time_of(index));
    return {street.ground().place(s, street.ego_lane()), street.ground().heading(s), 0};
  }

  Frame sensor_frame(std::int64_t index) const {
    const double s = street.ego_s(time_of(index)), d = street.ego_lane();
    const Ground& ground = street.ground();
    const Vec3 ahead = ground.place(s + 1.4, d) - ground.place(s - 1.4, d);
    const Vec3 across = ground.place(s, d + 0.8) - ground.place(s, d - 0.8);
    const Rotation body = frame_of(ahead, across);
    // The body sways on its springs: up to half a degree, slowly.
    const double t = time_of(index) * 0.9;
    const double pitch = mount_pitch + 0.004 * smooth_noise(t, 0.5, hash(options.seed, 61));
    const double roll = mount_roll + 0.004 * smooth_noise(t, 0.5, hash(options.seed, 62));
    return {ground.place(s, d) + body.z * height, tilted(body, pitch, roll)};
  }

  Scene scene_of(std::int64_t index) const {
    Scene scene;
    street.add_to(scene, time_of(index), std::min(120.0, sensor.farthest + 5));
    if (shows_body) {
      Random random(hash(options.seed, 7));
      add_ego_body(scene, ego_stand(index), height, sensor.clearance, random);
    }
    scene.build();
    return scene;
  }

  void shoot(const Scene& scene, const Frame& frame, std::int64_t index, std::size_t ring,
             std::size_t first_step, std::span<Sample> samples) const;
};

// Neighbouring beams of a ring, at most kBatch: their directions waver within their footprints,
// rain may stop them, and surfaces may lose them.
void Simulator::Impl::shoot(const Scene& scene, const Frame& frame, std::int64_t index,
                            std::size_t ring, std::size_t first_step,
                            std::span<Sample> samples) const {
  const double waver = 0.0009 * options.waver;  // radians
  const std::uint64_t beams_of_frame = hash(options.seed, 71, index),
                      gaps_of_ring = hash(options.seed, 73, index, static_cast<std::int64_t>(ring));
  const std::size_t count = samples.size();
  const Vec3 beam = beams[ring];
  std::array<Ray, kBatch> rays;
  std::array<Vec3, kBatch> straight;
  std::array<Hit, kBatch> hits;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t step = first_step + i;
    const std::uint64_t id =
        hash_on(beams_of_frame, static_cast<std::int64_t>(ring * azimuths.size() + step));
    const double up = waver * (2 * unit(hash(id, 1)) - 1),
                 aside = waver * (2 * unit(hash(id, 2)) - 1);
    const Vec3 azimuth = azimuths[step];
    const Vec3 level{azimuth.x, azimuth.y, 0}, left{-azimuth.y, azimuth.x, 0};
    straight[i] = {level.x * beam.x, level.y * beam.x, beam.y};
    const Vec3 upright{-level.x * beam.y, -level.y * beam.y, beam.x};
    const Vec3 direction = normalised(straight[i] + left * aside + upright * up);
    rays[i] = {frame.position, frame.rotation.to_world(direction), id, sensor.farthest + 1};
  }
  scene.cast(std::span(rays).first(count), std::span(hits).first(count));

  // Beams are lost one by one and, now and then, a dozen in a row.
  std::array<Ray, kBatch> kept;
  std::array<Hit, kBatch> kept_hits;
  std::array<std::size_t, kBatch> place;
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto dozen = static_cast<std::int64_t>((first_step + i) / 12);
    const bool is_gap = unit(hash_on(gaps_of_ring, dozen)) < 0.4 * sensor.dropout;
    if (hits[i].primitive == nullptr || is_gap) continue;
    kept[found] = rays[i];
    kept_hits[found] = hits[i];
    place[found++] = i;
  }
  std::array<std::optional<Return>, kBatch> sensed, returns;
  sense(sensor, calibration, std::span(kept).first(found), std::span(kept_hits).first(found),
        sensed);
  for (std::size_t i = 0; i < found; ++i) returns[place[i]] = sensed[i];

  const double drops = 0.05 * options.rain;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t id = rays[i].id;
    if (drops > 0 && unit(hash(id, 20)) < drops) {
      const double range = sensor.nearest - 3.5 * natural_log(1 - unit(hash(id, 21)));
      if (hits[i].primitive == nullptr || range < hits[i].distance)
        returns[i] = Return{range, 0.02 * unit(hash(id, 22)), Label::ignore, 0};
    }
    Sample& sample = samples[i];
    sample = {};
    if (!returns[i]) continue;
    const double range = returns[i]->range + beam_bias[ring];
    const Vec3 point = straight[i] * range;  // the sensor does not know that its beam wavered
    sample.range = static_cast<float>(range);
    sample.intensity = static_cast<float>(returns[i]->intensity);
    sample.label = static_cast<std::uint16_t>(returns[i]->label);
    sample.instance = returns[i]->instance;
    sample.point = {static_cast<float>(point.x), static_cast<float>(point.y),
                    static_cast<float>(point.z)};
  }
}

Simulator::Simulator(const SimulatorOptions& options) {
  check(options.noise, "noise");
  check(options.waver, "waver");
  check(options.bias, "bias");
  check(options.relief, "relief");
  check(options.dropout, "dropout");
  check(options.rain, "rain");
  check(options.wet, "wet");
  check(options.traffic, "traffic");
  check(options.people, "people");
  check(options.vegetation, "vegetation");
  check(options.clutter, "clutter");
  check(options.intensity_spread, "intensity_spread");
  check(options.tilt, "tilt");
  check(options.height_spread, "height_spread");
  check(options.ego_body, "ego_body");
  ENSURE(options.azimuth_stride >= 1 && options.azimuth_stride <= 64,
         "simulator: azimuth_stride is ", options.azimuth_stride, ", expected 1 to 64");
  impl_ = std::make_unique<Impl>(options);
}
Simulator::~Simulator() = default;
Simulator::Simulator(Simulator&&) noexcept = default;
Simulator& Simulator::operator=(Simulator&&) noexcept = default;

double Simulator::frames_per_second() const { return impl_->sensor.rate; }

Cloud Simulator::frame(std::int64_t index) const {
  ENSURE(index >= 0, "simulator: frame ", index, " must not be negative");
  const Impl& impl = *impl_;
  const Scene scene = impl.scene_of(index);
  const Frame frame = impl.sensor_frame(index);
  const std::size_t rings = impl.beams.size(), steps = impl.azimuths.size();
  std::vector<Sample> samples(rings * steps);
  base::parallel_blocks(
      static_cast<std::int64_t>(steps), 32, [&](std::int64_t begin, std::int64_t end) {
        constexpr std::int64_t kBeams = kBatch;
        for (std::size_t ring = 0; ring < rings; ++ring) {
          for (std::int64_t step = begin; step < end; step += kBeams) {
            const auto first = static_cast<std::size_t>(step);
            impl.shoot(
                scene, frame, index, ring, first,
                std::span(samples).subspan(ring * steps + first,
                                           static_cast<std::size_t>(std::min(kBeams, end - step))));
          }
        }
      });
  std::vector<float> x, y, z, intensity, time;
  std::vector<std::uint16_t> label, instance, ring_of;
  const double start = impl.time_of(index), turn = 1 / impl.sensor.rate;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Sample& sample = samples[i];
    if (sample.range < 0) continue;
    x.push_back(sample.point[0]);
    y.push_back(sample.point[1]);
    z.push_back(sample.point[2]);
    intensity.push_back(sample.intensity);
    label.push_back(sample.label);
    instance.push_back(sample.instance);
    ring_of.push_back(static_cast<std::uint16_t>(i / steps));
    time.push_back(static_cast<float>(start + turn * static_cast<double>(i % steps) /
                                                  static_cast<double>(steps)));
  }
  Cloud cloud(static_cast<std::int64_t>(x.size()));
  cloud.add<float>("x", x);
  cloud.add<float>("y", y);
  cloud.add<float>("z", z);
  cloud.add<float>("intensity", intensity);
  cloud.add<std::uint16_t>("label", label);
  cloud.add<std::uint16_t>("instance", instance);
  cloud.add<std::uint16_t>("ring", ring_of);
  cloud.add<float>("time", time);
  cloud.width = cloud.size();
  cloud.format = "simulator";
  return cloud;
}

SimulatorPose Simulator::pose(std::int64_t index) const {
  ENSURE(index >= 0, "simulator: pose ", index, " must not be negative");
  if (index == 0) return {{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}};
  const Frame first = impl_->sensor_frame(0), now = impl_->sensor_frame(index);
  const Vec3 move = first.rotation.to_sensor(now.position - first.position);
  const Vec3 x = first.rotation.to_sensor(now.rotation.x),
             y = first.rotation.to_sensor(now.rotation.y);
  const Vec3 z = first.rotation.to_sensor(now.rotation.z);
  return {{x.x, y.x, z.x, move.x, x.y, y.y, z.y, move.y, x.z, y.z, z.z, move.z}};
}

std::vector<std::string> simulator_sensors() { return sensor_names(); }

std::vector<std::string> simulator_class_names() {
  return {"ignore",     "road",    "sidewalk", "terrain",     "building", "fence",
          "vegetation", "vehicle", "person",   "two-wheeler", "pole"};
}

SimulatorOptions SimulatorOptions::randomised(std::uint64_t seed) {
  Random random(hash(seed, 91));
  SimulatorOptions options;
  options.seed = seed;
  const double which = random.uniform();
  options.sensor = which < 0.45   ? "hdl64"
                   : which < 0.88 ? "hdl32"
                   : which < 0.94 ? "os1-128"
                                  : "vlp16";
  if (options.sensor == "hdl64") options.azimuth_stride = random.chance(0.6) ? 2 : 1;
  if (options.sensor == "os1-128") options.azimuth_stride = 2 + random.integer(3);
  // Most as real sensors are (hdl64 6 mm, hdl32 4.5 mm), some better, some much worse.
  const double usual = options.sensor == "hdl64" ? 0.32 : options.sensor == "hdl32" ? 0.22 : 0.4;
  options.noise = usual * 0.5 * exponential(random.uniform(0, 1.8));
  options.dropout = random.uniform(0.5, 8);
  options.rain = random.chance(0.1) ? random.uniform(0, 0.8) : 0.0;
  options.traffic = random.uniform(0.4, 1.8);
  options.people = random.uniform(0.4, 3);
  options.vegetation = random.uniform(0.7, 2.5);
  options.clutter = random.uniform(0.3, 2.5);
  options.intensity_spread = 1;
  options.tilt = 0.8;
  options.height_spread = 0.12;
  options.ego_body = options.sensor == "hdl64" ? 0.5 : 0.9;
  options.wet = random.chance(0.15) ? random.uniform(0.1, 1) : 0.0;
  options.waver = random.uniform(0, 0.1);
  options.bias = options.sensor == "hdl64" ? random.uniform(2, 8) : random.uniform(0.3, 2.5);
  options.relief = 0.15 * exponential(random.uniform(0, 1.8));
  if (random.chance(0.3)) {
    options.noise = random.uniform(0.7, 1.3);
    options.waver = random.uniform(0.3, 1);
    options.relief = 1;
  }
  return options;
}

}  // namespace io
