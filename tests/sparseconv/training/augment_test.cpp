#include "sparseconv/training/augment.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "sparseconv/training/random.hpp"

namespace sparseconv::training {
namespace {

// Points by ring and azimuth step, on circles of different radius and height; label = ring % 3.
LabelledCloud rings(int ring_count, int steps, bool with_ring = true) {
  std::vector<float> x, y, z, intensity;
  std::vector<std::uint16_t> ring;
  LabelledCloud scan;
  for (int r = 0; r < ring_count; ++r) {
    const double elevation = (2.0 - 1.0 * r) * 3.14159265358979 / 180;
    for (int s = 0; s < steps; ++s) {
      const double azimuth = 2 * 3.14159265358979 * s / steps, range = 10 + r;
      x.push_back(static_cast<float>(range * std::cos(elevation) * std::cos(azimuth)));
      y.push_back(static_cast<float>(range * std::cos(elevation) * std::sin(azimuth)));
      z.push_back(static_cast<float>(range * std::sin(elevation)));
      intensity.push_back(0.5f);
      ring.push_back(static_cast<std::uint16_t>(r));
      scan.labels.push_back(r % 3);
      scan.instances.push_back(0);
    }
  }
  scan.cloud = io::Cloud(static_cast<std::int64_t>(x.size()));
  scan.cloud.add<float>("x", x);
  scan.cloud.add<float>("y", y);
  scan.cloud.add<float>("z", z);
  scan.cloud.add<float>("intensity", intensity);
  if (with_ring) scan.cloud.add<std::uint16_t>("ring", ring);
  return scan;
}

std::array<double, 3> at(const LabelledCloud& scan, std::size_t i) {
  return scan.cloud.position(static_cast<std::int64_t>(i));
}
double distance(const std::array<double, 3>& a, const std::array<double, 3>& b) {
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

TEST(Augment, NothingAskedForChangesNothing) {
  const LabelledCloud scan = rings(4, 30);
  const LabelledCloud same = augment(scan, {}, 7);
  ASSERT_EQ(same.cloud.size(), scan.cloud.size());
  for (std::size_t i = 0; i < scan.labels.size(); ++i) EXPECT_EQ(at(same, i), at(scan, i));
  EXPECT_EQ(same.labels, scan.labels);
}

TEST(Augment, SameSeedSameScanAndOtherSeedsOthers) {
  const LabelledCloud scan = rings(8, 100);
  const AugmentOptions options = AugmentOptions::street();
  const LabelledCloud a = augment(scan, options, 1), b = augment(scan, options, 1);
  ASSERT_EQ(a.cloud.size(), b.cloud.size());
  for (std::size_t i = 0; i < a.labels.size(); ++i) EXPECT_EQ(at(a, i), at(b, i));
  EXPECT_NE(at(augment(scan, options, 2), 0), at(a, 0));
}

// Rotation, mirror and tilt keep all distances; a scale multiplies them; a shift moves all alike.
TEST(Augment, PoseChangesAreSimilarities) {
  const LabelledCloud scan = rings(5, 40);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const LabelledCloud moved =
        augment(scan, {.rotation = 180, .flip = 0.5, .tilt = 3, .scale = 0.2, .shift_z = 1}, seed);
    const double factor =
        distance(at(moved, 0), at(moved, 20)) / distance(at(scan, 0), at(scan, 20));
    EXPECT_NEAR(factor, 1, 0.2 + 1e-6);
    for (std::size_t i = 1; i < scan.labels.size(); i += 17) {
      EXPECT_NEAR(distance(at(moved, 0), at(moved, i)), factor * distance(at(scan, 0), at(scan, i)),
                  1e-4);
    }
    EXPECT_EQ(moved.labels, scan.labels);
  }
}

TEST(Augment, RotationKeepsHeightsAndFlipsMirrorHalfOfTheSeeds) {
  const LabelledCloud scan = rings(3, 12);
  int mirrored = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const LabelledCloud moved = augment(scan, {.rotation = 180, .flip = 0.5}, seed);
    EXPECT_NEAR(at(moved, 5)[2], at(scan, 5)[2], 1e-6);
    const auto a = at(moved, 0), b = at(moved, 1);
    mirrored += a[0] * b[1] - a[1] * b[0] < 0;  // steps now run clockwise
  }
  EXPECT_NEAR(mirrored, 100, 30);
}

TEST(Augment, NormalsTurnWithThePoints) {
  LabelledCloud scan = rings(2, 10);
  std::vector<float> nx, ny, nz;
  for (std::size_t i = 0; i < scan.labels.size(); ++i) {  // the direction of the point itself
    const auto p = at(scan, i);
    const double r = distance(p, {0, 0, 0});
    nx.push_back(static_cast<float>(p[0] / r));
    ny.push_back(static_cast<float>(p[1] / r));
    nz.push_back(static_cast<float>(p[2] / r));
  }
  scan.cloud.add<float>("nx", nx);
  scan.cloud.add<float>("ny", ny);
  scan.cloud.add<float>("nz", nz);
  const LabelledCloud moved =
      augment(scan, {.rotation = 180, .flip = 1, .tilt = 5, .scale = 0.3}, 3);
  for (std::int64_t i = 0; i < moved.cloud.size(); ++i) {
    const auto p = moved.cloud.position(i);
    const double r = distance(p, {0, 0, 0});
    EXPECT_NEAR(moved.cloud.get("nx").at(i), p[0] / r, 1e-5);
    EXPECT_NEAR(moved.cloud.get("nz").at(i), p[2] / r, 1e-5);
  }
}

TEST(Augment, SkippedBeamsAreWholeBeams) {
  const LabelledCloud scan = rings(8, 50);
  const LabelledCloud half = augment(scan, {.skip_beams = 1}, 4);
  EXPECT_EQ(half.cloud.size(), 4 * 50);
  std::set<int> left;
  for (std::int64_t i = 0; i < half.cloud.size(); ++i) {
    const int ring = static_cast<int>(half.cloud.get("ring").at(i));
    left.insert(ring);
    EXPECT_EQ(half.labels[static_cast<std::size_t>(i)], ring % 3);
  }
  EXPECT_EQ(left.size(), 4u);
  // Without a ring, bands of elevation: about half remains, and a beam remains or goes as a whole.
  const LabelledCloud banded = augment(rings(40, 50, false), {.skip_beams = 1}, 4);
  EXPECT_EQ(banded.cloud.size() % 50, 0);
  EXPECT_GT(banded.cloud.size(), 5 * 50);
  EXPECT_LT(banded.cloud.size(), 36 * 50);
}

TEST(Augment, SkippedAzimuthsAreEverySecondStep) {
  const LabelledCloud scan = rings(4, 1000, false);
  const LabelledCloud half = augment(scan, {.skip_azimuths = 1}, 9);
  EXPECT_NEAR(static_cast<double>(half.cloud.size()), 2000, 80);
  int neighbours = 0;  // kept points one step apart
  for (std::size_t i = 1; i < half.labels.size(); ++i)
    neighbours += distance(at(half, i), at(half, i - 1)) < 1.2 * 2 * 3.14159 * 10 / 1000;
  EXPECT_LT(neighbours, 60);
}

TEST(Augment, DropLeavesTheShareAskedForAndOrderAndLabelsTogether) {
  const LabelledCloud scan = rings(6, 500);
  double kept = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const LabelledCloud part = augment(scan, {.drop = 0.6}, seed);
    kept += static_cast<double>(part.cloud.size()) / 3000 / 40;
    for (std::int64_t i = 0; i < part.cloud.size(); ++i) {
      EXPECT_EQ(part.labels[static_cast<std::size_t>(i)],
                static_cast<int>(part.cloud.get("ring").at(i)) % 3);
    }
  }
  EXPECT_NEAR(kept, 0.7, 0.08);  // the share is uniform in [0, 0.6]
}

