#include "sparseconv/training/augment.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include "sparseconv/training/paste.hpp"
#include "sparseconv/training/random.hpp"

namespace sparseconv::training {
namespace {

constexpr double kRadians = std::numbers::pi / 180;

// What each draw is for; a new kind of change goes to the end, so that old seeds keep their scans.
enum class Draw : std::uint64_t { beams, azimuths, drop, pose, jitter, intensity, paste, mute };

// A column's numbers, converted once: asking a cloud for a position looks three names up.
std::vector<double> numbers(const io::Column& column) {
  std::vector<double> values(static_cast<std::size_t>(column.values.shape()[0]));
  if (column.values.dtype() == base::DType::f32 && column.field.count == 1) {
    std::copy_n(column.values.data<float>(), values.size(), values.begin());
    return values;
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = column.at(static_cast<std::int64_t>(i));
  return values;
}

using Axes = std::array<std::vector<double>, 3>;
Axes axes_of(const io::Cloud& cloud, const std::array<const char*, 3>& names) {
  return {numbers(cloud.get(names[0])), numbers(cloud.get(names[1])), numbers(cloud.get(names[2]))};
}
constexpr std::array<const char*, 3> kPosition{"x", "y", "z"}, kNormal{"nx", "ny", "nz"};

RandomStream stream(std::uint64_t seed, Draw what) {
  return RandomStream(stream_of(seed, static_cast<std::uint64_t>(what)));
}

template <class Keep>
LabelledCloud kept(const LabelledCloud& scan, const Keep& keep) {
  std::vector<std::int64_t> rows;
  rows.reserve(static_cast<std::size_t>(scan.cloud.size()));
  for (std::int64_t i = 0; i < scan.cloud.size(); ++i)
    if (keep(i)) rows.push_back(i);
  return rows_of(scan, rows);
}

LabelledCloud without_beams(const LabelledCloud& scan, RandomStream random) {
  const std::int64_t parity = random.integer(2);
  if (const io::Column* ring = scan.cloud.find("ring"); ring != nullptr) {
    return kept(
        scan, [&](std::int64_t i) { return static_cast<std::int64_t>(ring->at(i)) % 2 == parity; });
  }
  // Beams may be any number of bands apart, so which bands go is drawn for each.
  const double band = 0.5 * kRadians, phase = random.uniform(0, band);
  const std::uint64_t salt = random.next();
  const Axes at = axes_of(scan.cloud, kPosition);
  return kept(scan, [&](std::int64_t i) {
    const auto p = static_cast<std::size_t>(i);
    const double elevation = std::atan2(at[2][p], std::hypot(at[0][p], at[1][p]));
    if (!std::isfinite(elevation)) return true;
    const auto number = static_cast<std::int64_t>(std::floor((elevation + phase) / band));
    return (stream_of(salt, number) & 1) == 0;
  });
}

// The usual angle between neighbours in file order: scanners write one beam's returns, or one
// firing's, in a row.
double azimuth_step(const std::vector<double>& azimuths) {
  std::vector<double> steps;
  for (std::size_t i = 1; i < azimuths.size(); ++i) {
    const double step = std::abs(azimuths[i] - azimuths[i - 1]);
    if (step > 1e-4 && step < 1 * kRadians) steps.push_back(step);
  }
  if (steps.empty()) return 0.2 * kRadians;
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  return *middle;
}

LabelledCloud without_azimuths(const LabelledCloud& scan, RandomStream random) {
  const std::int64_t parity = random.integer(2);
  std::vector<double> azimuths(static_cast<std::size_t>(scan.cloud.size()));
  const std::vector<double> xs = numbers(scan.cloud.get("x")), ys = numbers(scan.cloud.get("y"));
  for (std::size_t i = 0; i < azimuths.size(); ++i)
    azimuths[i] = std::isfinite(xs[i] + ys[i]) ? std::atan2(ys[i], xs[i]) + std::numbers::pi : 0;
  const double step = azimuth_step(azimuths), phase = random.uniform(0, step);
  return kept(scan, [&](std::int64_t i) {
    const double at = std::floor((azimuths[static_cast<std::size_t>(i)] + phase) / step);
    return static_cast<std::int64_t>(at) % 2 == parity;
  });
}

struct Transform {
  std::array<std::array<double, 3>, 3> turn{};  // rotation, mirror included
  double scale = 1, lift = 0;
  std::array<double, 3> apply(const std::array<double, 3>& v) const {
    std::array<double, 3> r{};
    for (std::size_t i = 0; i < 3; ++i)
      r[i] = turn[i][0] * v[0] + turn[i][1] * v[1] + turn[i][2] * v[2];
    return r;
  }
};

// About z, then small tilts about x and y.
Transform draw_transform(const AugmentOptions& options, RandomStream random) {
  const double yaw = options.rotation * kRadians * random.uniform(-1, 1);
  const double mirror = random.chance(options.flip) ? -1 : 1;
  const double pitch = options.tilt * kRadians * random.gaussian();
  const double roll = options.tilt * kRadians * random.gaussian();
  Transform t;
  t.scale = 1 + options.scale * random.uniform(-1, 1);
  t.lift = options.shift_z * random.gaussian();
  const double c = std::cos(yaw), s = std::sin(yaw);
  const double cp = std::cos(pitch), sp = std::sin(pitch), cr = std::cos(roll), sr = std::sin(roll);
  // R = Ry(pitch) Rx(roll) Rz(yaw) diag(1, mirror, 1)
  const std::array<std::array<double, 3>, 3> z{
      {{c, -s * mirror, 0}, {s, c * mirror, 0}, {0, 0, 1}}};
  const std::array<std::array<double, 3>, 3> tip{
      {{cp, sp * sr, sp * cr}, {0, cr, -sr}, {-sp, cp * sr, cp * cr}}};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      for (std::size_t k = 0; k < 3; ++k) t.turn[i][j] += tip[i][k] * z[k][j];
    }
  }
  return t;
}

void replace_columns(io::Cloud& cloud, const std::array<const char*, 3>& names,
                     const Axes& values) {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (cloud.get(names[axis]).values.dtype() == base::DType::f32) {
      const std::vector<float> narrow(values[axis].begin(), values[axis].end());
      cloud.add<float>(names[axis], narrow);
    } else {
      cloud.add<double>(names[axis], values[axis]);
    }
  }
}

