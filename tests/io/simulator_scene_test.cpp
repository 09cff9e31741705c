// The pieces under the simulator: its own arithmetic, the shapes, and the hierarchy that finds the
// nearest of them.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "io/simulator/intersect.hpp"
#include "io/simulator/math.hpp"
#include "io/simulator/scene.hpp"
#include "io/simulator/street.hpp"

namespace io::simulator {
namespace {

TEST(SimulatorMath, AgreesWithTheLibraryItReplaces) {
  for (double x = -50; x < 50; x += 0.0371) {
    EXPECT_NEAR(sine(x), std::sin(x), 1e-11) << x;
    EXPECT_NEAR(cosine(x), std::cos(x), 1e-11) << x;
    EXPECT_NEAR(exponential(x) / std::exp(x), 1, 1e-12) << x;
  }
  for (double x = 1e-9; x < 1e9; x *= 1.37) EXPECT_NEAR(natural_log(x), std::log(x), 1e-12) << x;
}

TEST(SimulatorMath, ABatchGivesTheBitsOfEachNumberAlone) {
  Random random(11);
  for (int repeat = 0; repeat < 200; ++repeat) {
    Batch x, y;
    for (int k = 0; k < kBatch; ++k) {
      x[static_cast<std::size_t>(k)] = random.uniform(-690, 690);
      y[static_cast<std::size_t>(k)] = exponential(random.uniform(-30, 30));
    }
    Batch powers = x, logs = y;
    exponential(powers);
    natural_log(logs);
    for (std::size_t k = 0; k < powers.size(); ++k) {
      ASSERT_EQ(powers[k], exponential(x[k])) << x[k];
      ASSERT_NEAR(powers[k] / std::exp(x[k]), 1, 1e-11) << x[k];
      ASSERT_EQ(logs[k], natural_log(y[k])) << y[k];
    }
  }
}

TEST(SimulatorMath, BellHasZeroMeanAndUnitVariance) {
  double sum = 0, squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double v = bell(mix(static_cast<std::uint64_t>(i)));
    sum += v / kCount;
    squares += v * v / kCount;
  }
  EXPECT_NEAR(sum, 0, 0.02);
  EXPECT_NEAR(squares, 1, 0.02);
}

TEST(SimulatorMath, RandomIntegersStayBelowTheirCount) {
  Random random(3);
  std::vector<int> seen(5, 0);
  for (int i = 0; i < 1000; ++i) ++seen.at(static_cast<std::size_t>(random.integer(5)));
  for (const int count : seen) EXPECT_GT(count, 120);
}

std::optional<Hit> hit_alone(const auto& add, Vec3 origin, Vec3 direction) {
  Scene scene;
  add(scene);
  scene.build();
  return scene.cast({origin, normalised(direction), 1, 100});
}

void expect_hit(const std::optional<Hit>& hit, double distance, Vec3 normal) {
  ASSERT_TRUE(hit);
  EXPECT_NEAR(hit->distance, distance, 1e-9);
  EXPECT_NEAR(hit->normal.x, normal.x, 1e-6);
  EXPECT_NEAR(hit->normal.y, normal.y, 1e-6);
  EXPECT_NEAR(hit->normal.z, normal.z, 1e-6);
}

const Surface kSolid{};

TEST(SimulatorShapes, BoxIsMetAtItsFace) {
  const auto box = [](Scene& s) { s.add_box({10, 0, 0}, {1, 2, 3}, Yaw{}, kSolid); };
  expect_hit(hit_alone(box, {0, 0, 0}, {1, 0, 0}), 9, {-1, 0, 0});
  expect_hit(hit_alone(box, {10, 0, 10}, {0, 0, -1}), 7, {0, 0, 1});
  EXPECT_FALSE(hit_alone(box, {0, 2.1, 0}, {1, 0, 0}));
  EXPECT_FALSE(hit_alone(box, {0, 0, 0}, {-1, 0, 0}));
}

TEST(SimulatorShapes, TurnedBoxIsMetAtItsOtherFace) {
  const auto box = [](Scene& s) {
    s.add_box({10, 0, 0}, {1, 2, 3}, Yaw::of_angle(kPi / 2), kSolid);
  };
  expect_hit(hit_alone(box, {0, 0, 0}, {1, 0, 0}), 8, {-1, 0, 0});
}

TEST(SimulatorShapes, EllipsoidIsMetAtItsPole) {
  const auto ball = [](Scene& s) { s.add_ellipsoid({0, 0, 5}, {1, 2, 3}, Yaw{}, kSolid); };
  expect_hit(hit_alone(ball, {0, 0, 0}, {0, 0, 1}), 2, {0, 0, -1});
  expect_hit(hit_alone(ball, {-9, 0, 5}, {1, 0, 0}), 8, {-1, 0, 0});
  EXPECT_FALSE(hit_alone(ball, {1.01, 0, 0}, {0, 0, 1}));
}

TEST(SimulatorShapes, CapsuleIsMetOnItsSideAndItsCaps) {
  const auto pole = [](Scene& s) { s.add_capsule({5, 0, 0}, {5, 0, 4}, 0.5, kSolid); };
  expect_hit(hit_alone(pole, {0, 0, 2}, {1, 0, 0}), 4.5, {-1, 0, 0});
  expect_hit(hit_alone(pole, {5, 0, 9}, {0, 0, -1}), 4.5, {0, 0, 1});
  EXPECT_FALSE(hit_alone(pole, {0, 0.6, 2}, {1, 0, 0}));
  EXPECT_FALSE(hit_alone(pole, {0, 0, 4.6}, {1, 0, 0}));
}

TEST(SimulatorShapes, FrustumIsMetOnItsSlopeAndItsLid) {
  const auto cone = [](Scene& s) { s.add_frustum({5, 0, 0}, 2, 1, 2, kSolid); };
  const double c = 2 / std::sqrt(5.0), s = 1 / std::sqrt(5.0);
  expect_hit(hit_alone(cone, {0, 0, 1}, {1, 0, 0}), 3.5, {-c, 0, s});
  expect_hit(hit_alone(cone, {5.5, 0, 9}, {0, 0, -1}), 7, {0, 0, 1});
  EXPECT_FALSE(hit_alone(cone, {0, 0, 2.1}, {1, 0, 0}));
  EXPECT_FALSE(hit_alone(cone, {0, 1.6, 1}, {1, 0, 0}));
}

TEST(SimulatorShapes, HullIsTheBoxOfItsPlanes) {
  const auto hull = [](Scene& s) {
    const std::vector<Plane> planes = {{{1, 0, 0}, 1},  {{-1, 0, 0}, 1}, {{0, 1, 0}, 2},
                                       {{0, -1, 0}, 2}, {{0, 0, 1}, 3},  {{0, 0, -1}, 3}};
    s.add_hull({10, 0, 0}, Yaw::of_angle(kPi / 2), planes, {{-1, -2, -3}, {1, 2, 3}}, kSolid);
  };
  expect_hit(hit_alone(hull, {0, 0, 0}, {1, 0, 0}), 8, {-1, 0, 0});
  EXPECT_FALSE(hit_alone(hull, {0, 1.1, 0}, {1, 0, 0}));
}

TEST(SimulatorShapes, TriangleIsMetFromBothSides) {
  const auto flat = [](Scene& s) { s.add_triangle({0, 0, 0}, {4, 0, 0}, {0, 4, 0}, kSolid); };
  expect_hit(hit_alone(flat, {1, 1, 3}, {0, 0, -1}), 3, {0, 0, 1});
  expect_hit(hit_alone(flat, {1, 1, -3}, {0, 0, 1}), 3, {0, 0, -1});
  EXPECT_FALSE(hit_alone(flat, {3, 3, 3}, {0, 0, -1}));
}

// Beer-Lambert: of the beams that cross a medium of density s over a length L, exp(-s L) pass.
// Clumps fill (1 - 0.95^2 / 2) of the volume here: the sum of two uniform numbers is below 1.05.
TEST(SimulatorShapes, FoliageLetsTheExpectedShareOfBeamsThrough) {
  Scene scene;
  Surface leaves;
  leaves.texture = Texture::foliage;
  leaves.density = 0.6f;
  leaves.scale = 0.05f;  // many clumps along each beam: their mean is what counts
  scene.add_box({10, 0, 0}, {1, 5, 5}, Yaw{}, leaves);
  scene.build();
  int passed = 0;
  constexpr int kRays = 20000;
  Random random(4);
  for (int i = 0; i < kRays; ++i) {
    const double y = random.uniform(-4, 4), z = random.uniform(-4, 4);
    if (!scene.cast({{0, y, z}, {1, 0, 0}, random.next(), 100})) ++passed;
  }
  const double density = 0.6 * (1 - 0.95 * 0.95 / 2);
  EXPECT_NEAR(static_cast<double>(passed) / kRays, std::exp(-density * 2), 0.02);
}

TEST(SimulatorShapes, SlatsLetBeamsThroughTheirGaps) {
  Scene scene;
  Surface boards;
  boards.texture = Texture::slats;
  boards.scale = 0.5f;
  boards.density = 0.4f;
  scene.add_box({10, 0, 0}, {50, 0.01, 5}, Yaw::of_angle(kPi / 2), boards);
  scene.build();
  int stopped = 0;
  for (int i = 0; i < 1000; ++i)
    stopped += scene.cast({{0, -5 + 0.01 * i, 0}, {1, 0, 0}, 1, 100}).has_value();
  EXPECT_NEAR(stopped, 400, 10);
}

// The oracle of the hierarchy: every primitive tried one by one, each in a scene of its own.
TEST(Scene, HierarchyFindsWhatTryingEveryPrimitiveFinds) {
  Random random(7);
  std::vector<Scene> alone;
  Scene all;
  const auto place = [&](double size) {
    return Vec3{random.uniform(-size, size), random.uniform(-size, size),
                random.uniform(-size, size)};
  };
  for (int i = 0; i < 600; ++i) {
    const Vec3 a = place(20), b = a + place(2), c = a + place(2);
    const Vec3 half{random.uniform(0.1, 1.5), random.uniform(0.1, 1.5), random.uniform(0.1, 1.5)};
    const Yaw yaw = Yaw::of_angle(random.uniform(0, 6));
    const auto add = [&](Scene& scene) {
      switch (i % 5) {
        case 0:
          return scene.add_triangle(a, b, c, kSolid);
        case 1:
          return scene.add_box(a, half, yaw, kSolid);
        case 2:
          return scene.add_ellipsoid(a, half, yaw, kSolid);
        case 3:
          return scene.add_capsule(a, b, half.x * 0.3, kSolid);
        default:
          return scene.add_frustum(a, half.x, half.y * 0.5, half.z, kSolid);
      }
    };
    add(all);
    add(alone.emplace_back());
    alone.back().build();
  }
  all.build();
  int hits = 0;
  for (int i = 0; i < 1500; ++i) {
    const Ray ray{place(30), normalised(place(1)), random.next(), 80};
    double nearest = ray.reach;
    for (const Scene& scene : alone) {
      if (const auto hit = scene.cast(ray)) nearest = std::min(nearest, hit->distance);
    }
    const auto hit = all.cast(ray);
    ASSERT_EQ(hit.has_value(), nearest < ray.reach) << i;
    if (!hit) continue;
    ++hits;
    ASSERT_DOUBLE_EQ(hit->distance, nearest) << i;
    ASSERT_LE(dot(hit->normal, ray.direction), 0) << i;
  }
  EXPECT_GT(hits, 150);
}

// Beams side by side, some of them across an axis, through shapes and textures of every kind.
TEST(Scene, RaysTogetherMeetWhatEachMeetsAlone) {
  Random random(9);
  Scene scene;
  const auto place = [&](double size) {
    return Vec3{random.uniform(-size, size), random.uniform(-size, size),
                random.uniform(-size, size) / 4};
  };
  for (int i = 0; i < 2000; ++i) {
    const Vec3 a = place(30), b = a + place(3), c = a + place(3);
    const Vec3 half{random.uniform(0.1, 1.5), random.uniform(0.1, 1.5), random.uniform(0.1, 1.5)};
    const Yaw yaw = Yaw::of_angle(random.uniform(0, 6));
    Surface surface{.density = 0.6f, .scale = 0.3f};
    if (i % 5 == 1) surface.texture = i % 2 == 0 ? Texture::slats : Texture::rails;
    if (i % 5 == 2) surface.texture = Texture::foliage;
    if (i % 5 == 3) surface.texture = i % 2 == 0 ? Texture::mesh : Texture::glass;
    const std::array<Plane, 4> wedge{{{{1, 0, 0}, half.x},
                                      {{-1, 0, 0}, half.x},
                                      {normalised(Vec3{0, 1, 1}), half.y},
                                      {normalised(Vec3{0, -1, -1}), half.y}}};
    switch (i % 6) {
      case 0:
        scene.add_triangle(a, b, c, surface);
        break;
      case 1:
        scene.add_box(a, half, yaw, surface);
        break;
      case 2:
        scene.add_ellipsoid(a, half, yaw, surface);
        break;
      case 3:
        scene.add_capsule(a, b, half.x * 0.3, surface);
        break;
      case 4:
        scene.add_frustum(a, half.x, half.y * 0.5, half.z, surface);
        break;
      default:
        scene.add_hull(a, yaw, wedge, {{-2, -2, -2}, {2, 2, 2}}, surface);
    }
  }
  scene.build();
  int hits = 0, across = 0;
  for (int packet = 0; packet < 800; ++packet) {
    const Vec3 origin = place(20);
    const double angle = random.uniform(0, 2 * kPi), rise = random.uniform(-0.3, 0.3);
    std::vector<Ray> rays;
    const int count = 1 + random.integer(kBatch);
    for (int i = 0; i < count; ++i) {
      const double turned = angle + 0.01 * i;
      rays.push_back(
          {origin, normalised(Vec3{cosine(turned), sine(turned), rise}), random.next(), 60});
    }
    across += rays.front().direction.x * rays.back().direction.x < 0 ? 1 : 0;
    std::array<Hit, kBatch> together;
    scene.cast(rays, together);
    for (std::size_t i = 0; i < rays.size(); ++i) {
      const auto alone = scene.cast(rays[i]);
      ASSERT_EQ(together[i].primitive, alone ? alone->primitive : nullptr) << packet << ' ' << i;
      if (!alone) continue;
      ++hits;
      ASSERT_EQ(together[i].distance, alone->distance);
      ASSERT_EQ(together[i].normal.x, alone->normal.x);
      ASSERT_EQ(together[i].normal.z, alone->normal.z);
    }
  }
  EXPECT_GT(hits, 3000);
  EXPECT_GT(across, 5);
}

// Looked at from above, the middle of a street is road where there is no reservation, and something
// else, a kerb higher, where there is one. Vehicles keep off it.
TEST(Street, ReservationsLieInTheMiddleOfSomeStreets) {
  int with = 0;
  constexpr int kStreets = 60;
  for (std::uint64_t seed = 1; seed <= kStreets; ++seed) {
    const Street street({.seed = seed});
    Scene scene;
    street.add_to(scene, 0, 60);
    scene.build();
    const bool has_reservation = street.reservation() > 0;
    with += has_reservation ? 1 : 0;
    if (has_reservation) {
      EXPECT_LT(street.ego_lane(), -street.reservation() - 1) << seed;
    }
    int seen = 0, road = 0, raised = 0, vehicles = 0;
    for (double s = street.ego_s(0) - 50; s < street.ego_s(0) + 50; s += 0.7) {
      const Vec3 above = street.ground().place(s, 0.2, 2.0);
      const auto hit = scene.cast({above, {0, 0, -1}, 1, 10});
      if (!hit) continue;
      const Label label = hit->primitive->surface.label;
      ++seen;
      road += label == Label::road ? 1 : 0;
      vehicles += label == Label::vehicle ? 1 : 0;
      raised += hit->distance < 2.0 - 0.05 ? 1 : 0;
    }
    ASSERT_GT(seen, 100) << seed;
    if (has_reservation) {
      EXPECT_EQ(vehicles, 0) << seed;
      EXPECT_GT(raised, seen / 2) << seed;
    } else {
      EXPECT_GT(road, seen * 4 / 5) << seed;
    }
  }
  EXPECT_GT(with, kStreets / 20);
  EXPECT_LT(with, kStreets / 2);
}

TEST(Scene, EmptySceneStopsNothing) {
  Scene scene;
  scene.build();
  EXPECT_FALSE(scene.cast({{0, 0, 0}, {1, 0, 0}, 1, 100}));
  std::array<Hit, 1> hits;
  scene.cast(std::array{Ray{{0, 0, 0}, {1, 0, 0}, 1, 100}}, hits);
  EXPECT_EQ(hits[0].primitive, nullptr);
}

}  // namespace
}  // namespace io::simulator
