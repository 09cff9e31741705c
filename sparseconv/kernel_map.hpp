// Which input row meets which output row under which tap.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "sparseconv/coordinates.hpp"

namespace sparseconv {

// table[tap * output->size() + out_row] = input row or -1 (tap-major). Per tap each input row and
// each output row occurs at most once. Immutable; holds the coordinate sets it was made for.
struct KernelMap {
  enum class Kind : std::uint8_t { convolution, inverse, transposed } kind = Kind::convolution;
  ConvGeometry geometry;
  CoordinatesPtr input, output;
  base::Buffer<std::int32_t> table;
  std::vector<std::int64_t> pairs_per_tap;
  std::int64_t pairs() const;
  std::int64_t inputs_without_pair()
      const;  // rows that no output sees, e.g. cut off by the spatial shape
  std::int64_t nbytes() const {
    return static_cast<std::int64_t>(table.size() * sizeof(std::int32_t));
  }

  // Error when the map was made for other coordinates (by identity, not by count) or another
  // geometry.
  void require(const ConvGeometry& geometry, const CoordinatesPtr& input,
               const char* operation) const;
};
using KernelMapPtr = std::shared_ptr<const KernelMap>;

// fine = coarse*stride - padding + tap*dilation with fine in `input`, coarse in `output`.
// Submanifold: output == input (same pointer), the map is symmetric and only half of the taps are
// searched. The table gets its memory from `cache`, where there is one.
KernelMapPtr build_kernel_map(const CoordinatesPtr& input, const CoordinatesPtr& output,
                              const ConvGeometry& geometry,
                              const base::BlockCachePtr& cache = nullptr);
// Pair (in, out, tap) of `forward` used as (out, in, tap): derived, not searched.
KernelMapPtr invert(const KernelMapPtr& forward, const base::BlockCachePtr& cache = nullptr);
// Transposed convolution from `input` (coarse) to `output` (fine) coordinates.
KernelMapPtr build_transposed_map(const CoordinatesPtr& input, const CoordinatesPtr& output,
                                  const ConvGeometry& geometry,
                                  const base::BlockCachePtr& cache = nullptr);

}  // namespace sparseconv