bool has_normals(const io::Cloud& cloud) {
  return cloud.find("nx") != nullptr && cloud.find("ny") != nullptr && cloud.find("nz") != nullptr;
}

void move_points(LabelledCloud& scan, const AugmentOptions& options, const Transform& transform,
                 RandomStream random) {
  Axes axes = axes_of(scan.cloud, kPosition);
  for (std::size_t i = 0; i < axes[0].size(); ++i) {
    const auto turned = transform.apply({axes[0][i], axes[1][i], axes[2][i]});
    for (std::size_t axis = 0; axis < 3; ++axis) {
      double value = transform.scale * turned[axis] + (axis == 2 ? transform.lift : 0);
      if (options.jitter > 0) value += options.jitter * random.gaussian();
      axes[axis][i] = value;
    }
  }
  if (has_normals(scan.cloud)) {
    Axes normals = axes_of(scan.cloud, kNormal);
    for (std::size_t i = 0; i < normals[0].size(); ++i) {
      const auto turned = transform.apply({normals[0][i], normals[1][i], normals[2][i]});
      for (std::size_t axis = 0; axis < 3; ++axis) normals[axis][i] = turned[axis];
    }
    replace_columns(scan.cloud, kNormal, normals);
  }
  replace_columns(scan.cloud, kPosition, axes);
}

