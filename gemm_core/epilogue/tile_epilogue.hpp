// The seam between a mainloop and an epilogue that has state over the whole result (visitor trees):
// the mainloop calls begin once, tile for every tile of accumulators in any order and from any
// thread, and finish once. After tile() the block holds the values that the mainloop stores to D.
#pragma once
#include <cstdint>
#include <vector>

#include "gemm_core/atom/cpu_atoms.hpp"
#include "gemm_core/epilogue/node_memory.hpp"

namespace gemm_core {

// Tiles start at multiples of (tile_m, tile_n) and cover [m, n] once for each batch.
struct TileGrid {
  std::int64_t m = 0, n = 0, batch = 1;
  std::int64_t tile_m = 1, tile_n = 1;
  std::int64_t tiles_m() const { return (m + tile_m - 1) / tile_m; }
  std::int64_t tiles_n() const { return (n + tile_n - 1) / tile_n; }
};

struct TilePlace {
  std::int64_t m0 = 0, n0 = 0, batch = 0;
};

class TileEpilogue {
 public:
  virtual ~TileEpilogue() = default;
  // base::Error naming node, expected and got where the nodes do not fit an [m, n] x batch result.
  virtual void check(std::int64_t m, std::int64_t n, std::int64_t batch) const = 0;
  // What nodes read and write of memory for such a result; check() need not have passed. An
  // epilogue that names none is not held against the operands.
  virtual std::vector<NodeMemory> memory(std::int64_t, std::int64_t, std::int64_t) const {
    return {};
  }
  virtual void begin(const TileGrid& grid) = 0;
  virtual void tile(const CpuAtoms& atoms, const Block& block, const TilePlace& place) = 0;
  virtual void finish() = 0;
};

}  // namespace gemm_core
