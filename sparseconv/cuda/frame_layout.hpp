// Where everything of a frame's maps stands in one arena, and in which stages it is built. Plain
// pointers, host or device.
#pragma once
#include <vector>

#include "sparseconv/cuda/coordinate_steps.cuh"
#include "sparseconv/cuda/frame_maps.hpp"
#include "sparseconv/cuda/order_steps.cuh"

namespace sparseconv::cuda {

// Hands out parts of three regions: all ones before a build, zero before a build, and neither.
// Without a base it measures.
class Arena {
 public:
  enum Region { ones, zeros, plain, constant };  // constant: written when planned
  explicit Arena(std::uint8_t* base = nullptr, const std::array<std::size_t, 4>& sizes = {})
      : base_(base) {
    for (std::size_t r = 1; r < 4; ++r) begin_[r] = begin_[r - 1] + sizes[r - 1];
  }
  template <class T>
  T* take(Region region, std::int64_t count) {
    constexpr std::size_t kAlignment = 256;
    std::size_t& used = used_[region];
    T* at = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + begin_[region] + used);
    used +=
        (static_cast<std::size_t>(count) * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }
  const std::array<std::size_t, 4>& used() const { return used_; }
  std::uint8_t* begin(Region region) const { return base_ + begin_[region]; }

 private:
  std::uint8_t* base_;
  std::array<std::size_t, 4> begin_{}, used_{};
};

// Levels by halving, or one general set.
struct SetStage {
  std::vector<int> sets;
  Pyramid pyramid{};                // limits are filled in a frame
  LevelRows* level_rows = nullptr;  // [source capacity]
  bool is_pyramid = false;
  // General.
  int source = 0;
  ConvGeometry geometry;
  bool is_strided = true;
  Key *ids = nullptr, *sorted_ids = nullptr;
  std::int32_t *slots = nullptr, *sorted_slots = nullptr, *sums = nullptr, *blocks = nullptr,
               *errors = nullptr, *full = nullptr;
};

// Orders that one sort serves: it tells kMaxSegments segments apart.
struct OrderBatch {
  int first = 0, count = 0;  // of orders
  std::int32_t segments = 0;
  std::int64_t items = 0;
  std::int32_t max_rows = 0, max_slots = 0;
  std::uint32_t *keys = nullptr, *sorted_keys = nullptr;
  std::int32_t *values = nullptr, *sorted_values = nullptr, *segment_begin = nullptr;
};

struct FrameLayout {
  Arena arena;
  std::vector<CoordinateView> sets;
  std::vector<SetStage> stages;
  std::vector<CoordinateView> tabled;  // sets whose tables are made from sorted keys
  std::vector<OrderJob> orders;
  std::vector<OrderBatch> batches;
  std::vector<CanonicalJob> canonicals;
  std::vector<InvertJob> inverts;
  std::vector<CanonicalJob> tables;  // by output row, of maps; pitch 0 where there is none
  std::vector<int> order_of_map;     // -1: none
  std::int32_t* status = nullptr;    // [sets] counts, [sets] errors
  Key* input_keys = nullptr;         // unsorted input
  std::int32_t* input_ranks = nullptr;
  // Copies of the vectors above where steps read them.
  CoordinateView* tabled_jobs = nullptr;
  OrderJob* order_jobs = nullptr;
  CanonicalJob* canonical_jobs = nullptr;
  InvertJob* invert_jobs = nullptr;
};

void check_spec(const FrameSpec& spec);
FrameMaps::Sizes read_status(const FrameLayout& frame, std::span<const std::int32_t> status);
FrameLayout lay_out(const FrameSpec& spec, const FrameCapacity& capacity, Arena arena);

}  // namespace sparseconv::cuda
