// Coordinates and kernel maps by the letter of the one relation, in = out*stride - padding +
// tap*dilation: std::set, std::map and triple loops that share no code with the library but the
// geometry's fields. And random cases for them.
#pragma once
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "sparseconv/coordinates.hpp"

namespace map_oracle {

using sparseconv::ConvGeometry;
using sparseconv::Coord;
using sparseconv::SpatialShape;

struct Pair {
  int tap;
  std::int32_t in, out;
  friend auto operator<=>(const Pair&, const Pair&) = default;
};

// Bit by bit, from the highest: batch, then z y x of every level, as the key is laid out.
inline bool is_before(const Coord& a, const Coord& b) {
  if (a.batch != b.batch) return a.batch < b.batch;
  for (int bit = 17; bit >= 0; --bit) {
    for (const int axis : {2, 1, 0}) {
      const int p = (a[axis] + (1 << 17)) >> bit & 1, q = (b[axis] + (1 << 17)) >> bit & 1;
      if (p != q) return p < q;
    }
  }
  return false;
}

inline std::vector<Coord> in_order(const std::set<Coord>& coords) {
  std::vector<Coord> sorted(coords.begin(), coords.end());
  std::sort(sorted.begin(), sorted.end(), is_before);
  return sorted;
}

inline bool is_inside(const std::array<long, 3>& c,
                      const std::optional<std::array<long, 3>>& shape) {
  for (std::size_t a = 0; a < 3 && shape; ++a) {
    if (c[a] < 0 || c[a] >= (*shape)[a]) return false;
  }
  return true;
}

template <class Body>  // body(tap index, {rx, ry, rz})
void for_each_tap(const ConvGeometry& g, const Body& body) {
  int index = 0;
  for (int x = 0; x < g.kernel[0]; ++x) {
    for (int y = 0; y < g.kernel[1]; ++y) {
      for (int z = 0; z < g.kernel[2]; ++z) body(index++, std::array<int, 3>{x, y, z});
    }
  }
}

// All `out` such that some tap hits an input; bounds [0, floor((size+2p-d(k-1)-1)/s)+1).
inline std::vector<Coord> strided(const std::vector<Coord>& in,
                                  const std::optional<SpatialShape>& size, const ConvGeometry& g) {
  std::optional<std::array<long, 3>> shape;
  if (size) {
    shape.emplace();
    for (std::size_t a = 0; a < 3; ++a) {
      const long span =
          (*size)[a] + 2L * g.padding[a] - static_cast<long>(g.dilation[a]) * (g.kernel[a] - 1) - 1;
      (*shape)[a] = span < 0 ? 0 : span / g.stride[a] + 1;
    }
  }
  std::set<Coord> out;
  for (const Coord& c : in) {
    for_each_tap(g, [&](int, const std::array<int, 3>& r) {
      std::array<long, 3> q{};
      for (std::size_t a = 0; a < 3; ++a) {
        const long scaled =
            c[static_cast<int>(a)] + g.padding[a] - static_cast<long>(r[a]) * g.dilation[a];
        if (scaled % g.stride[a] != 0) return;
        q[a] = scaled / g.stride[a];
      }
      if (is_inside(q, shape)) {
        out.insert(
            {c.batch, static_cast<int>(q[0]), static_cast<int>(q[1]), static_cast<int>(q[2])});
      }
    });
  }
  return in_order(out);
}

// All in*stride - padding + r*dilation; bounds [0, (size-1)*s - 2p + d(k-1) + 1).
inline std::vector<Coord> generative(const std::vector<Coord>& in,
                                     const std::optional<SpatialShape>& size,
                                     const ConvGeometry& g) {
  std::optional<std::array<long, 3>> shape;
  if (size) {
    shape.emplace();
    for (std::size_t a = 0; a < 3; ++a) {
      (*shape)[a] = ((*size)[a] - 1) * g.stride[a] - 2L * g.padding[a] +
                    static_cast<long>(g.dilation[a]) * (g.kernel[a] - 1) + 1;
    }
  }
  std::set<Coord> out;
  for (const Coord& c : in) {
    for_each_tap(g, [&](int, const std::array<int, 3>& r) {
      std::array<long, 3> f{};
      for (std::size_t a = 0; a < 3; ++a) {
        f[a] = static_cast<long>(c[static_cast<int>(a)]) * g.stride[a] - g.padding[a] +
               static_cast<long>(r[a]) * g.dilation[a];
      }
      if (is_inside(f, shape)) {
        out.insert(
            {c.batch, static_cast<int>(f[0]), static_cast<int>(f[1]), static_cast<int>(f[2])});
      }
    });
  }
  return in_order(out);
}

// Pairs (tap, fine row, coarse row), sorted.
inline std::vector<Pair> pairs(const std::vector<Coord>& fine, const std::vector<Coord>& coarse,
                               const ConvGeometry& g) {
  std::map<Coord, std::int32_t> rows;
  for (std::size_t i = 0; i < fine.size(); ++i) rows[fine[i]] = static_cast<std::int32_t>(i);
  std::vector<Pair> all;
  for (std::size_t out = 0; out < coarse.size(); ++out) {
    for_each_tap(g, [&](int tap, const std::array<int, 3>& r) {
      const Coord& c = coarse[out];
      const auto at = [&](std::size_t a) {
        return c[static_cast<int>(a)] * g.stride[a] - g.padding[a] + r[a] * g.dilation[a];
      };
      const auto found = rows.find(Coord{c.batch, at(0), at(1), at(2)});
      if (found != rows.end()) all.push_back({tap, found->second, static_cast<std::int32_t>(out)});
    });
  }
  std::sort(all.begin(), all.end());
  return all;
}

struct RandomCase {
  ConvGeometry geometry;
  std::vector<Coord> coords;  // shuffled where `is_sorted` is false
  std::optional<SpatialShape> shape;
  std::int32_t batch_size = 0;
  bool is_sorted = false;
};

inline int pick(std::mt19937& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

// Kernels 1..7 (even and asymmetric), strides 1..4, paddings, dilations, bounds or negative
// coordinates, missing batches.
inline RandomCase random_case(unsigned seed) {
  std::mt19937 random(seed);
  RandomCase c;
  for (std::size_t a = 0; a < 3; ++a) {
    c.geometry.kernel[a] = pick(random, 1, 7);
    c.geometry.stride[a] = pick(random, 1, 4);
    c.geometry.padding[a] = pick(random, 0, 3);
    c.geometry.dilation[a] = pick(random, 1, 3);
  }
  if (seed % 4 == 1) c.geometry = {.kernel = {2, 2, 2}, .stride = {2, 2, 2}};
  if (seed % 4 == 2) {
    c.geometry =
        ConvGeometry::submanifold({2 * pick(random, 0, 3) + 1, 2 * pick(random, 0, 2) + 1, 3},
                                  {pick(random, 1, 3), pick(random, 1, 2), 1});
  }
  const bool is_bounded = pick(random, 0, 1) == 1;
  const int low = is_bounded ? 0 : pick(random, -40, 0), extent = pick(random, 1, 24);
  if (is_bounded)
    c.shape = SpatialShape{extent + pick(random, 0, 3), extent + pick(random, 0, 3), extent + 1};
  c.batch_size = pick(random, 1, 4);
  const int missing =
      pick(random, 0, c.batch_size);  // a batch id with no rows; batch_size: none is missing
  std::set<Coord> coords;
  for (int i = pick(random, 0, 300); i > 0; --i) {
    const int batch = pick(random, 0, c.batch_size - 1);
    if (batch == missing) continue;
    coords.insert({batch, low + pick(random, 0, extent - 1), low + pick(random, 0, extent - 1),
                   low + pick(random, 0, extent - 1)});
  }
  c.coords = in_order(coords);
  c.is_sorted = pick(random, 0, 1) == 1;
  if (!c.is_sorted) std::shuffle(c.coords.begin(), c.coords.end(), random);
  return c;
}

}  // namespace map_oracle
