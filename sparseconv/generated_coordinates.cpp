// Coordinates that layers create: strided and generative.
#include <algorithm>

#include "sparseconv/coordinates.hpp"
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
                        const Fill& fill) {
  BlockSet set(input->size() / 4);
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
  return Coordinates::from_block_set(std::move(set),
                                     {.batch_size = input->batch_size(), .spatial_shape = shape});
}

bool is_halving(const ConvGeometry& g) {
  constexpr std::array<int, 3> two{2, 2, 2}, zero{0, 0, 0}, one{1, 1, 1};
  return g.kernel == two && g.stride == two && g.padding == zero && g.dilation == one;
}

// floor(value / 2) on every axis: a shift, then the bias 2^16 that the shift took away. Keeps the
// order of keys.
constexpr Key halved(Key key) {
  constexpr int kTop = 3 * (kAxisBits - 2);
  const Key shifted = (key & ~batch_bits(key)) >> 3;
  const Key top = shifted >> kTop;
  return batch_bits(key) | (shifted & ((Key{1} << kTop) - 1)) | (~top & 7) << kTop |
         top << (kTop + 3);
}
static_assert(unpack(halved(pack({3, -1, 5, -8}))) == Coord{3, -1, 2, -4});
static_assert(unpack(halved(pack({0, kAxisMin, kAxisMax, 0}))) ==
              Coord{0, kAxisMin / 2, kAxisMax / 2, 0});

CoordinatesPtr halved_coordinates(const CoordinatesPtr& input,
                                  const std::optional<SpatialShape>& shape) {
  std::array<Key, 3> limit{kNoKey, kNoKey, kNoKey};
  for (int a = 0; a < 3 && shape; ++a) {
    const auto i = static_cast<std::size_t>(a);
    if ((*shape)[i] == 0) {
      return Coordinates::from_sorted_keys(
          {}, {.batch_size = input->batch_size(), .spatial_shape = shape});
    }
    limit[i] = axis_key(std::min<std::int64_t>((*shape)[i] - 1, kAxisMax), a);
  }
  std::vector<Key> keys;
  keys.reserve(input->keys().size() / 2);
  for (const Key key : input->keys()) {
    const Key half = halved(key);
    if (!keys.empty() && keys.back() == half) continue;
    if ((half & axis_mask(0)) > limit[0] || (half & axis_mask(1)) > limit[1] ||
        (half & axis_mask(2)) > limit[2]) {
      continue;
    }
    keys.push_back(half);
  }
  return Coordinates::from_sorted_keys(std::move(keys),
                                       {.batch_size = input->batch_size(), .spatial_shape = shape});
}

std::optional<SpatialShape> output_shape(const CoordinatesPtr& input, const ConvGeometry& geometry,
                                         bool is_strided) {
  if (!input->spatial_shape()) return std::nullopt;
  return is_strided ? geometry.coarse_shape(*input->spatial_shape())
                    : geometry.fine_shape(*input->spatial_shape());
}

}  // namespace

CoordinatesPtr strided_coordinates(const CoordinatesPtr& input, const ConvGeometry& geometry) {
  constexpr const char* kOperation = "strided coordinates";
  ENSURE(input, kOperation, ": no input");
  geometry.check(kOperation);
  const auto shape = output_shape(input, geometry, true);
  if (is_halving(geometry) && input->is_sorted()) return halved_coordinates(input, shape);
  const OutputRange range(kOperation, shape);
  return generate(input, shape, [&](std::int64_t fine, int axis, AxisKeys& keys) {
    const auto a = static_cast<std::size_t>(axis);
    for (int r = 0; r < geometry.kernel[a]; ++r) {
      const std::int64_t scaled =
          fine + geometry.padding[a] - static_cast<std::int64_t>(r) * geometry.dilation[a];
      if (scaled % geometry.stride[a] == 0) range.add(keys, scaled / geometry.stride[a], axis);
    }
  });
}

CoordinatesPtr generative_coordinates(const CoordinatesPtr& input, const ConvGeometry& geometry) {
  constexpr const char* kOperation = "generative coordinates";
  ENSURE(input, kOperation, ": no input");
  geometry.check(kOperation);
  const auto shape = output_shape(input, geometry, false);
  const OutputRange range(kOperation, shape);
  return generate(input, shape, [&](std::int64_t coarse, int axis, AxisKeys& keys) {
    const auto a = static_cast<std::size_t>(axis);
    for (int r = 0; r < geometry.kernel[a]; ++r) {
      const std::int64_t first = coarse * geometry.stride[a] - geometry.padding[a];
      range.add(keys, first + static_cast<std::int64_t>(r) * geometry.dilation[a], axis);
    }
  });
}

}  // namespace sparseconv