void scale_intensity(io::Cloud& cloud, double factor) {
  const io::Column* column = cloud.find("intensity");
  if (column == nullptr || column->field.count != 1) return;
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(cloud.size()));
  for (const double v : numbers(*column)) values.push_back(static_cast<float>(factor * v));
  cloud.add<float>("intensity", values);
}

}  // namespace

AugmentOptions AugmentOptions::street() {
  return {.skip_beams = 0.1,
          .skip_azimuths = 0.15,
          .drop = 0.15,
          .rotation = 180,
          .flip = 0.5,
          .tilt = 0.7,
          .scale = 0.06,
          .shift_z = 0.12,
          .jitter = 0.002,
          .intensity = 0.3,
          .mute_intensity = 0.4};
}

LabelledCloud rows_of(const LabelledCloud& scan, std::span<const std::int64_t> rows) {
  const auto count = static_cast<std::int64_t>(rows.size());
  LabelledCloud part{.cloud = io::Cloud(count)};
  const auto take = [&](std::size_t width, const void* data, void* to_data) {
    const auto* from = static_cast<const char*>(data);
    auto* to = static_cast<char*>(to_data);
    const auto copy = [&](auto size) {  // of a known size: one load and one store
      for (const std::int64_t row : rows) {
        std::memcpy(to, from + static_cast<std::size_t>(row) * size, size);
        to += size;
      }
    };
    if (width == 4)
      copy(std::integral_constant<std::size_t, 4>{});
    else if (width == 2)
      copy(std::integral_constant<std::size_t, 2>{});
    else
      copy(width);
  };
  for (const auto& column : scan.cloud.columns()) {
    base::Dims shape = column->values.shape();
    shape[0] = count;
    auto values = base::Tensor::empty(shape, column->values.dtype());
    take(static_cast<std::size_t>(base::bytes(column->values.dtype(), column->field.count)),
         column->values.data(), values.data());
    part.cloud.add(column->field, std::move(values));
  }
  part.cloud.width = count;
  part.cloud.format = scan.cloud.format;
  part.labels.resize(rows.size());
  take(sizeof(std::int32_t), scan.labels.data(), part.labels.data());
  if (!scan.instances.empty()) {
    part.instances.resize(rows.size());
    take(sizeof(std::int32_t), scan.instances.data(), part.instances.data());
  }
  return part;
}

LabelledCloud augment(const LabelledCloud& scan, const AugmentOptions& options, std::uint64_t seed,
                      const InstanceBank* bank) {
  ENSURE(static_cast<std::int64_t>(scan.labels.size()) == scan.cloud.size(),
         "augment: ", scan.labels.size(), " labels for ", scan.cloud.size(), " points");
  if (scan.cloud.size() == 0) return scan;
  LabelledCloud result = scan;
  if (options.paste > 0 && bank != nullptr && bank->size() > 0)
    result = with_pasted(result, *bank, options.paste, stream(seed, Draw::paste));
  RandomStream beams = stream(seed, Draw::beams), azimuths = stream(seed, Draw::azimuths);
  if (beams.chance(options.skip_beams)) result = without_beams(result, beams);
  if (azimuths.chance(options.skip_azimuths)) result = without_azimuths(result, azimuths);
  if (options.drop > 0) {
    RandomStream random = stream(seed, Draw::drop);
    const double share = random.uniform(0, options.drop);
    result = kept(result, [&](std::int64_t) { return !random.chance(share); });
  }
  if (result.cloud.size() == 0) return result;
  move_points(result, options, draw_transform(options, stream(seed, Draw::pose)),
              stream(seed, Draw::jitter));
  const bool is_mute = stream(seed, Draw::mute).chance(options.mute_intensity);
  if (is_mute || options.intensity > 0) {
    const double spread = options.intensity * stream(seed, Draw::intensity).gaussian();
    scale_intensity(result.cloud, is_mute ? 0.0 : std::exp(spread));
  }
  return result;
}

}  // namespace sparseconv::training
