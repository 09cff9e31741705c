// A set of distinct coordinates in a fixed row order, with its batch count and optional bounds.
// Immutable and shared: tensors and kernel maps that refer to the same set hold the same pointer,
// which is how reuse of a map is checked.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gemm_core/base/block_cache.hpp"
#include "sparseconv/conv_geometry.hpp"
#include "sparseconv/coord.hpp"

namespace sparseconv {

using SpatialShape = std::array<std::int64_t, 3>;

class BlockSet;
class HashMap;

class Coordinates {
 public:
  struct Options {
    std::int32_t batch_size = 0;                // 0: largest batch id + 1
    std::optional<SpatialShape> spatial_shape;  // bounds [0, shape) on every axis
    base::BlockCachePtr cache = nullptr;        // where the set gets its memory
  };
  // Keeps the order given. Error naming row, axis and limit for a coordinate outside key range,
  // bounds or batch; error naming both rows for a duplicate.
  static std::shared_ptr<const Coordinates> create(std::vector<Coord> coords,
                                                   const Options& options);
  // The same, but rows outside batch, bounds or key range are left out: `kept_rows` are the others,
  // in order. Without options.batch_size a negative batch id is outside. Duplicates are an error
  // still.
  struct Selection {
    std::shared_ptr<const Coordinates> coordinates;
    std::vector<std::int64_t> kept_rows;
    std::int64_t dropped = 0;
  };
  static Selection create_within(std::span<const Coord> coords, const Options& options);
  // Trusted: distinct, in range, sorted by key (what the library itself generates).
  static std::shared_ptr<const Coordinates> from_sorted_keys(base::Buffer<Key> keys,
                                                             const Options& options);

  // Trusted: keys in range. Sorts them by key and takes their hash map over.
  static std::shared_ptr<const Coordinates> from_block_set(BlockSet set, const Options& options);

  std::int64_t size() const { return static_cast<std::int64_t>(coords_.size()); }
  std::span<const Coord> coords() const { return coords_; }
  std::span<const Key> keys() const { return keys_; }  // row order, not necessarily sorted
  bool is_sorted() const { return is_sorted_; }
  std::int32_t batch_size() const { return batch_size_; }
  const std::optional<SpatialShape>& spatial_shape() const { return spatial_shape_; }
  // Row of a key, or -1. Built on first use, thread-safe.
  const HashMap& hash_map() const;
  std::int64_t nbytes() const;
  ~Coordinates();

 private:
  Coordinates();
  base::Buffer<Coord> coords_;
  base::Buffer<Key> keys_;
  bool is_sorted_ = false;
  std::int32_t batch_size_ = 0;
  std::optional<SpatialShape> spatial_shape_;
  struct Lazy;
  std::unique_ptr<Lazy> lazy_;
};
using CoordinatesPtr = std::shared_ptr<const Coordinates>;

// Output coordinates, in canonical order. Empty in, empty out.
// Error naming axis and limit when an output would leave the key range.
//   strided:    all `out` for which some tap hits an active input (inside the coarse bounds where
//   there are bounds) generative: all `in*stride - padding + r*dilation` (inside the fine bounds
//   where there are bounds)
CoordinatesPtr strided_coordinates(const CoordinatesPtr& input, const ConvGeometry& geometry,
                                   const base::BlockCachePtr& cache = nullptr);
CoordinatesPtr generative_coordinates(const CoordinatesPtr& input, const ConvGeometry& geometry,
                                      const base::BlockCachePtr& cache = nullptr);

}  // namespace sparseconv
