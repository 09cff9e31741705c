#include "tests/cuda/host_map.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <numeric>
#include <random>
#include <unordered_map>

namespace cuda_tests {
namespace {

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

std::uint64_t morton(const Coord& c) {
  std::uint64_t key = 0;
  for (int bit = 0; bit < 20; ++bit) {
    key |= (static_cast<std::uint64_t>((c.x + 65536) >> bit & 1) |
            static_cast<std::uint64_t>((c.y + 65536) >> bit & 1) << 1 |
            static_cast<std::uint64_t>((c.z + 65536) >> bit & 1) << 2)
           << (3 * bit);
  }
  return key;
}

void sort_distinct(Coords& cells) {
  std::sort(cells.begin(), cells.end(),
            [](const Coord& a, const Coord& b) { return morton(a) < morton(b); });
  cells.erase(std::unique(cells.begin(), cells.end()), cells.end());
}

std::uint32_t gray_decoded(std::uint32_t m) {
  for (int step = 1; step < 32; step *= 2) m ^= m >> step;
  return m;
}

struct Row {
  std::uint32_t key, mask;
  std::int32_t entry;
};

// Rows with a tap of `taps`, sorted as device_map.cuh says; `entry_of` gives the entry and whether
// it sorts late.
template <class EntryOf>
std::vector<Row> sorted_rows(const HostMap& map, const std::vector<int>& taps, bool keep_all,
                             EntryOf&& entry_of) {
  std::vector<std::int64_t> frequency(index(map.taps), 0);
  for (const int t : taps) {
    for (int r = 0; r < map.rows; ++r) frequency[index(t)] += map.at(t, r) >= 0;
  }
  std::vector<int> by_frequency = taps;
  std::stable_sort(by_frequency.begin(), by_frequency.end(),
                   [&](int a, int b) { return frequency[index(a)] > frequency[index(b)]; });
  std::vector<Row> rows;
  for (int r = 0; r < map.rows; ++r) {
    std::uint32_t mask = 0, renumbered = 0;
    for (std::size_t i = 0; i < by_frequency.size(); ++i) {
      if (map.at(by_frequency[i], r) < 0) continue;
      mask |= 1u << by_frequency[i];
      renumbered |= 1u << i;
    }
    if (mask == 0 && !keep_all) continue;
    const auto [entry, is_late] = entry_of(r);
    rows.push_back({gray_decoded(renumbered) | (is_late ? 1u << 31 : 0), mask, entry});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.key < b.key; });
  return rows;
}

void append(HostTable& table, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    table.rows.push_back(row.entry);
    const std::size_t group = (table.rows.size() - 1) / gemm_core::kSlotGroup;
    table.group_masks.resize(group + 1, 0);
    table.group_masks[group] |= row.mask;
  }
  while (table.rows.size() % gemm_core::kSlotAlignment != 0) table.rows.push_back(-1);
  table.group_masks.resize(table.rows.size() / gemm_core::kSlotGroup, 0);
}

void fill_neighbours(HostTable& table, const HostMap& map) {
  table.capacity = static_cast<std::int64_t>(table.rows.size());
  table.neighbours.assign(index(map.taps * table.capacity), -1);
  for (int t = 0; t < map.taps; ++t) {
    for (std::int64_t s = 0; s < table.capacity; ++s) {
      const std::int32_t entry = table.rows[index(s)];
      if (entry >= 0)
        table.neighbours[index(t * table.capacity + s)] = map.at(t, entry & gemm_core::kSlotRow);
    }
  }
}

}  // namespace

Coords surface_cells(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  const double extent = std::sqrt(count) * 0.6 + 4;
  Coords cells;
  for (int plane = 0; plane < 4; ++plane) {
    const double a = uniform(random) * 0.4, b = uniform(random) * 0.4,
                 height = uniform(random) * extent * 0.3;
    for (int i = 0; i < count / 3; ++i) {
      const double u = uniform(random) * extent, v = uniform(random) * extent,
                   w = a * u + b * v + height + uniform(random) * 0.8;
      const int p = static_cast<int>(std::floor(u)), q = static_cast<int>(std::floor(v)),
                r = static_cast<int>(std::floor(w));
      cells.push_back(plane % 2 == 0 ? Coord{p, q, r} : Coord{p, r, q});
    }
  }
  std::shuffle(cells.begin(), cells.end(), random);
  sort_distinct(cells);
  while (static_cast<int>(cells.size()) > count)
    cells.erase(cells.begin() + static_cast<std::ptrdiff_t>(random() % cells.size()));
  return cells;
}

Coords read_cells(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  ENSURE(file, path, ": cannot be opened");
  const auto bytes = static_cast<std::size_t>(file.tellg());
  ENSURE(bytes % sizeof(Coord) == 0, path, ": ", bytes, " bytes are no rows of three int32");
  Coords cells(bytes / sizeof(Coord));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(cells.data()), static_cast<std::streamsize>(bytes));
  sort_distinct(cells);
  return cells;
}

Coords stride_two_parents(const Coords& cells) {
  Coords parents;
  for (const Coord& c : cells) parents.push_back({c.x >> 1, c.y >> 1, c.z >> 1});
  sort_distinct(parents);
  return parents;
}

std::int64_t HostMap::pairs() const {
  return std::count_if(table.begin(), table.end(), [](std::int32_t v) { return v >= 0; });
}

