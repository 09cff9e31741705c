// Where everything of a frame's maps stands in one arena, and in which stages it is built. Plain
// pointers, host or device.
#pragma once
#include <vector>

#include "sparseconv/cuda/arena.hpp"
#include "sparseconv/cuda/maps/coordinate_steps.cuh"
#include "sparseconv/cuda/maps/frame_maps.hpp"
#include "sparseconv/cuda/maps/general_steps.cuh"
#include "sparseconv/cuda/maps/merge_steps.cuh"
#include "sparseconv/cuda/maps/plain_marks.cuh"
#include "sparseconv/cuda/maps/slot_steps.cuh"
#include "sparseconv/cuda/maps/table_steps.cuh"

namespace sparseconv::cuda {

// Levels by halving, one general set, or one global set.
struct SetStage {
  enum class Kind : std::uint8_t { pyramid, general, global } kind = Kind::general;
  std::vector<int> sets;
  int source = 0;     // of a pyramid: a set
  Pyramid pyramid{};  // limits are filled in a frame
  // General.
  std::vector<SetSpec::Part> parts;
  bool is_strided = true;
  bool is_counted = true;  // else sorted
  GroupTable groups;
  Key *ids = nullptr, *sorted_ids = nullptr;
  std::int32_t *slots = nullptr, *sorted_slots = nullptr, *sums = nullptr, *errors = nullptr,
               *full = nullptr;
};

// The items of a merged set.
struct MergeStage {
  int set = 0;
  MergedSet merged;
  std::int64_t items = 0;  // at most
  Sorted<std::uint32_t> unsorted{}, sorted{};
  std::int32_t *item_count = nullptr, *part_begin = nullptr, *items_of_rows = nullptr,
               *begin = nullptr;
};

// Orders that one launch brings about by counting, or one sort: it tells kMaxSegments segments
// apart.
struct OrderBatch {
  OrderJobs orders;
  bool is_counted = true;
  // Sorted.
  std::int32_t segments = 0;
  std::int64_t items = 0;  // at most
  Sorted<std::uint32_t> unsorted{}, sorted{};
  std::int32_t *segment_begin = nullptr, *item_count = nullptr;
};

struct FrameLayout {
  Arena arena;
  std::vector<CoordinateView> sets;
  std::vector<SetStage> stages;
  std::vector<MergeStage> merges;
  std::vector<int> tabled;  // sets whose tables are made from sorted keys
  std::vector<OrderJob> orders;
  std::vector<OrderBatch> batches;
  std::vector<CanonicalJob> canonicals;
  std::vector<InvertJob> inverts;
  std::vector<CanonicalJob> tables;  // by output row, of maps; pitch 0 where there is none
  std::vector<int> order_of_map;     // -1: none
  std::int32_t* status = nullptr;    // [sets] counts, [sets] errors
  Key* input_keys = nullptr;         // unsorted input
  std::int32_t* input_ranks = nullptr;
};

void check_spec(const FrameSpec& spec);
FrameMaps::Sizes read_status(const FrameLayout& frame, std::span<const std::int32_t> status);
FrameLayout lay_out(const FrameSpec& spec, const FrameCapacity& capacity, Arena arena);

}  // namespace sparseconv::cuda
