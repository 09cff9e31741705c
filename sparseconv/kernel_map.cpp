#include "sparseconv/kernel_map.hpp"

#include <algorithm>
#include <mutex>
#include <numeric>

#include "gemm_core/base/parallel.hpp"
#include "sparseconv/hash_map.hpp"
#include "sparseconv/tap_keys.hpp"

namespace sparseconv {
namespace {

constexpr std::int64_t kGrain = 2048;

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  const std::int64_t q = a / b;
  return q * b > a ? q - 1 : q;
}

bool is_symmetric(const ConvGeometry& g) {
  for (std::size_t a = 0; a < 3; ++a) {
    if (g.stride[a] != 1 || g.kernel[a] % 2 == 0 ||
        g.padding[a] != (g.kernel[a] - 1) / 2 * g.dilation[a]) {
      return false;
    }
  }
  return true;
}

// Every fine cell meets at most one coarse cell, under one tap.
bool is_partition(const ConvGeometry& g) {
  for (std::size_t a = 0; a < 3; ++a) {
    if (g.kernel[a] > g.stride[a] || (g.kernel[a] > 1 && g.dilation[a] != 1)) return false;
  }
  return true;
}

// Fills a map; pairs are counted a block of rows at a time.
class Builder {
 public:
  explicit Builder(KernelMap& map) : map_(map), rows_(map.output->size()) {
    const auto taps = static_cast<std::size_t>(map.geometry.taps());
    map.table.assign(taps * static_cast<std::size_t>(rows_), -1);
    map.pairs_per_tap.assign(taps, 0);
  }

  // For each output row, looks up the input under taps [0, taps_end). A mirrored pair stands for
  // its opposite, too.
  template <bool kMirror>
  void search() {
    const int taps = map_.geometry.taps(), end_tap = kMirror ? taps / 2 : taps;
    const HashMap& inputs = map_.input->hash_map();
    base::parallel_blocks(rows_, kGrain, [&](std::int64_t begin, std::int64_t end) {
      HashMap::Cursor cursor(inputs);
      detail::TapKeys keys(map_.geometry);
      base::Buffer<std::int64_t> pairs(map_.pairs_per_tap.size(), 0, cache());
      for (std::int64_t row = begin; row < end; ++row) {
        keys.set_coarse(map_.output->coords()[static_cast<std::size_t>(row)]);
        search_row(keys, cursor, row, end_tap, [&](int tap, std::int32_t in) {
          put(tap, row, in);
          ++pairs[static_cast<std::size_t>(tap)];
          if constexpr (kMirror) {
            put(taps - 1 - tap, in, static_cast<std::int32_t>(row));
            ++pairs[static_cast<std::size_t>(taps - 1 - tap)];
          }
        });
        if constexpr (kMirror) put(end_tap, row, static_cast<std::int32_t>(row));
      }
      if constexpr (kMirror) pairs[static_cast<std::size_t>(end_tap)] = end - begin;
      add_pairs(pairs);
    });
  }

  // For each input row, looks up the one output that may meet it.
  void scatter() {
    const ConvGeometry& g = map_.geometry;
    const HashMap& outputs = map_.output->hash_map();
    base::parallel_blocks(map_.input->size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      HashMap::Cursor cursor(outputs);
      base::Buffer<std::int64_t> pairs(map_.pairs_per_tap.size(), 0, cache());
      for (std::int64_t row = begin; row < end; ++row) {
        const auto i = static_cast<std::size_t>(row);
        Key key = detail::batch_bits(map_.input->keys()[i]);
        int tap = 0;
        bool is_met = true;
        for (int axis = 0; axis < 3; ++axis) {
          const auto a = static_cast<std::size_t>(axis);
          const std::int64_t scaled =
              static_cast<std::int64_t>(map_.input->coords()[i][axis]) + g.padding[a];
          const std::int64_t coarse = floor_div(scaled, g.stride[a]);
          const auto r = static_cast<int>(scaled - coarse * g.stride[a]);
          is_met = is_met && r < g.kernel[a] && detail::is_in_axis_range(coarse);
          tap = tap * g.kernel[a] + r;
          key |= detail::axis_key(coarse, axis);
        }
        const std::int32_t out = is_met ? cursor.find(key) : -1;
        if (out < 0) continue;
        put(tap, out, static_cast<std::int32_t>(row));
        ++pairs[static_cast<std::size_t>(tap)];
      }
      add_pairs(pairs);
    });
  }

