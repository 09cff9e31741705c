#include <algorithm>
#include <array>
#include <vector>

#include "io/simulator/objects.hpp"

namespace io::simulator {
namespace {

// Side view of a vehicle, front towards +x, in metres.
struct Form {
  double length, width, height;
  double clearance;     // below the body
  double belt;          // where windows begin
  double bonnet;        // from the front to the foot of the windscreen
  double boot;          // from the back to the foot of the rear window
  double screen, rear;  // run of windscreen and rear window from foot to roof
  double wheel;         // radius
};

Form form_of(VehicleKind kind, Random& random) {
  Form form{};
  switch (kind) {
    case VehicleKind::hatchback:
      form = {3.95, 1.72, 1.48, 0.2, 0.92, 1.0, 0.12, 0.75, 0.35, 0.30};
      break;
    case VehicleKind::sedan:
      form = {4.6, 1.8, 1.44, 0.19, 0.9, 1.25, 0.95, 0.8, 0.7, 0.32};
      break;
    case VehicleKind::estate:
      form = {4.65, 1.8, 1.5, 0.19, 0.92, 1.2, 0.1, 0.8, 0.4, 0.32};
      break;
    case VehicleKind::suv:
      form = {4.65, 1.9, 1.75, 0.26, 1.08, 1.15, 0.1, 0.6, 0.3, 0.37};
      break;
    case VehicleKind::van:
      form = {5.3, 1.98, 2.25, 0.25, 1.2, 0.65, 0.05, 0.85, 0.08, 0.34};
      break;
    case VehicleKind::pickup:
      form = {5.4, 1.92, 1.82, 0.3, 1.1, 1.35, 1.75, 0.6, 0.15, 0.39};
      break;
    default:
      form = {7.5, 2.4, 3.2, 0.45, 1.5, 0.3, 0.02, 0.3, 0.05, 0.48};
      break;
  }
  const double scale = random.uniform(0.93, 1.07);
  form.length *= scale;
  form.width *= 0.5 + 0.5 * scale;
  form.height *= random.uniform(0.95, 1.05);
  return form;
}

Plane plane_through(Vec3 normal, Vec3 point) {
  const Vec3 n = normalised(normal);
  return {n, dot(n, point)};
}

struct Paint {
  Surface body, glass, dark;
};

Paint random_paint(std::uint16_t instance, Random& random) {
  const bool is_dark = random.chance(0.45);
  const double reflectance = is_dark ? random.uniform(0.03, 0.12) : random.uniform(0.25, 0.75);
  const double gloss = random.uniform(0.25, 0.7);
  const Surface base{.label = Label::vehicle,
                     .instance = instance,
                     .reflectance = static_cast<float>(reflectance),
                     .gloss = static_cast<float>(gloss)};
  Paint paint{base, base, base};
  paint.glass.texture = Texture::glass;
  paint.glass.gloss = 0.85f;
  paint.glass.density = static_cast<float>(random.uniform(0.25, 0.7));
  paint.dark.reflectance = 0.07f;
  paint.dark.gloss = 0;
  return paint;
}

// The lower body: sides that lean in slightly, nose and tail with their own slant, edges that are
// cut.
void add_lower_body(Scene& scene, const Stand& stand, const Form& f, const Surface& surface,
                    Random& random) {
  const double x = f.length / 2, y = f.width / 2;
  const double nose = random.uniform(0.04, 0.22), tail = random.uniform(0.02, 0.15),
               tuck = random.uniform(0.3, 0.6);
  const double bonnet_fall = random.uniform(0.02, 0.16);
  const std::array<Plane, 12> planes = {
      plane_through({1, 0, nose}, {x, 0, f.clearance + 0.3}),
      plane_through({-1, 0, tail}, {-x, 0, f.clearance + 0.3}),
      plane_through({1, 0, -0.6}, {x, 0, f.clearance + 0.15}),
      plane_through({-1, 0, -0.6}, {-x, 0, f.clearance + 0.15}),
      plane_through({0, 1, 0.09}, {0, y, f.belt * 0.7}),
      plane_through({0, -1, 0.09}, {0, -y, f.belt * 0.7}),
      plane_through({0.12, 0, 1}, {x - f.bonnet, 0, f.belt}),
      plane_through({bonnet_fall * 0.1, 0, 1}, {x - f.bonnet, 0, f.belt}),
      plane_through({tuck, 1, 0}, {x - 0.25, y, 0}),
      plane_through({tuck, -1, 0}, {x - 0.25, -y, 0}),
      plane_through({-tuck, 1, 0}, {-x + 0.2, y, 0}),
      plane_through({-tuck, -1, 0}, {-x + 0.2, -y, 0})};
  std::vector<Plane> all(planes.begin(), planes.end());
  all.push_back({{0, 0, -1}, -f.clearance});
  scene.add_hull(stand.base, stand.yaw, all,
                 {{-x - 0.1, -y - 0.05, f.clearance}, {x + 0.1, y + 0.05, f.belt + 0.35}}, surface);
}

void add_cabin(Scene& scene, const Stand& stand, const Form& f, const Paint& paint) {
  const double front = f.length / 2 - f.bonnet, back = -f.length / 2 + f.boot;
  const double rise = f.height - f.belt, y = f.width / 2 - 0.04, lean = 0.12;
  const std::array<Plane, 7> planes = {
      plane_through({rise, 0, f.screen}, {front, 0, f.belt}),
      plane_through({-rise, 0, f.rear}, {back, 0, f.belt}),
      plane_through({0, rise, lean * rise}, {0, y, f.belt}),
      plane_through({0, -rise, lean * rise}, {0, -y, f.belt}),
      Plane{{0, 0, -1}, -(f.belt - 0.05)},
      plane_through({0.03, 0, 1}, {front - f.screen, 0, f.height}),
      plane_through({-0.05, 0, 1},
                    {(front - f.screen) * 0.5 + (back + f.rear) * 0.5, 0, f.height})};
  scene.add_hull(stand.base, stand.yaw, planes,
                 {{back, -y, f.belt - 0.05}, {front, y, f.height + 0.06}}, paint.glass);
  // The pillars and seats that a beam through the windows may meet.
  const double middle = (front - f.screen + back + f.rear) / 2;
  scene.add_box(stand.at(middle, 0, f.belt + rise * 0.25), {0.08, y * 0.8, rise * 0.4}, stand.yaw,
                paint.dark);
  scene.add_box(stand.at(back + f.rear + 0.35, 0, f.belt + rise * 0.2), {0.08, y * 0.8, rise * 0.3},
                stand.yaw, paint.dark);
}

void add_wheels(Scene& scene, const Stand& stand, double front, double back, double side,
                double radius, const Surface& rubber) {
  for (const double x : {front, back}) {
    for (const double y : {-side, side}) {
      scene.add_ellipsoid(stand.at(x, y, radius), {radius, 0.13, radius}, stand.yaw, rubber);
    }
  }
}

void add_car(Scene& scene, const Stand& stand, VehicleKind kind, Random& random) {
  const Form form = form_of(kind, random);
  const Paint paint = random_paint(stand.instance, random);
  add_lower_body(scene, stand, form, paint.body, random);
  add_cabin(scene, stand, form, paint);
  const double x = form.length / 2;
  add_wheels(scene, stand, x - 0.8, -x + 0.8, form.width / 2 - 0.1, form.wheel, paint.dark);
  for (const double y : {-1.0, 1.0}) {
    scene.add_ellipsoid(
        stand.at(x - form.bonnet - 0.25, y * (form.width / 2 + 0.08), form.belt + 0.06),
        {0.07, 0.12, 0.08}, stand.yaw, paint.body);
  }
  // Number plates shine back at the sensor.
  Surface plate = paint.body;
  plate.reflectance = 1.3f;
  plate.gloss = 0;
  for (const double end : {-1.0, 1.0}) {
    scene.add_box(stand.at(end * (x + 0.01), 0, form.clearance + 0.32), {0.02, 0.26, 0.06},
                  stand.yaw, plate);
  }
  if (kind == VehicleKind::pickup) {  // the sides of the bed; the lower body is its floor
    for (const double y : {-1.0, 1.0}) {
      scene.add_box(stand.at(-x + form.boot / 2, y * (form.width / 2 - 0.08), form.belt + 0.12),
                    {form.boot / 2, 0.05, 0.2}, stand.yaw, paint.body);
    }
  }
  if ((kind == VehicleKind::estate || kind == VehicleKind::suv) &&
      random.chance(0.25)) {  // a roof box
    scene.add_box(stand.at(-0.3, 0, form.height + 0.2), {0.8, 0.4, 0.17}, stand.yaw, paint.dark);
  }
}

void add_cargo_body(Scene& scene, const Stand& stand, double back, double front, double width,
                    double floor, double top, const Surface& surface) {
  scene.add_box(stand.at((back + front) / 2, 0, (floor + top) / 2),
                {(front - back) / 2, width / 2, (top - floor) / 2}, stand.yaw, surface);
}

void add_truck(Scene& scene, const Stand& stand, Random& random) {
  const Paint paint = random_paint(stand.instance, random);
  const double half = vehicle_length(VehicleKind::truck) / 2 * random.uniform(0.8, 1.15);
  const double width = random.uniform(2.2, 2.5), cab_top = random.uniform(2.4, 3.0),
               cab = random.uniform(1.6, 2.1);
  const std::array<Plane, 7> planes = {plane_through({1, 0, 0.16}, {half, 0, 1.1}),
                                       Plane{{-1, 0, 0}, -(half - cab)},
                                       Plane{{0, 1, 0}, width / 2},
                                       Plane{{0, -1, 0}, width / 2},
                                       plane_through({0.06, 0, 1}, {half - 0.4, 0, cab_top}),
                                       Plane{{0, 0, -1}, -0.5},
                                       plane_through({1, 0, -0.5}, {half, 0, 0.8})};
  scene.add_hull(stand.base, stand.yaw, planes,
                 {{half - cab, -width / 2, 0.5}, {half, width / 2, cab_top + 0.15}}, paint.body);
  Surface cargo = paint.body;
  cargo.reflectance = static_cast<float>(random.uniform(0.2, 0.7));
  cargo.gloss = 0.2f;
  const int load = random.integer(4);
  const double front = half - cab - 0.15;
  if (load <= 1) {  // a box or a tarpaulin
    add_cargo_body(scene, stand, -half, front, width + 0.1, 1.0, random.uniform(2.9, 3.8), cargo);
  } else if (load == 2) {  // a flat bed with boards
    add_cargo_body(scene, stand, -half, front, width, 0.95, 1.15, cargo);
    for (const double y : {-1.0, 1.0}) {
      scene.add_box(stand.at((front - half) / 2, y * width / 2, 1.4),
                    {(front + half) / 2, 0.04, 0.28}, stand.yaw, cargo);
    }
  } else {  // a tank
    scene.add_capsule(stand.at(-half + 0.9, 0, 1.95), stand.at(front - 0.9, 0, 1.95), 0.9, cargo);
  }
  add_cargo_body(scene, stand, -half + 0.1, front, 0.9, 0.6, 0.95, paint.dark);
  add_wheels(scene, stand, half - 1.1, -half + 1.4, width / 2 - 0.15, 0.48, paint.dark);
}

void add_bus(Scene& scene, const Stand& stand, Random& random) {
  const Paint paint = random_paint(stand.instance, random);
  const double half = vehicle_length(VehicleKind::bus) / 2, width = 2.5,
               top = random.uniform(2.9, 3.3);
  scene.add_box(stand.at(0, 0, 0.85), {half, width / 2, 0.55}, stand.yaw, paint.body);
  scene.add_box(stand.at(0, 0, (1.4 + top - 0.35) / 2),
                {half - 0.03, width / 2 - 0.03, (top - 0.35 - 1.4) / 2}, stand.yaw, paint.glass);
  scene.add_box(stand.at(0, 0, top - 0.17), {half, width / 2, 0.18}, stand.yaw, paint.body);
  for (double x = -half + 0.05; x < half; x += 1.45) {  // pillars, then rows of seats
    scene.add_box(stand.at(x, 0, 1.9), {0.06, width / 2 - 0.01, 0.55}, stand.yaw, paint.body);
  }
  add_wheels(scene, stand, half - 2.6, -half + 2.9, width / 2 - 0.12, 0.48, paint.dark);
}

void add_trailer(Scene& scene, const Stand& stand, Random& random) {
  const Paint paint = random_paint(stand.instance, random);
  const bool is_caravan = random.chance(0.5);
  const double half = is_caravan ? 2.4 : 1.3, width = is_caravan ? 2.2 : 1.5,
               top = is_caravan ? 2.5 : random.uniform(0.8, 1.7);
  add_cargo_body(scene, stand, -half, half, width, 0.45, top, paint.body);
  scene.add_capsule(stand.at(half, 0, 0.5), stand.at(half + 1.1, 0, 0.45), 0.05, paint.dark);
  for (const double y : {-1.0, 1.0}) {
    scene.add_ellipsoid(stand.at(-0.1, y * (width / 2), 0.3), {0.3, 0.1, 0.3}, stand.yaw,
                        paint.dark);
  }
}

}  // namespace

VehicleKind random_parked_kind(Random& random) {
  constexpr std::array<VehicleKind, 12> kKinds = {
      VehicleKind::hatchback, VehicleKind::hatchback, VehicleKind::sedan,   VehicleKind::sedan,
      VehicleKind::estate,    VehicleKind::estate,    VehicleKind::suv,     VehicleKind::suv,
      VehicleKind::van,       VehicleKind::pickup,    VehicleKind::trailer, VehicleKind::truck};
  return kKinds[static_cast<std::size_t>(random.integer(random.chance(0.3) ? 12 : 9))];
}

VehicleKind random_moving_kind(Random& random) {
  if (random.chance(0.12)) return random.chance(0.5) ? VehicleKind::truck : VehicleKind::bus;
  const VehicleKind kind = random_parked_kind(random);
  return kind == VehicleKind::trailer ? VehicleKind::sedan : kind;
}

double vehicle_length(VehicleKind kind) {
  switch (kind) {
    case VehicleKind::bus:
      return 11.5;
    case VehicleKind::truck:
      return 7.5;
    case VehicleKind::van:
    case VehicleKind::pickup:
      return 5.4;
    default:
      return 4.7;
  }
}

void add_vehicle(Scene& scene, const Stand& stand, VehicleKind kind, Random& random) {
  switch (kind) {
    case VehicleKind::truck:
      return add_truck(scene, stand, random);
    case VehicleKind::bus:
      return add_bus(scene, stand, random);
    case VehicleKind::trailer:
      return add_trailer(scene, stand, random);
    default:
      return add_car(scene, stand, kind, random);
  }
}

}  // namespace io::simulator
