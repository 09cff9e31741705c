// Steps that make kernel maps as tables by output row, and turn such tables round.
#pragma once
#include "sparseconv/cuda/maps/map_source.cuh"

namespace sparseconv::cuda {

// Tables by output row.
struct CanonicalJob {
  MapSource source;
  std::int32_t* table = nullptr;  // [taps][pitch]
  std::int64_t pitch = 0;
};

struct FillCanonical {
  static constexpr int kMemoryWords = WindowFinder::kWords;
  JobList<CanonicalJob> tables;
  SPARSECONV_DEVICE std::int32_t jobs() const { return tables.count; }
  std::int32_t capacity(int job) const { return tables[job].source.output.capacity; }
  SPARSECONV_DEVICE std::int32_t size(int job) const { return tables[job].source.output.size(); }
  SPARSECONV_DEVICE void operator()(int job, std::int32_t i, bool is_active,
                                    const StepContext& context) const {
    if (!is_active) return;
    const CanonicalJob& canonical = tables[job];
    std::int32_t* const column = canonical.table + canonical.source.output_row(i);
    const std::int32_t* const rows = canonical.source.input_rows();
    with_finder(canonical.source, i, context, [&](auto& find) {
      const auto put = [&](int tap) {
        std::int32_t in = find(tap);
        if (rows != nullptr && in >= 0) in = rows[in];
        column[tap * canonical.pitch] = in;
      };
      if (canonical.source.taps == 27) {
        SPARSECONV_UNROLL
        for (int tap = 0; tap < 27; ++tap) put(tap);
      } else {
        for (int tap = 0; tap < canonical.source.taps; ++tap) put(tap);
      }
    });
  }
};

// Pair (in, out, tap) of a table becomes (out, in, tap); the result holds -1 before.
struct InvertJob {
  const std::int32_t* forward = nullptr;
  std::int64_t forward_pitch = 0;
  CoordinateView output;  // of the forward map
  std::int32_t taps = 0;
  std::int32_t* inverse = nullptr;
  std::int64_t inverse_pitch = 0;
};

struct InvertTables {
  JobList<InvertJob> tables;
  SPARSECONV_DEVICE std::int32_t jobs() const { return tables.count; }
  std::int32_t capacity(int job) const { return tables[job].output.capacity; }
  SPARSECONV_DEVICE std::int32_t size(int job) const { return tables[job].output.size(); }
  SPARSECONV_DEVICE void operator()(int job, std::int32_t out, bool is_active) const {
    if (!is_active) return;
    const InvertJob& invert = tables[job];
    for (int tap = 0; tap < invert.taps; ++tap) {
      const std::int32_t in = invert.forward[tap * invert.forward_pitch + out];
      if (in >= 0) invert.inverse[tap * invert.inverse_pitch + in] = out;
    }
  }
};

}  // namespace sparseconv::cuda
