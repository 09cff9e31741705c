#include <algorithm>

#include "gemm_core/device/cuda/contraction/contraction.hpp"

namespace gemm_core::cuda {
namespace {

bool has_slots(const ContractionMode& m) {
  return m.slot.a != 0 || m.slot.b != 0 || m.slot.c != 0 || m.slot.d != 0;
}

// Whether `outer` goes on where `inner` ends, in every operand.
bool follows(const ContractionMode& inner, const ContractionMode& outer) {
  const auto next = [&](std::int64_t ModeStrides::*operand) {
    return outer.stride.*operand == inner.stride.*operand * inner.extent;
  };
  return inner.kind == outer.kind && next(&ModeStrides::a) && next(&ModeStrides::b) &&
         next(&ModeStrides::c) && next(&ModeStrides::d) && !has_slots(inner) && !has_slots(outer);
}

}  // namespace

std::vector<ContractionMode> merged_modes(std::vector<ContractionMode> modes) {
  std::erase_if(modes, [](const ContractionMode& m) { return m.extent == 1; });
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < modes.size() && !changed; ++i) {
      for (std::size_t j = 0; j < modes.size() && !changed; ++j) {
        if (i == j || !follows(modes[i], modes[j])) continue;
        modes[i].extent *= modes[j].extent;
        modes.erase(modes.begin() + static_cast<long>(j));
        changed = true;
      }
    }
  }
  return modes;
}

std::optional<GemmArguments> as_product(const ContractionArguments& arguments) {
  ContractionArguments g = arguments;
  for (const ContractionOperand* o : {&g.a, &g.b, &g.c, &g.d}) {
    if (o->slots) return std::nullopt;
  }
  if (g.beta == 0) {  // strides of C do not keep modes apart
    for (auto& mode : g.modes) mode.stride.c = mode.stride.d;
  }
  GemmArguments p;
  p.m = p.n = p.k = 1;
  ContractionMode of_kind[4];
  bool seen[4] = {};
  for (const ContractionMode& mode : merged_modes(g.modes)) {
    const auto kind = static_cast<std::size_t>(mode.kind);
    if (seen[kind]) return std::nullopt;
    seen[kind] = true;
    of_kind[kind] = mode;
  }
  const ContractionMode &m = of_kind[0], &n = of_kind[1], &k = of_kind[2], &batch = of_kind[3];
  p.m = m.extent;
  p.n = n.extent;
  p.k = k.extent;
  p.batch = batch.extent;
  p.a.data = g.a.data;
  p.a.dtype = g.a.dtype;
  p.a.row_stride = m.stride.a;
  p.a.column_stride = k.stride.a;
  p.a.batch_stride = batch.stride.a;
  p.b.data = g.b.data;
  p.b.dtype = g.b.dtype;
  p.b.row_stride = k.stride.b;
  p.b.column_stride = n.stride.b;
  p.b.batch_stride = batch.stride.b;
  p.c.data = g.beta != 0 ? g.c.data : nullptr;
  p.c.dtype = g.c.dtype;
  p.c.row_stride = m.stride.c;
  p.c.column_stride = n.stride.c;
  p.c.batch_stride = batch.stride.c;
  p.d.data = g.d.data;
  p.d.dtype = g.d.dtype;
  p.d.row_stride = m.stride.d;
  p.d.column_stride = n.stride.d;
  p.d.batch_stride = batch.stride.d;
  p.compute = g.compute;
  p.alpha = g.alpha;
  p.beta = g.beta;
  p.schedule = g.schedule;
  // A side of extent 1 has any stride: that of a packed matrix.
  if (p.k == 1 && p.a.column_stride == 0) p.a.column_stride = p.a.row_stride == 1 ? p.m : 1;
  if (p.k == 1 && p.b.row_stride == 0) p.b.row_stride = p.b.column_stride == 1 ? p.n : 1;
  return p;
}

}  // namespace gemm_core::cuda