TEST(Augment, JitterHasTheDeviationAskedFor) {
  const LabelledCloud scan = rings(10, 500);
  const LabelledCloud moved = augment(scan, {.jitter = 0.05}, 11);
  double squares = 0;
  for (std::size_t i = 0; i < scan.labels.size(); ++i)
    for (std::size_t k = 0; k < 3; ++k) squares += std::pow(at(moved, i)[k] - at(scan, i)[k], 2);
  EXPECT_NEAR(std::sqrt(squares / (3.0 * 5000)), 0.05, 0.002);
}

// A flat ground with one object of ten points standing on it.
LabelledCloud ground_with_object(float object_x, bool has_object) {
  std::vector<float> x, y, z;
  LabelledCloud scan;
  const auto add = [&](double px, double py, double pz, int label, int instance) {
    x.push_back(static_cast<float>(px));
    y.push_back(static_cast<float>(py));
    z.push_back(static_cast<float>(pz));
    scan.labels.push_back(label);
    scan.instances.push_back(instance);
  };
  for (double px = -12; px <= 12; px += 0.4)
    for (double py = -12; py <= 12; py += 0.4)
      if (std::hypot(px, py) > 2) add(px, py, has_object ? -1.5 : -2.0, 0, 0);
  for (int i = 0; has_object && i < 20; ++i)
    add(object_x + 0.1 * (i % 2), 0.1, -1.4 + 0.1 * i, 1, 5);
  scan.cloud = io::Cloud(static_cast<std::int64_t>(x.size()));
  scan.cloud.add<float>("x", x);
  scan.cloud.add<float>("y", y);
  scan.cloud.add<float>("z", z);
  return scan;
}

