#include "io/simulator/sensors.hpp"

#include <algorithm>

#include "gemm_core/base/error.hpp"

namespace io::simulator {
namespace {

void add_beams(std::vector<double>& elevations, int count, double first, double last) {
  for (int i = 0; i < count; ++i)
    elevations.push_back(first + (last - first) * i / std::max(1, count - 1));
}

// Metres by which relief moves the return along the beam: the surface stands `lift` above its mean.
double along_beam(double lift, double incidence) { return -lift / std::max(incidence, 0.04); }

bool is_ground(Label label) {
  return label == Label::road || label == Label::sidewalk || label == Label::terrain;
}

// `scale`: a factor on all heights.
double relief(const Surface& surface, double scale, Vec3 at, const Ray& ray, double incidence) {
  if (surface.roughness <= 0) return 0;
  const double roughness = surface.roughness * scale;
  if (surface.label == Label::terrain) {
    // Blades of grass: most beams go deep into a thin stand, and few into a thick one.
    const double thickness = 0.6 + 0.6 * smooth_noise(at.x / 2.5, at.y / 2.5, 77);
    const double height = roughness * thickness * unit(hash(ray.id, 3)) * 1.6;
    const double bump = 0.5 * roughness * smooth_noise(at.x / 1.2, at.y / 1.2, 78);
    return std::max(-1.2, along_beam(height, incidence)) +
           along_beam(bump, std::max(incidence, 0.15));
  }
  if (is_ground(surface.label)) {
    return along_beam(roughness * smooth_noise(at.x / 0.6, at.y / 0.6, 79),
                      std::max(incidence, 0.1));
  }
  return along_beam(roughness * bell(hash(ray.id, 3)) * 0.6, std::max(incidence, 0.3));
}

// Facades: a grid of windows. The glass lets most beams in; some come back from the frame or from
// inside.
struct Pane {
  bool is_window = false;
  double recess = 0;
  bool is_lost = false;
};

Pane facade(const Primitive& building, const Ray& ray, const Hit& hit) {
  if (hit.normal.z > 0.5 || hit.normal.z < -0.5) return {};
  const Yaw yaw{building.data[2].x, building.data[2].y};
  const Vec3 at = yaw.inverse(ray.origin + ray.direction * hit.distance - building.data[0]);
  const Vec3 normal = yaw.inverse(hit.normal);
  const bool is_front = std::abs(normal.y) > 0.5;
  const double along = (is_front ? at.x : at.y), up = at.z + building.data[1].z - 1.0;
  const double pitch = building.surface.scale, storey = 2.9;
  const double column = std::floor(along / pitch), row = std::floor(up / storey);
  const double u = along / pitch - column, v = up / storey - row;
  const std::uint64_t salt = hash(building.surface.instance, static_cast<std::int64_t>(column),
                                  static_cast<std::int64_t>(row));
  const bool has_window = unit(salt) < 0.85 && up > 0.2;
  if (!has_window || u < 0.22 || u > 0.78 || v < 0.28 || v > 0.82) return {};
  const double fate = unit(hash(ray.id, 5)),
               incidence = std::max(0.25, std::abs(dot(hit.normal, ray.direction)));
  const bool has_curtain = unit(mix(salt)) < 0.4;
  if (fate < 0.42) return {true, 0.12 / incidence, false};
  if (fate < 0.6)
    return {true, (has_curtain ? 0.35 : 0.6 + 3.5 * unit(hash(ray.id, 6))) / incidence, false};
  return {true, 0, true};
}

}  // namespace

std::vector<std::string> sensor_names() { return {"hdl64", "hdl32", "vlp16", "os1-128"}; }

Sensor make_sensor(std::string_view name) {
  Sensor sensor;
  sensor.name = name;
  if (name == "hdl64") {  // HDL-64E: the upper block of lasers is finer than the lower one
    add_beams(sensor.elevations, 32, 2.0, -8.333);
    add_beams(sensor.elevations, 32, -8.833, -24.9);
    sensor.azimuths = 2048;
    sensor.dropout = 0.006;
    sensor.clearance = 0.65;  // on a rack
    sensor.nearest = 2.2;
    sensor.farthest = 81;
  } else if (name == "hdl32") {  // HDL-32E at 20 turns a second
    add_beams(sensor.elevations, 32, 10.667, -30.667);
    sensor.azimuths = 1090;
    sensor.rate = 20;
    sensor.height = 1.84;
    sensor.nearest = 0.5;
    sensor.farthest = 105;
    sensor.sensitivity = 0.85;
    sensor.gain = 0.35;
  } else if (name == "vlp16") {
    add_beams(sensor.elevations, 16, 15, -15);
    sensor.azimuths = 1800;
    sensor.height = 1.9;
    sensor.nearest = 0.5;
    sensor.farthest = 100;
    sensor.noise = 0.015;
    sensor.sensitivity = 0.8;
    sensor.gain = 0.35;
  } else if (name == "os1-128") {
    add_beams(sensor.elevations, 128, 22.5, -22.5);
    sensor.azimuths = 2048;
    sensor.height = 1.9;
    sensor.nearest = 0.5;
    sensor.sensitivity = 0.75;
    sensor.gain = 0.6;
  } else {
    std::string names;
    for (const std::string& known : sensor_names()) names.append(" ").append(known);
    base::fail("simulator: unknown sensor '", name, "', expected one of:", names);
  }
  return sensor;
}

namespace {

// What comes back to the sensor before any of it is lost on the way.
struct Echo {
  double range = 0;                  // metres, with relief
  double strength = 0;               // of a perfect white surface at normal incidence: 1
  double corrected = 0;              // the same as sensors report it
  const Surface* surface = nullptr;  // null: nothing
};

// Whether a film of water sends a beam away: the shallower the beam, the likelier, and in patches.
bool is_drowned(double wetness, Vec3 at, const Ray& ray, double incidence) {
  if (incidence > 0.45) return false;
  const double patch = 0.7 + 0.6 * smooth_noise(at.x / 1.5, at.y / 1.5, 81);
  const double shallow = std::min(1.0, (0.45 - incidence) / 0.3);
  return unit(hash(ray.id, 12)) < wetness * patch * shallow;
}

Echo echo_of(const Calibration& calibration, const Ray& ray, const Hit& hit) {
  const Surface& surface = hit.primitive->surface;
  Echo echo{.range = hit.distance, .surface = &surface};
  double incidence = std::abs(dot(hit.normal, ray.direction));
  double reflectance = surface.reflectance;
  if (surface.texture == Texture::foliage) {
    incidence = 0.25 + 0.75 * unit(hash(ray.id, 7));  // leaves face everywhere
    reflectance *= 0.75 + 0.5 * unit(hash(ray.id, 8));
  }
  if (surface.texture == Texture::facade) {
    const Pane pane = facade(*hit.primitive, ray, hit);
    if (pane.is_lost) return {};
    echo.range += pane.recess;
    if (pane.is_window) reflectance *= 0.6;
  }
  const Vec3 at = ray.origin + ray.direction * hit.distance;
  const bool is_paved = surface.label == Label::road || surface.label == Label::sidewalk;
  if (is_paved && calibration.wetness > 0 && is_drowned(calibration.wetness, at, ray, incidence))
    return {};
  echo.range += relief(surface, calibration.relief, at, ray, incidence);
  // Mirrors: the share that is not diffuse comes back only when the surface faces the sensor.
  const double c4 = incidence * incidence * incidence * incidence;
  const double diffuse = reflectance * (1 - surface.gloss);
  const double shine = surface.gloss * 1.4 * c4 * c4 * c4;
  echo.strength = diffuse * (0.35 + 0.65 * incidence) + shine;
  // Sensors correct most of what slant takes.
  echo.corrected = diffuse * (0.75 + 0.25 * incidence) + shine;
  return echo;
}

// `clear`: the share of light that the air lets through. The intensity is not yet what the device
// makes of it.
std::optional<Return> detect(const Sensor& sensor, const Calibration& calibration, const Ray& ray,
                             const Echo& echo, double clear) {
  Return result{echo.range, 0, echo.surface->label, echo.surface->instance};
  // The echo of a dim surface (0.1 at normal incidence) is as likely lost as not at 75 m, times the
  // sensitivity.
  const double relative = result.range / (75 * sensor.sensitivity);
  const double signal = echo.strength * 10 * clear;
  const double detected = signal / (signal + relative * relative * relative * relative);
  const double luck = unit(hash(ray.id, 9));
  if (luck >= detected * (1 - sensor.dropout)) return std::nullopt;
  const double spread = 0.85 + 0.01 * result.range;
  result.range += sensor.noise * spread * bell(hash(ray.id, 10));
  if (result.range < sensor.nearest || result.range > sensor.farthest) return std::nullopt;
  // Near the sensor the receiver is out of focus, far away the echo is weak.
  const double focus =
      result.range < 6 ? 0.6 + 0.4 * result.range / 6 : 1 - 0.003 * (result.range - 6);
  const double speckle = 1 + 0.16 * bell(hash(ray.id, 11));
  const double material = calibration.material[static_cast<std::size_t>(echo.surface->label)];
  const double intensity =
      sensor.gain * calibration.gain * material * echo.corrected * std::max(0.3, focus) * speckle;
  result.intensity = std::clamp(intensity, 0.0, 1.0);
  return result;
}

}  // namespace

void sense(const Sensor& sensor, const Calibration& calibration, std::span<const Ray> rays,
           std::span<const Hit> hits, std::span<std::optional<Return>> returns) {
  std::array<Echo, kBatch> echoes;
  Batch clear{};
  for (std::size_t i = 0; i < rays.size(); ++i) {
    echoes[i] = echo_of(calibration, rays[i], hits[i]);
    clear[i] = -echoes[i].range / 400;
  }
  exponential(clear);
  Batch intensity;
  intensity.fill(1);
  for (std::size_t i = 0; i < rays.size(); ++i) {
    returns[i].reset();
    if (echoes[i].surface == nullptr) continue;
    returns[i] = detect(sensor, calibration, rays[i], echoes[i], clear[i]);
    if (returns[i] && returns[i]->intensity > 0) intensity[i] = returns[i]->intensity;
  }
  if (calibration.power != 1) {
    natural_log(intensity);
    for (double& v : intensity) v = calibration.power * v;
    exponential(intensity);
  }
  for (std::size_t i = 0; i < rays.size(); ++i) {
    if (!returns[i]) continue;
    double& v = returns[i]->intensity;
    if (v > 0) v = intensity[i];
    // Sensors report whole steps.
    v = std::floor(std::clamp(v + calibration.floor, 0.0, 1.0) * 255 + 0.5) / 255;
  }
}

}  // namespace io::simulator
