// Kernel maps and row orders built plainly on the host: input and oracle of the CUDA tests and
// benchmarks. Knows nothing of the library's own coordinates, so that the programs need no library
// but the CUDA side and run anywhere.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/collective/gather_table.hpp"
#include "gemm_core/device/cuda/gather/tile_schedule.hpp"

namespace cuda_tests {

struct Coord {
  int x = 0, y = 0, z = 0;
  friend bool operator==(const Coord&, const Coord&) = default;
};
using Coords = std::vector<Coord>;

// About `count` distinct cells near a few random planes: as locally two-dimensional as a scan. In
// Morton order.
Coords surface_cells(int count, unsigned seed);
// int32 [N, 3]; an Error where the file is missing or has another size.
Coords read_cells(const std::string& path);
Coords stride_two_parents(const Coords& cells);

struct HostMap {
  int taps = 0, rows = 0, inputs = 0;
  std::vector<std::int32_t> table;  // [taps][rows] input row or -1
  std::int32_t at(int tap, int row) const {
    return table[static_cast<std::size_t>(tap) * static_cast<std::size_t>(rows) +
                 static_cast<std::size_t>(row)];
  }
  std::int64_t pairs() const;
};
// in = out * stride - padding + tap per axis.
HostMap build_map(const Coords& input, const Coords& output, std::array<int, 3> kernel, int stride,
                  int padding);
HostMap inverse_of(const HostMap& forward);

// A map in slots, as gather_table.hpp defines it.
struct HostTable {
  std::int64_t capacity = 0;
  std::vector<std::int32_t> neighbours, rows;
  std::vector<std::uint32_t> group_masks;
  std::array<std::int32_t, 5> plane_begin{};
};
HostTable order_rows(const HostMap& map);    // one order
HostTable order_planes(const HostMap& map);  // three planes along z; needs 27 taps
double executed_per_row(const HostTable& table, int rows);

// A table in device memory with its schedules.
class DeviceTable {
 public:
  DeviceTable(const HostMap& map, const HostTable& table, cudaStream_t stream);
  const gemm_core::GatherTable& view() const { return view_; }
  gemm_core::TileSchedule schedule(gemm_core::cuda::TilePart part, int tile, int lists,
                                   cudaStream_t stream);

 private:
  base::cuda::Buffer<std::int32_t> neighbours_, rows_, plane_begin_;
  base::cuda::Buffer<std::uint32_t> masks_;
  gemm_core::GatherTable view_;
  std::vector<base::cuda::Buffer<gemm_core::TileRecord>> records_;
  std::vector<base::cuda::Buffer<std::int32_t>> orders_;
};

}  // namespace cuda_tests