HostMap build_map(const Coords& input, const Coords& output, std::array<int, 3> kernel, int stride,
                  int padding) {
  std::unordered_map<std::uint64_t, std::int32_t> row_of;
  for (std::size_t i = 0; i < input.size(); ++i)
    row_of[morton(input[i])] = static_cast<std::int32_t>(i);
  HostMap map{kernel[0] * kernel[1] * kernel[2],
              static_cast<int>(output.size()),
              static_cast<int>(input.size()),
              {}};
  map.table.reserve(index(map.taps) * output.size());
  for (int x = 0; x < kernel[0]; ++x) {
    for (int y = 0; y < kernel[1]; ++y) {
      for (int z = 0; z < kernel[2]; ++z) {
        for (const Coord& c : output) {
          const auto found =
              row_of.find(morton({c.x * stride - padding + x, c.y * stride - padding + y,
                                  c.z * stride - padding + z}));
          map.table.push_back(found == row_of.end() ? -1 : found->second);
        }
      }
    }
  }
  return map;
}

HostMap inverse_of(const HostMap& forward) {
  HostMap map{forward.taps, forward.inputs, forward.rows,
              std::vector<std::int32_t>(index(forward.taps) * index(forward.inputs), -1)};
  for (int t = 0; t < forward.taps; ++t) {
    for (int r = 0; r < forward.rows; ++r) {
      const std::int32_t in = forward.at(t, r);
      if (in >= 0) map.table[index(t) * index(map.rows) + index(in)] = r;
    }
  }
  return map;
}

double executed_per_row(const HostTable& table, int rows) {
  std::int64_t executed = 0;
  for (const std::uint32_t mask : table.group_masks) executed += 64 * std::popcount(mask);
  return rows > 0 ? static_cast<double>(executed) / rows : 0;
}

HostTable order_rows(const HostMap& map) {
  std::vector<int> taps(index(map.taps));
  std::iota(taps.begin(), taps.end(), 0);
  HostTable table;
  append(table, sorted_rows(map, taps, true, [](int r) { return std::pair{r, false}; }));
  table.plane_begin = {0, 0, 0, map.rows, map.rows};
  fill_neighbours(table, map);
  return table;
}

HostTable order_planes(const HostMap& map) {
  ENSURE(map.taps == 27, "planes: ", map.taps, " taps; 27 expected");
  std::vector<int> plane[3];  // below, above, centre
  for (int t = 0; t < 27; ++t) plane[t % 3 == 0 ? 0 : t % 3 == 2 ? 1 : 2].push_back(t);
  const auto has = [&](int r, int p) {
    return std::any_of(plane[p].begin(), plane[p].end(), [&](int t) { return map.at(t, r) >= 0; });
  };
  HostTable table;
  for (int p = 0; p < 2; ++p) {
    append(table, sorted_rows(map, plane[p], false, [](int r) { return std::pair{r, false}; }));
    table.plane_begin[index(p + 1)] = static_cast<std::int32_t>(table.rows.size());
  }
  const auto centre = sorted_rows(map, plane[2], true, [&](int r) {
    const std::int32_t flags =
        (has(r, 0) ? gemm_core::kSlotBelow : 0) | (has(r, 1) ? gemm_core::kSlotAbove : 0);
    return std::pair{r | flags, flags != 0};
  });
  const auto first_late = std::find_if(centre.begin(), centre.end(),
                                       [](const Row& r) { return r.entry > gemm_core::kSlotRow; });
  table.plane_begin[3] =
      table.plane_begin[2] + static_cast<std::int32_t>(first_late - centre.begin());
  table.plane_begin[4] = table.plane_begin[2] + map.rows;
  append(table, centre);
  fill_neighbours(table, map);
  return table;
}

DeviceTable::DeviceTable(const HostMap& map, const HostTable& table, cudaStream_t stream)
    : neighbours_(table.neighbours.size()),
      rows_(table.rows.size()),
      plane_begin_(5),
      masks_(table.group_masks.size()) {
  upload(neighbours_, table.neighbours.data(), table.neighbours.size(), stream);
  upload(rows_, table.rows.data(), table.rows.size(), stream);
  upload(plane_begin_, table.plane_begin.data(), 5, stream);
  upload(masks_, table.group_masks.data(), table.group_masks.size(), stream);
  CUDA_CHECK(cudaStreamSynchronize(stream));
  view_ = {map.taps,     table.capacity, neighbours_.data(),
           rows_.data(), masks_.data(),  plane_begin_.data()};
}

gemm_core::TileSchedule DeviceTable::schedule(gemm_core::cuda::TilePart part, int tile, int lists,
                                              cudaStream_t stream) {
  const std::int32_t pitch = gemm_core::cuda::schedule_pitch(view_.capacity, tile, lists);
  records_.emplace_back(static_cast<std::size_t>(pitch) * static_cast<std::size_t>(lists));
  orders_.emplace_back(static_cast<std::size_t>(view_.capacity / tile + 1));
  const gemm_core::cuda::TileScheduleJob job{
      view_, part, tile, lists, pitch, records_.back().data(), orders_.back().data()};
  gemm_core::cuda::build_tile_schedules({&job, 1}, stream);
  return {tile, lists, pitch, records_.back().data()};
}

}  // namespace cuda_tests