 private:
  template <class Found>
  void search_row(const detail::TapKeys& keys, HashMap::Cursor& cursor, std::int64_t row,
                  int end_tap, const Found& found) const {
    const auto& kernel = map_.geometry.kernel;
    const Key batch = detail::batch_bits(map_.output->keys()[static_cast<std::size_t>(row)]);
    int tap = 0;
    for (int rx = 0; rx < kernel[0]; ++rx) {
      for (int ry = 0; ry < kernel[1]; ++ry) {
        const Key column = batch | keys.x(rx) | keys.y(ry);
        for (int rz = 0; rz < kernel[2]; ++rz, ++tap) {
          if (tap == end_tap) return;
          const std::int32_t in = cursor.find(column | keys.z(rz));
          if (in >= 0) found(tap, in);
        }
      }
    }
  }
  void put(int tap, std::int64_t out, std::int32_t in) {
    map_.table[static_cast<std::size_t>(tap * rows_ + out)] = in;
  }
  base::BlockCachePtr cache() const { return map_.table.get_allocator().cache(); }
  void add_pairs(const base::Buffer<std::int64_t>& pairs) {
    const std::lock_guard lock(mutex_);
    for (std::size_t t = 0; t < pairs.size(); ++t) map_.pairs_per_tap[t] += pairs[t];
  }

  KernelMap& map_;
  std::int64_t rows_;
  std::mutex mutex_;
};

std::string describe(const CoordinatesPtr& c) {
  return c ? base::concat(c->size(), " rows at ", static_cast<const void*>(c.get())) : "none";
}

KernelMap::Kind inverse_kind(const KernelMap& map) {
  return map.kind == KernelMap::Kind::convolution ? KernelMap::Kind::inverse
                                                  : KernelMap::Kind::convolution;
}

}  // namespace

std::int64_t KernelMap::pairs() const {
  return std::accumulate(pairs_per_tap.begin(), pairs_per_tap.end(), std::int64_t{0});
}

std::int64_t KernelMap::inputs_without_pair() const {
  std::vector<bool> met(static_cast<std::size_t>(input->size()));
  for (const std::int32_t in : table) {
    if (in >= 0) met[static_cast<std::size_t>(in)] = true;
  }
  return std::count(met.begin(), met.end(), false);
}

void KernelMap::require(const ConvGeometry& wanted, const CoordinatesPtr& in,
                        const char* operation) const {
  ENSURE(geometry == wanted, operation, ": the kernel map was made for ", to_string(geometry),
         ", not for ", to_string(wanted));
  ENSURE(input == in, operation, ": the kernel map was made for other input coordinates (",
         describe(input), ", not ", describe(in), ")");
}

KernelMapPtr build_kernel_map(const CoordinatesPtr& input, const CoordinatesPtr& output,
                              const ConvGeometry& geometry, const base::BlockCachePtr& cache) {
  ENSURE(input && output, "kernel map: no coordinates");
  geometry.check("kernel map");
  auto map = std::make_shared<KernelMap>();
  map->table = base::Buffer<std::int32_t>(cache);
  map->geometry = geometry;
  map->input = input;
  map->output = output;
  Builder builder(*map);
  if (input == output && is_symmetric(geometry)) {
    builder.search<true>();
  } else if (is_partition(geometry)) {
    builder.scatter();
  } else {
    builder.search<false>();
  }
  return map;
}

KernelMapPtr invert(const KernelMapPtr& forward, const base::BlockCachePtr& cache) {
  ENSURE(forward, "inverse map: no forward map");
  auto map = std::make_shared<KernelMap>();
  map->table = base::Buffer<std::int32_t>(cache);
  map->kind = inverse_kind(*forward);
  map->geometry = forward->geometry;
  map->input = forward->output;
  map->output = forward->input;
  map->pairs_per_tap = forward->pairs_per_tap;
  const auto taps = static_cast<std::int64_t>(forward->geometry.taps());
  const std::int64_t rows = map->output->size(), forward_rows = forward->output->size();
  map->table.assign(static_cast<std::size_t>(taps * rows), -1);
  base::parallel_blocks(taps, 1, [&](std::int64_t tap, std::int64_t) {
    const std::int32_t* from = forward->table.data() + tap * forward_rows;
    std::int32_t* to = map->table.data() + tap * rows;
    for (std::int64_t out = 0; out < forward_rows; ++out) {
      if (from[out] >= 0) to[from[out]] = static_cast<std::int32_t>(out);
    }
  });
  return map;
}

KernelMapPtr build_transposed_map(const CoordinatesPtr& input, const CoordinatesPtr& output,
                                  const ConvGeometry& geometry, const base::BlockCachePtr& cache) {
  const auto forward = build_kernel_map(output, input, geometry, cache);
  const auto map = std::const_pointer_cast<KernelMap>(invert(forward, cache));
  map->kind = KernelMap::Kind::transposed;
  return map;
}

}  // namespace sparseconv