TEST(InstancePaste, PutsObjectsOnTheGroundAndHidesWhatLiesBehind) {
  InstanceBank bank;
  const std::vector<std::int32_t> classes{1};
  bank.add(ground_with_object(6, true), classes);
  ASSERT_EQ(bank.size(), 1);
  EXPECT_NEAR(bank[0].ground, -1.5, 1e-6);
  const LabelledCloud scan = ground_with_object(0, false);
  const LabelledCloud pasted = augment(scan, {.paste = 1}, 3, &bank);
  std::int64_t objects = 0, hidden = scan.cloud.size();
  double lowest = 1e9;
  for (std::size_t i = 0; i < pasted.labels.size(); ++i) {
    if (pasted.labels[i] != 1) {
      --hidden;
      continue;
    }
    ++objects;
    lowest = std::min(lowest, at(pasted, i)[2]);
    EXPECT_NEAR(std::hypot(at(pasted, i)[0], at(pasted, i)[1]), 6.05, 0.1);  // turned, not moved
  }
  EXPECT_EQ(objects, 20);
  EXPECT_NEAR(lowest, -2.0 + 0.1, 1e-5);  // as high above this ground as above its own
  EXPECT_GT(hidden, 0);
  EXPECT_LT(hidden, 200);
}

TEST(InstancePaste, LeavesPlacesWithoutGroundAlone) {
  InstanceBank bank;
  const std::vector<std::int32_t> classes{1};
  bank.add(ground_with_object(6, true), classes);
  LabelledCloud far = ground_with_object(0, false);
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < far.cloud.size(); ++i) {
    const auto p = far.cloud.position(i);
    if (std::hypot(p[0], p[1]) > 9) rows.push_back(i);
  }
  far = rows_of(far, rows);
  EXPECT_EQ(augment(far, {.paste = 5}, 3, &bank).cloud.size(), far.cloud.size());
}

TEST(Augment, EmptyScansStayEmpty) {
  LabelledCloud empty;
  EXPECT_EQ(augment(empty, AugmentOptions::street(), 1).cloud.size(), 0);
}

}  // namespace
}  // namespace sparseconv::training
