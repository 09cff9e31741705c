// Marks the cells of strided sets whose windows have no dilation from the blocks of another set:
// along each axis the four places of a block give cells of at most two blocks. Such layers one
// upon the other mark as one, so that all sets of a chain are marked at once, from the first.
#pragma once
#include <algorithm>
#include <optional>

#include "sparseconv/coordinates.hpp"
#include "sparseconv/cuda/maps/mark_steps.cuh"

namespace sparseconv::cuda {

struct PlainMark {
  BlockTable source, table;
  std::int32_t is_marked;  // the source's cells are marked only
  std::int32_t stride[3] = {}, padding[3] = {}, reach[3] = {};
  std::int32_t shift[3] = {};  // where the stride is a power of two; else -1
  std::int32_t last[3] = {};   // bounds: 0 <= output <= last, where `is_bounded`
  std::int32_t is_bounded;
  std::int32_t *errors, *full;
};
using PlainMarks = JobList<PlainMark>;

inline bool is_plain(const ConvGeometry& geometry) {
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t reach = geometry.kernel[a] - 1;
    if (geometry.dilation[a] != 1 && reach > 0) return false;
    // At most five outputs of four neighbours: they lie in two blocks.
    if ((3 + reach) / geometry.stride[a] > 4) return false;
  }
  return true;
}

// One axis of two layers, from `fine` cells through `middle` to `coarse` ones (0: no bounds):
// whether each input of a coarse cell reaches it through a cell of the middle within its bounds.
struct AxisOfTwo {
  std::int64_t first_kernel, first_stride, first_padding, kernel, stride, padding;

  bool reaches(std::int64_t coarse, std::int64_t fine, std::int64_t middle) const {
    const std::int64_t through = coarse * stride - padding;
    const std::int64_t begin = through * first_stride - first_padding,
                       end = begin + (kernel - 1) * first_stride + first_kernel;
    for (std::int64_t in = std::max<std::int64_t>(begin, 0); in < std::min(end, fine); ++in) {
      bool is_reached = false;
      for (std::int64_t at = through; at < through + kernel; ++at) {
        const std::int64_t tap = in + first_padding - at * first_stride;
        is_reached = is_reached || (at >= 0 && at < middle && tap >= 0 && tap < first_kernel);
      }
      if (!is_reached) return false;
    }
    return true;
  }
  bool reaches_all(std::int64_t fine, std::int64_t middle, std::int64_t coarse) const {
    for (std::int64_t at = 0; at < coarse && at * stride < padding; ++at) {
      if (!reaches(at, fine, middle)) return false;
    }
    for (std::int64_t at = coarse; at-- > 0 && at * stride - padding + kernel > middle;) {
      if (!reaches(at, fine, middle)) return false;
    }
    return true;
  }
};

// Two strided layers as one that gives the same cells; none where there is no such layer. Shapes:
// of the sets before, between and after them.
inline std::optional<ConvGeometry> composed(const ConvGeometry& first, const ConvGeometry& second,
                                            const std::optional<SpatialShape>& fine,
                                            const std::optional<SpatialShape>& middle,
                                            const std::optional<SpatialShape>& coarse) {
  constexpr std::int64_t kMost = 64;  // of kernels and padding, so that edges are soon looked at
  ConvGeometry both;
  for (std::size_t a = 0; a < 3; ++a) {
    if (first.dilation[a] != 1 || second.dilation[a] != 1) return std::nullopt;
    const AxisOfTwo axis{first.kernel[a],  first.stride[a],  first.padding[a],
                         second.kernel[a], second.stride[a], second.padding[a]};
    if (axis.kernel > 1 && axis.first_kernel < axis.first_stride) return std::nullopt;  // gaps
    if (std::max(axis.first_padding, axis.padding) > kMost) return std::nullopt;
    const std::int64_t kernel = (axis.kernel - 1) * axis.first_stride + axis.first_kernel,
                       stride = axis.first_stride * axis.stride,
                       padding = axis.padding * axis.first_stride + axis.first_padding;
    if (std::max({kernel, stride, padding}) > kMost) return std::nullopt;
    if (coarse && !(fine && middle && axis.reaches_all((*fine)[a], (*middle)[a], (*coarse)[a])))
      return std::nullopt;
    both.kernel[a] = static_cast<int>(kernel);
    both.stride[a] = static_cast<int>(stride);
    both.padding[a] = static_cast<int>(padding);
  }
  return both;
}

