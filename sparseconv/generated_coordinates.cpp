// Coordinates that layers create: strided and generative.
#include "sparseconv/coordinates.hpp"
#include "sparseconv/halving.hpp"
#include "sparseconv/hash_map.hpp"
#include "sparseconv/tap_keys.hpp"

namespace sparseconv {
namespace {

using detail::axis_key;
using detail::batch_bits;

constexpr const char* kAxisNames[3] = {"x", "y", "z"};

// Axis keys that one input coordinate contributes to.
struct AxisKeys {
  int count = 0;
  std::array<Key, ConvGeometry::kMaxKernel> keys;
};

// What becomes of outputs: dropped outside `shape` where there is one, an error outside the key
// range.
class OutputRange {
 public:
  OutputRange(const char* operation, const std::optional<SpatialShape>& shape)
      : operation_(operation), shape_(shape) {}

  void add(AxisKeys& to, std::int64_t value, int axis) const {
    const auto a = static_cast<std::size_t>(axis);
    if (shape_ && (value < 0 || value >= (*shape_)[a])) return;
    ENSURE(detail::is_in_axis_range(value), operation_, ": output ", kAxisNames[a], " = ", value,
           " is outside the key range, ", kAxisMin, "..", kAxisMax);
    to.keys[static_cast<std::size_t>(to.count++)] = axis_key(value, axis);
  }

 private:
  const char* operation_;
  const std::optional<SpatialShape>& shape_;
};

// The set of batch | x | y | z over the axis keys that `fill(value, axis, keys)` gives for every
// input.
template <class Fill>
CoordinatesPtr generate(const CoordinatesPtr& input, const std::optional<SpatialShape>& shape,
                        const base::BlockCachePtr& cache, const Fill& fill) {
  BlockSet set(input->size() / 4, cache);
  std::array<AxisKeys, 3> axes;
  const auto coords = input->coords();
  for (std::size_t i = 0; i < coords.size(); ++i) {
    for (int a = 0; a < 3; ++a) {
      axes[static_cast<std::size_t>(a)].count = 0;
      fill(coords[i][a], a, axes[static_cast<std::size_t>(a)]);
    }
    const Key batch = batch_bits(input->keys()[i]);
    for (int z = 0; z < axes[2].count; ++z) {
      for (int y = 0; y < axes[1].count; ++y) {
        const Key rest = batch | axes[2].keys[static_cast<std::size_t>(z)] |
                         axes[1].keys[static_cast<std::size_t>(y)];
        for (int x = 0; x < axes[0].count; ++x) {
          const Key key = rest | axes[0].keys[static_cast<std::size_t>(x)];
          ENSURE(key != kNoKey, "coordinates: the last corner of batch ", kBatchMax,
                 " is reserved");
          set.insert(key);
        }
      }
    }
  }
  return Coordinates::from_block_set(
      std::move(set), {.batch_size = input->batch_size(), .spatial_shape = shape, .cache = cache});
}

CoordinatesPtr halved_coordinates(const CoordinatesPtr& input,
                                  const std::optional<SpatialShape>& shape,
                                  const base::BlockCachePtr& cache) {
  const detail::KeyLimits limits = detail::key_limits(shape);
  base::Buffer<Key> keys(cache);
  keys.reserve(input->keys().size());
  for (const Key key : input->keys()) {
    const Key half = detail::halved(key);
    if ((keys.empty() || keys.back() != half) && limits.admits(half)) keys.push_back(half);
  }
  return Coordinates::from_sorted_keys(
      std::move(keys), {.batch_size = input->batch_size(), .spatial_shape = shape, .cache = cache});
}

std::optional<SpatialShape> output_shape(const CoordinatesPtr& input, const ConvGeometry& geometry,
                                         bool is_strided) {
  if (!input->spatial_shape()) return std::nullopt;
  return is_strided ? geometry.coarse_shape(*input->spatial_shape())
                    : geometry.fine_shape(*input->spatial_shape());
}

}  // namespace

CoordinatesPtr strided_coordinates(const CoordinatesPtr& input, const ConvGeometry& geometry,
                                   const base::BlockCachePtr& cache) {
  constexpr const char* kOperation = "strided coordinates";
  ENSURE(input, kOperation, ": no input");
  geometry.check(kOperation);
  const auto shape = output_shape(input, geometry, true);
  if (detail::is_halving(geometry) && input->is_sorted()) {
    return halved_coordinates(input, shape, cache);
  }
  const OutputRange range(kOperation, shape);
  return generate(input, shape, cache, [&](std::int64_t fine, int axis, AxisKeys& keys) {
    const auto a = static_cast<std::size_t>(axis);
    for (int r = 0; r < geometry.kernel[a]; ++r) {
      const std::int64_t scaled =
          fine + geometry.padding[a] - static_cast<std::int64_t>(r) * geometry.dilation[a];
      if (scaled % geometry.stride[a] == 0) range.add(keys, scaled / geometry.stride[a], axis);
    }
  });
}

CoordinatesPtr generative_coordinates(const CoordinatesPtr& input, const ConvGeometry& geometry,
                                      const base::BlockCachePtr& cache) {
  constexpr const char* kOperation = "generative coordinates";
  ENSURE(input, kOperation, ": no input");
  geometry.check(kOperation);
  const auto shape = output_shape(input, geometry, false);
  const OutputRange range(kOperation, shape);
  return generate(input, shape, cache, [&](std::int64_t coarse, int axis, AxisKeys& keys) {
    const auto a = static_cast<std::size_t>(axis);
    for (int r = 0; r < geometry.kernel[a]; ++r) {
      const std::int64_t first = coarse * geometry.stride[a] - geometry.padding[a];
      range.add(keys, first + static_cast<std::int64_t>(r) * geometry.dilation[a], axis);
    }
  });
}

}  // namespace sparseconv
