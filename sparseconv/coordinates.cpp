#include "sparseconv/coordinates.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>

#include "gemm_core/base/parallel.hpp"
#include "sparseconv/hash_map.hpp"

namespace sparseconv {
namespace {

constexpr std::int64_t kGrain = 8192;
constexpr std::int64_t kMaxRows = std::numeric_limits<std::int32_t>::max();
constexpr const char* kAxisNames[3] = {"x", "y", "z"};

std::string to_string(const Coord& c) {
  return base::concat("[", c.batch, ", ", c.x, ", ", c.y, ", ", c.z, "]");
}

bool is_within(const Coord& c, const Coordinates::Options& options) {
  if (!is_in_key_range(c) || (options.batch_size > 0 && c.batch >= options.batch_size))
    return false;
  for (int a = 0; a < 3 && options.spatial_shape; ++a) {
    if (c[a] < 0 || c[a] >= (*options.spatial_shape)[static_cast<std::size_t>(a)]) return false;
  }
  return true;
}

// Says which of the conditions of is_within() fails.
[[noreturn]] void fail_outside(const Coord& c, std::size_t row,
                               const Coordinates::Options& options) {
  const std::string where = base::concat("coordinates: row ", row, " ", to_string(c), ": ");
  const std::int32_t batches = options.batch_size > 0 ? options.batch_size : kBatchMax + 1;
  ENSURE(c.batch >= 0 && c.batch < batches, where, "batch ", c.batch, " is not in 0..",
         batches - 1);
  for (int a = 0; a < 3; ++a) {
    if (options.spatial_shape) {
      const std::int64_t size = (*options.spatial_shape)[static_cast<std::size_t>(a)];
      ENSURE(c[a] >= 0 && c[a] < size, where, kAxisNames[a], " = ", c[a],
             " is outside the spatial shape, 0..", size - 1);
    }
    ENSURE(c[a] >= kAxisMin && c[a] <= kAxisMax, where, kAxisNames[a], " = ", c[a],
           " is outside the key range, ", kAxisMin, "..", kAxisMax);
  }
  base::fail(where, "the last corner of batch ", kBatchMax, " is reserved");
}

[[noreturn]] void fail_duplicate(std::span<const Key> keys, std::size_t row) {
  const auto first = std::find(keys.begin(), keys.end(), keys[row]) - keys.begin();
  base::fail("coordinates: rows ", first, " and ", row, " are both ", to_string(unpack(keys[row])),
             " (voxelize merges duplicates)");
}

void check_options(const Coordinates::Options& options) {
  ENSURE(options.batch_size >= 0 && options.batch_size <= kBatchMax + 1, "coordinates: batch size ",
         options.batch_size, " is not in 0..", kBatchMax + 1);
  for (std::size_t a = 0; a < 3 && options.spatial_shape; ++a) {
    ENSURE((*options.spatial_shape)[a] >= 0, "coordinates: spatial shape on axis ", kAxisNames[a],
           " is ", (*options.spatial_shape)[a]);
  }
}

// Neighbours in rank mostly share all but the low bits: those of 16^3 cells, here.
void unpack_sorted(std::span<const Key> keys, Coord* coords) {
  constexpr int kBits = detail::kBlockBits;
  constexpr Key kLow = (Key{1} << kBits) - 1;
  static constexpr auto kCells = [] {
    std::array<Coord, kLow + 1> cells{};
    for (Key i = 0; i <= kLow; ++i) {
      cells[i] = {0, static_cast<std::int32_t>(gather_bits(i)),
                  static_cast<std::int32_t>(gather_bits(i >> 1)),
                  static_cast<std::int32_t>(gather_bits(i >> 2))};
    }
    return cells;
  }();
  constexpr std::int32_t kSide = 1 << (kBits / 3);
  Key cube = kNoKey;
  Coord corner;
  for (const Key key : keys) {
    if (key >> (2 * kBits) != cube) {
      cube = key >> (2 * kBits);
      corner = unpack(cube << (2 * kBits));
    }
    const Coord &block = kCells[key >> kBits & kLow], &cell = kCells[key & kLow];
    *coords++ = {corner.batch, corner.x + block.x * kSide + cell.x,
                 corner.y + block.y * kSide + cell.y, corner.z + block.z * kSide + cell.z};
  }
}

// From a map to ranks, one to rows.
std::unique_ptr<const HashMap> map_to_rows(HashMap map, std::span<const Key> keys,
                                           const base::BlockCachePtr& cache) {
  HashMap::Cursor cursor(map);
  base::Buffer<std::int32_t> rows(keys.size(), cache);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    rows[static_cast<std::size_t>(cursor.find(keys[i]))] = static_cast<std::int32_t>(i);
  }
  map.set_rows(std::move(rows));
  return std::make_unique<const HashMap>(std::move(map));
}

}  // namespace