// What a block of the source gives. Its outputs lie in one or two blocks along each axis.
struct alignas(8) BlockSpan {
  std::uint64_t cells;
  std::int32_t batch;
  std::int32_t first[3];    // block of the new set
  std::uint32_t two[3];     // 1: and the next one
  std::uint32_t places[3];  // bit 4 v + t: place v gives the cell at t of the first block, and from
                            // bit 16 on of the second
  std::int32_t blocks;      // of the new set; 0: none

  SPARSECONV_DEVICE static BlockSpan of(const PlainMark& mark, Key id, std::uint64_t cells) {
    const Coord at = unpack(id << kBlockBits);
    BlockSpan span{cells, at.batch, {}, {}, {}, cells != 0 ? 1 : 0};
    std::uint32_t none[3] = {}, outside[3] = {};
    SPARSECONV_UNROLL
    for (int a = 0; a < 3; ++a) span.look_along(mark, a, at[a], none[a], outside[a]);
    if ((outside[0] | outside[1] | outside[2]) != 0) {
      using namespace block_axis;
      const std::uint64_t given =
          cells & ~(cells_at<0>(none[0]) | cells_at<1>(none[1]) | cells_at<2>(none[2]));
      const std::uint64_t beyond =
          cells_at<0>(outside[0]) | cells_at<1>(outside[1]) | cells_at<2>(outside[2]);
      if ((given & beyond) != 0) *mark.errors = kOutsideKeyRange;
    }
    return span;
  }

  // Marks the cells of one of its blocks.
  SPARSECONV_DEVICE void put(const PlainMark& mark, int block) const {
    std::uint32_t second[3];
    Key key = static_cast<Key>(batch) << (3 * kAxisBits);
    SPARSECONV_UNROLL
    for (int a = 0; a < 3; ++a) {
      second[a] = static_cast<std::uint32_t>(block) & two[a];
      block >>= two[a];
      const std::int32_t cell = 4 * (first[a] + static_cast<std::int32_t>(second[a])) + kAxisBias;
      key |= spread_bits(static_cast<std::uint32_t>(cell)) << a;
    }
    std::uint64_t out = block_axis::moved<2>(cells, places[2] >> 16 * second[2]);
    out = block_axis::moved<1>(out, places[1] >> 16 * second[1]);
    out = block_axis::moved<0>(out, places[0] >> 16 * second[0]);
    mark_cells(mark.table, key >> kBlockBits, out, mark.errors, mark.full);
  }

 private:
  // `none`, `outside`: places that give no cell, and some beyond the key range.
  SPARSECONV_DEVICE void look_along(const PlainMark& mark, int a, std::int32_t cell,
                                    std::uint32_t& none, std::uint32_t& outside) {
    const auto divide = [&](std::int32_t value) {
      if (mark.shift[a] >= 0) return value >> mark.shift[a];
      const std::int32_t quotient = value / mark.stride[a];
      return value % mark.stride[a] < 0 ? quotient - 1 : quotient;
    };
    const std::int32_t above = cell + mark.padding[a];
    std::int32_t begin[4], end[4], low = kAxisMax, high = kAxisMin;
    SPARSECONV_UNROLL
    for (int v = 0; v < 4; ++v) {
      begin[v] = divide(above + v - mark.reach[a] + mark.stride[a] - 1);
      end[v] = divide(above + v);
      if (mark.is_bounded != 0) {
        begin[v] = begin[v] > 0 ? begin[v] : 0;
        end[v] = end[v] < mark.last[a] ? end[v] : mark.last[a];
      }
      if (begin[v] > end[v]) {
        none |= 1u << v;
        continue;
      }
      if (begin[v] < kAxisMin || end[v] > kAxisMax) outside |= 1u << v;
      begin[v] = begin[v] > kAxisMin ? begin[v] : kAxisMin;
      end[v] = end[v] < kAxisMax ? end[v] : kAxisMax;
      if (begin[v] > end[v]) continue;
      low = begin[v] < low ? begin[v] : low;
      high = end[v] > high ? end[v] : high;
    }
    if (low > high) blocks = 0;
    first[a] = low >> 2;
    two[a] = high >> 2 > first[a] ? 1 : 0;
    blocks <<= two[a];
    SPARSECONV_UNROLL
    for (int v = 0; v < 4; ++v) {
      if (begin[v] > end[v]) continue;
      const std::uint32_t bits =
          (2u << (end[v] - 4 * first[a])) - (1u << (begin[v] - 4 * first[a]));
      places[a] |= (bits & 15) << (4 * v) | (bits >> 4 & 15) << (16 + 4 * v);
    }
  }
};

}  // namespace sparseconv::cuda
