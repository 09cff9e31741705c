// All coordinate sets and kernel maps of a frame on the device, planned once and built back to
// back: from the keys of the input to row orders, without a host synchronisation. Row numbers equal
// the CPU's.
//
//   FrameMaps maps(spec);
//   maps.reserve({.row_capacity = {n, n / 2, ...}});        // allocates; pointers in views change
//   only here maps.build({.keys = keys, .rows = n}, stream);           // enqueues; may be captured
//   in a graph
//   ... maps.view(i) ...                                     // read by kernels on the same stream
//   maps.check(counts)                                       // after the frame's one
//   synchronisation: sizes and errors
#pragma once
#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sparseconv/cuda/maps/block_table.cuh"
#include "sparseconv/cuda/maps/device_map.cuh"
#include "sparseconv/cuda/maps/merge_steps.cuh"
#include "sparseconv/kernel_map.hpp"

namespace sparseconv::cuda {

enum class RowOrder : std::uint8_t { none, single, planes };  // device_map.cuh

struct SetSpec {
  enum class Kind : std::uint8_t {
    input,  // set 0 alone
    strided,
    generative,
    merged,  // union of `parts`
    global,  // one cell a batch entry, [b, 0, 0, 0]
  } kind = Kind::input;
  int source = -1;  // a set of a lower index
  ConvGeometry geometry;
  // Cells of a set of a lower index, their coordinates multiplied by the stride (which may be 0) of
  // a geometry of one tap without padding. At most kMaxMergedParts.
  struct Part {
    int source = -1;
    ConvGeometry geometry;
  };
  std::vector<Part> parts;
};

struct MapSpec {
  KernelMap::Kind kind = KernelMap::Kind::convolution;
  ConvGeometry geometry;
  int input = 0, output = 0;          // sets
  int forward = -1;                   // inverse: the map, of a lower index, that is turned round
  RowOrder order = RowOrder::single;  // planes: 27 taps only; at most 32 taps for any order
  bool needs_canonical = false;
};

struct FrameSpec {
  std::vector<SetSpec> sets;
  std::vector<MapSpec> maps;
};

struct FrameCapacity {
  std::vector<std::int64_t>
      rows;  // of each set; a set that exceeds it counts as empty, and check() says so
  bool is_input_sorted = true;  // keys ascend; else rows keep the order given
  // General sets and row orders with room for at most so many rows are made by counting, others by
  // sorting. No order of more than kMaxCountedRows is counted.
  std::int64_t counted_rows = std::int64_t{1} << 19;
};

struct FrameKeys {
  const Key* keys = nullptr;  // host (pinned where the copy shall not wait) or device; null: they
                              // stand in input_keys() already
  std::int64_t rows = 0;      // at most the capacity of set 0
  const std::int32_t* device_rows =
      nullptr;  // the number where only the device knows it; `rows` is then its bound
  std::int32_t batch_size = kBatchMax + 1;
  std::optional<SpatialShape> spatial_shape;
};

class FrameMaps {
 public:
  explicit FrameMaps(FrameSpec spec);  // Error naming set or map: order, kind, geometry, taps
  ~FrameMaps();
  FrameMaps(FrameMaps&&) noexcept;
  FrameMaps& operator=(FrameMaps&&) noexcept;

  void reserve(const FrameCapacity& capacity);
  void build(const FrameKeys& keys, cudaStream_t stream);
  // `before_slots` may enqueue on the stream what reads masks of groups and beginnings of planes
  // alone, as tile schedules do, and says whether it did: what comes after it does not wait for it,
  // but ends after it. Its last launch waits for those before it.
  void build(const FrameKeys& keys, cudaStream_t stream, const std::function<bool()>& before_slots);

  DeviceMapView view(int map) const;
  CoordinateView set(int set) const;  // device pointers; look-ups by its table give ranks
  MergeView merge(int set) const;     // of a merged set
  Key* input_keys();                  // device [row_capacity(0)]: where keys go, in row order
  const Key* keys(int set) const;     // device, ascending; in row order where the input is sorted
  const std::int32_t* rank_to_row(int set) const;  // device; null: the same
  const std::int32_t* status() const;  // device [status_size()]: rows of each set, then errors
  std::size_t status_size() const;
  std::int64_t row_capacity(int set) const;
  std::int64_t nbytes() const;  // device memory held

  // What a copy of status() says: rows of each set. Error for an output beyond the key range.
  // `exceeds` is set where a capacity was too small: then the maps are not complete and the frame
  // must be built again with more.
  struct Sizes {
    std::vector<std::int64_t> rows;
    bool exceeds = false;
  };
  Sizes check(std::span<const std::int32_t> status) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparseconv::cuda