struct Coordinates::Lazy {
  std::once_flag once;
  std::unique_ptr<const HashMap> hash_map;
  std::atomic<std::int64_t> hash_map_bytes{0};
};

Coordinates::Coordinates() : lazy_(std::make_unique<Lazy>()) {}
Coordinates::~Coordinates() = default;

std::shared_ptr<const Coordinates> Coordinates::create(std::vector<Coord> coords,
                                                       const Options& options) {
  check_options(options);
  ENSURE(static_cast<std::int64_t>(coords.size()) <= kMaxRows, "coordinates: ", coords.size(),
         " rows, at most ", kMaxRows);
  auto set = std::shared_ptr<Coordinates>(new Coordinates);
  set->keys_ = base::Buffer<Key>(coords.size(), options.cache);
  bool is_sorted = true;
  std::int32_t batches = options.batch_size;
  for (std::size_t i = 0; i < coords.size(); ++i) {
    if (!is_within(coords[i], options)) fail_outside(coords[i], i, options);
    set->keys_[i] = pack(coords[i]);
    is_sorted = is_sorted && (i == 0 || set->keys_[i - 1] < set->keys_[i]);
    if (options.batch_size == 0) batches = std::max(batches, coords[i].batch + 1);
  }
  set->coords_ = base::Buffer<Coord>(coords.begin(), coords.end(), options.cache);
  set->is_sorted_ = is_sorted;
  set->batch_size_ = batches;
  set->spatial_shape_ = options.spatial_shape;
  if (!is_sorted) {
    BlockSet seen(set->size() / 4, options.cache);
    for (std::size_t i = 0; i < set->keys_.size(); ++i) {
      if (!seen.insert(set->keys_[i])) fail_duplicate(set->keys_, i);
    }
    set->lazy_->hash_map = map_to_rows(std::move(seen).finish().map, set->keys_, options.cache);
    set->lazy_->hash_map_bytes = set->lazy_->hash_map->nbytes();
  }
  return set;
}

Coordinates::Selection Coordinates::create_within(std::span<const Coord> coords,
                                                  const Options& options) {
  check_options(options);
  Selection selection;
  std::vector<Coord> kept;
  for (std::size_t i = 0; i < coords.size(); ++i) {
    if (!is_within(coords[i], options)) continue;
    kept.push_back(coords[i]);
    selection.kept_rows.push_back(static_cast<std::int64_t>(i));
  }
  selection.dropped = static_cast<std::int64_t>(coords.size() - kept.size());
  selection.coordinates = create(std::move(kept), options);
  return selection;
}

std::shared_ptr<const Coordinates> Coordinates::from_sorted_keys(base::Buffer<Key> keys,
                                                                 const Options& options) {
  check_options(options);
  ENSURE(static_cast<std::int64_t>(keys.size()) <= kMaxRows, "coordinates: ", keys.size(),
         " rows, at most ", kMaxRows);
  auto set = std::shared_ptr<Coordinates>(new Coordinates);
  set->coords_ = base::Buffer<Coord>(keys.size(), options.cache);
  base::parallel_blocks(static_cast<std::int64_t>(keys.size()), kGrain,
                        [&](std::int64_t begin, std::int64_t end) {
                          unpack_sorted(std::span(keys.data() + begin, keys.data() + end),
                                        set->coords_.data() + begin);
                        });
  set->is_sorted_ = true;
  set->batch_size_ = options.batch_size > 0 ? options.batch_size
                     : keys.empty()         ? 0
                                            : set->coords_.back().batch + 1;
  set->spatial_shape_ = options.spatial_shape;
  set->keys_ = std::move(keys);
  return set;
}

std::shared_ptr<const Coordinates> Coordinates::from_block_set(BlockSet blocks,
                                                               const Options& options) {
  auto [keys, map] = std::move(blocks).finish();
  const auto set = std::const_pointer_cast<Coordinates>(from_sorted_keys(std::move(keys), options));
  set->lazy_->hash_map = std::make_unique<const HashMap>(std::move(map));
  set->lazy_->hash_map_bytes = set->lazy_->hash_map->nbytes();
  return set;
}

const HashMap& Coordinates::hash_map() const {
  std::call_once(lazy_->once, [this] {
    if (lazy_->hash_map) return;
    lazy_->hash_map = std::make_unique<const HashMap>(keys_, coords_.get_allocator().cache());
    lazy_->hash_map_bytes = lazy_->hash_map->nbytes();
  });
  return *lazy_->hash_map;
}

std::int64_t Coordinates::nbytes() const {
  const std::size_t own = coords_.size() * sizeof(Coord) + keys_.size() * sizeof(Key);
  return static_cast<std::int64_t>(own) + lazy_->hash_map_bytes;
}

}  // namespace sparseconv
