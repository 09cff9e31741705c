// What a frame is asked to build, checked before anything is laid out.
#include "sparseconv/cuda/maps/frame_layout.hpp"

namespace sparseconv::cuda {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

void check_parts(const SetSpec& set, int s) {
  ENSURE(!set.parts.empty() && set.parts.size() <= static_cast<std::size_t>(kMaxMergedParts),
         "merge: ", set.parts.size(), " parts are not in 1..", kMaxMergedParts);
  for (const SetSpec::Part& part : set.parts) {
    ENSURE(part.source >= 0 && part.source < s, "frame maps: set ", s, " is made from set ",
           part.source);
    ENSURE(part.geometry.taps() == 1 && part.geometry.padding == (std::array{0, 0, 0}),
           "frame maps: set ", s, " merges by a geometry with taps or padding");
  }
}

void check_map(const FrameSpec& spec, int m) {
  const MapSpec& map = spec.maps[at(m)];
  const int sets = static_cast<int>(spec.sets.size());
  ENSURE(map.input >= 0 && map.input < sets && map.output >= 0 && map.output < sets,
         "frame maps: map ", m, " leads from set ", map.input, " to ", map.output, ", there are ",
         sets);
  map.geometry.check("frame maps");
  const int taps = map.geometry.taps();
  ENSURE(map.order == RowOrder::none || taps <= gemm_core::kMaxMaskedTaps, "frame maps: map ", m,
         " has ", taps, " taps, an order takes at most ", gemm_core::kMaxMaskedTaps);
  ENSURE(map.order != RowOrder::planes || taps == 27, "frame maps: map ", m, " has ", taps,
         " taps, planes take 27");
  if (map.kind != KernelMap::Kind::inverse) return;
  ENSURE(map.forward >= 0 && map.forward < m, "frame maps: inverse map ", m, " of map ",
         map.forward);
  const MapSpec& forward = spec.maps[at(map.forward)];
  ENSURE(forward.kind != KernelMap::Kind::inverse && forward.input == map.output &&
             forward.output == map.input && forward.geometry == map.geometry,
         "frame maps: map ", m, " is not the inverse of map ", map.forward);
}

}  // namespace

void check_spec(const FrameSpec& spec) {
  ENSURE(!spec.sets.empty(), "frame maps: no coordinate sets");
  for (int s = 0; s < static_cast<int>(spec.sets.size()); ++s) {
    const SetSpec& set = spec.sets[at(s)];
    ENSURE((set.kind == SetSpec::Kind::input) == (s == 0), "frame maps: set ", s,
           ": set 0 alone is the input");
    if (s == 0 || set.kind == SetSpec::Kind::global) continue;
    if (set.kind == SetSpec::Kind::merged) {
      check_parts(set, s);
      continue;
    }
    ENSURE(set.source >= 0 && set.source < s, "frame maps: set ", s, " is made from set ",
           set.source);
    set.geometry.check("frame maps");
  }
  for (int m = 0; m < static_cast<int>(spec.maps.size()); ++m) check_map(spec, m);
}

}  // namespace sparseconv::cuda
