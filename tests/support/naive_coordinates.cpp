#include "tests/support/naive_coordinates.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>

namespace test_support {

using namespace sparseconv;

namespace {

std::map<Coord, std::size_t> index_of(const NaiveTensor& t) {
  std::map<Coord, std::size_t> index;
  for (std::size_t i = 0; i < t.coords.size(); ++i) index[t.coords[i]] = i;
  return index;
}

bool is_inside(const std::array<std::int64_t, 3>& c, const std::optional<SpatialShape>& shape) {
  if (!shape) return true;
  for (std::size_t a = 0; a < 3; ++a) {
    if (c[a] < 0 || c[a] >= (*shape)[a]) return false;
  }
  return true;
}

Coord coord_of(std::int32_t batch, const std::array<std::int64_t, 3>& c) {
  return {batch, static_cast<std::int32_t>(c[0]), static_cast<std::int32_t>(c[1]),
          static_cast<std::int32_t>(c[2])};
}

// Calls body(tap, r) for each tap.
template <class Body>
void for_taps(const ConvGeometry& g, const Body& body) {
  int tap = 0;
  for (int x = 0; x < g.kernel[0]; ++x) {
    for (int y = 0; y < g.kernel[1]; ++y) {
      for (int z = 0; z < g.kernel[2]; ++z) body(tap++, std::array<int, 3>{x, y, z});
    }
  }
}

// in = out * stride - padding + r * dilation.
std::array<std::int64_t, 3> fine_of(const Coord& out, const ConvGeometry& g,
                                    const std::array<int, 3>& r) {
  std::array<std::int64_t, 3> in{};
  for (int a = 0; a < 3; ++a) {
    const auto i = static_cast<std::size_t>(a);
    in[i] = std::int64_t{out[a]} * g.stride[i] - g.padding[i] + r[i] * g.dilation[i];
  }
  return in;
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

}  // namespace

NaiveTensor strided_outputs(const NaiveTensor& in, const ConvGeometry& g) {
  NaiveTensor out;
  out.batch_size = in.batch_size;
  if (in.shape) {
    out.shape.emplace();
    for (std::size_t a = 0; a < 3; ++a) {
      const std::int64_t room =
          (*in.shape)[a] + 2 * g.padding[a] - std::int64_t{g.dilation[a]} * (g.kernel[a] - 1) - 1;
      (*out.shape)[a] = std::max<std::int64_t>(0, floor_div(room, g.stride[a]) + 1);
    }
  }
  std::map<Coord, int> found;
  for (const Coord& c : in.coords) {
    for_taps(g, [&](int, const std::array<int, 3>& r) {
      std::array<std::int64_t, 3> o{};
      for (int a = 0; a < 3; ++a) {
        const auto i = static_cast<std::size_t>(a);
        const std::int64_t scaled = std::int64_t{c[a]} + g.padding[i] - r[i] * g.dilation[i];
        o[i] = floor_div(scaled, g.stride[i]);
        if (o[i] * g.stride[i] != scaled) return;
      }
      if (is_inside(o, out.shape)) found[coord_of(c.batch, o)] = 1;
    });
  }
  for (const auto& [c, unused] : found) out.coords.push_back(c);
  return out;
}

NaiveTensor transposed_outputs(const NaiveTensor& in, const ConvGeometry& g) {
  NaiveTensor out;
  out.batch_size = in.batch_size;
  if (in.shape) {
    out.shape.emplace();
    for (std::size_t a = 0; a < 3; ++a) {
      (*out.shape)[a] = ((*in.shape)[a] - 1) * g.stride[a] - 2 * g.padding[a] +
                        std::int64_t{g.dilation[a]} * (g.kernel[a] - 1) + 1;
    }
  }
  std::map<Coord, int> found;
  for (const Coord& c : in.coords) {
    for_taps(g, [&](int, const std::array<int, 3>& r) {
      const auto o = fine_of(c, g, r);
      if (is_inside(o, out.shape)) found[coord_of(c.batch, o)] = 1;
    });
  }
  for (const auto& [c, unused] : found) out.coords.push_back(c);
  return out;
}

std::vector<NaivePair> pairs_of(const NaiveTensor& fine, const NaiveTensor& coarse,
                                const ConvGeometry& g) {
  const auto index = index_of(fine);
  std::vector<NaivePair> pairs;
  for (std::size_t c = 0; c < coarse.coords.size(); ++c) {
    for_taps(g, [&](int tap, const std::array<int, 3>& r) {
      const auto f = fine_of(coarse.coords[c], g, r);
      const auto found = index.find(coord_of(coarse.coords[c].batch, f));
      if (found != index.end()) pairs.push_back({found->second, c, tap});
    });
  }
  return pairs;
}

}  // namespace test_support
