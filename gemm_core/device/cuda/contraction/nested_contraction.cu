#include "gemm_core/device/cuda/contraction/nested_contraction.hpp"

#include <algorithm>

#include "gemm_core/base/cuda/cuda_check.hpp"
#include "gemm_core/device/cuda/contraction/contraction.hpp"
#include "gemm_core/device/cuda/contraction/nested_map.hpp"
#include "gemm_core/device/cuda/gemm/gemm_lowering.hpp"

namespace gemm_core::cuda {
namespace {

using base::DType;
using Modes = std::vector<ContractionMode>;
using Member = std::int64_t ModeStrides::*;

std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }
double waste_of(std::int64_t extent, std::int64_t tile) {
  return static_cast<double>(ceil_div(extent, tile) * tile) / static_cast<double>(extent);
}

// The mode of an operand with stride 1; null where there is none.
const ContractionMode* contiguous(const Modes& modes, Member member) {
  for (const ContractionMode& m : modes) {
    if (m.stride.*member == 1) return &m;
  }
  return nullptr;
}

// A and B change places, so that D's contiguous mode is one of n.
ContractionArguments turned(ContractionArguments g) {
  std::swap(g.a, g.b);
  for (ContractionMode& m : g.modes) {
    std::swap(m.stride.a, m.stride.b);
    if (m.kind == ModeKind::m)
      m.kind = ModeKind::n;
    else if (m.kind == ModeKind::n)
      m.kind = ModeKind::m;
  }
  return g;
}

class Lowering {
 public:
  Lowering(const ContractionArguments& g, int multiprocessors)
      : g_(g), processors_(multiprocessors) {}

  std::optional<LoweredNested> run() {
    if (!prepare() || !choose_tile_modes()) return std::nullopt;
    std::optional<LoweredNested> best;
    for (const NestedInstance* instance : nested_instances()) {
      const DenseInstance& shape = instance->shape;
      if (shape.element != g_.compute || shape.k_major_a != k_major_a_ ||
          shape.k_major_b != k_major_b_) {
        continue;
      }
      // Narrow tiles multiply at about half the rate of wide ones.
      const double waste = waste_of(m_.extent, shape.tile_m) * waste_of(n_.extent, shape.tile_n) *
                           waste_of(k_.extent, shape.stage_k) * (shape.tile_n < 128 ? 2 : 1);
      if (best && best->waste <= waste) continue;
      auto lowered = with(*instance);
      if (!lowered) continue;
      lowered->waste = waste;
      best = std::move(lowered);
    }
    return best;
  }

 private:
  bool prepare() {
    if (g_.compute != DType::f16 && g_.compute != DType::bf16) return false;
    if (g_.a.dtype != g_.compute || g_.b.dtype != g_.compute) return false;
    for (const ContractionOperand* o : {&g_.a, &g_.b, &g_.c, &g_.d}) {
      if (o->slots) return false;
    }
    if (g_.beta == 0) {  // strides of C do not keep modes apart
      for (auto& mode : g_.modes) mode.stride.c = mode.stride.d;
    }
    g_.modes = merged_modes(g_.modes);
    for (const ContractionMode& mode : g_.modes) {
      if (mode.extent == 0 || mode.stride.a < 0 || mode.stride.b < 0) return false;
    }
    const ContractionMode* const inner = contiguous(g_.modes, &ModeStrides::d);
    if (inner != nullptr && inner->kind == ModeKind::m) g_ = turned(g_);
    return true;
  }

  // The tiled mode of each kind; the others become dimensions of their own.
  bool choose_tile_modes() {
    const ContractionMode* const a = contiguous(g_.modes, &ModeStrides::a);
    const ContractionMode* const b = contiguous(g_.modes, &ModeStrides::b);
    if (a == nullptr || b == nullptr || a->kind == ModeKind::batch || b->kind == ModeKind::batch)
      return false;
    k_major_a_ = a->kind == ModeKind::k;
    k_major_b_ = b->kind == ModeKind::k;
    if (k_major_a_ && k_major_b_ && a != b) return false;
    const auto largest = [&](ModeKind kind) {
      const ContractionMode* best = nullptr;
      for (const ContractionMode& m : g_.modes) {
        if (m.kind == kind && (best == nullptr || m.extent > best->extent)) best = &m;
      }
      return best;
    };
    const ContractionMode* const d = contiguous(g_.modes, &ModeStrides::d);
    const ContractionMode* n = k_major_b_ ? largest(ModeKind::n) : b;
    // Where columns of D follow each other, rows are stored in pieces.
    constexpr std::int64_t kWide = 32;
    if (k_major_b_ && d != nullptr && d->kind == ModeKind::n && d->extent >= kWide) n = d;
    const ContractionMode* const m = k_major_a_ ? largest(ModeKind::m) : a;
    const ContractionMode* const k = k_major_a_ ? a : k_major_b_ ? b : largest(ModeKind::k);
    const auto mode_or_one = [](const ContractionMode* mode) {
      return mode != nullptr ? *mode : ContractionMode{};
    };
    m_ = mode_or_one(m);
    n_ = mode_or_one(n);
    k_ = mode_or_one(k);
    for (const ContractionMode& mode : g_.modes) {
      if (&mode == m || &mode == n || &mode == k) continue;
      (mode.kind == ModeKind::k ? outer_k_ : batch_).push_back(mode);
    }
    return outer_k_.size() <= NestedModes::kMostOfK && batch_.size() <= NestedModes::kMost;
  }

  // Dimensions of an operand's map beyond the tiled two; false where there are more than three.
  bool set_dimensions(NestedMapDesc& map, int (&from)[3], Member member) const {
    std::size_t next = 0;
    const auto add = [&](const ContractionMode& mode, int source) {
      if (mode.stride.*member == 0) return true;
      if (next == 3) return false;
      map.extent[2 + next] = mode.extent;
      map.stride[1 + next] = mode.stride.*member * base::bytes(map.element);
      from[next++] = source;
      return true;
    };
    for (std::size_t i = 0; i < outer_k_.size(); ++i) {
      if (!add(outer_k_[i], -1 - static_cast<int>(i))) return false;
    }
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      if (!add(batch_[i], static_cast<int>(i))) return false;
    }
    return true;
  }

  std::optional<CUtensorMap> map_of(const ContractionOperand& o, const ContractionMode& line,
                                    bool k_major, int box_rows, int stage_k, Member member,
                                    int (&from)[3]) const {
    NestedMapDesc map;
    map.data = o.data;
    map.element = o.dtype;
    const ContractionMode &inner = k_major ? k_ : line, &outer = k_major ? line : k_;
    map.extent[0] = inner.extent;
    map.extent[1] = outer.extent;
    map.stride[0] = outer.stride.*member * base::bytes(o.dtype);
    map.box_inner = 64;
    map.box_rows = k_major ? box_rows : stage_k;
    if (!set_dimensions(map, from, member)) return std::nullopt;
    return make_nested_map(map);
  }

  // Offsets of every batch of tiles in an operand.
  std::vector<std::int64_t> offsets(Member member) const {
    std::vector<std::int64_t> table{0};
    for (const ContractionMode& mode : batch_) {
      const std::size_t inner = table.size();
      table.resize(inner * static_cast<std::size_t>(mode.extent));
      for (std::size_t i = inner; i < table.size(); ++i)
        table[i] = table[i % inner] + static_cast<std::int64_t>(i / inner) * mode.stride.*member;
    }
    return table;
  }

  std::optional<LoweredNested> with(const NestedInstance& instance) const {
    const DenseInstance& shape = instance.shape;
    LoweredNested lowered;
    lowered.instance = &instance;
    NestedModes& modes = lowered.params.modes;
    const auto a = map_of(g_.a, m_, k_major_a_, shape.box_rows_a, shape.stage_k, &ModeStrides::a,
                          modes.from_a);
    const auto b = map_of(g_.b, n_, k_major_b_, shape.box_rows_b, shape.stage_k, &ModeStrides::b,
                          modes.from_b);
    if (!a || !b) return std::nullopt;
    Sm90GemmParams& gemm = lowered.params.gemm;
    gemm.problem.a = *a;
    gemm.problem.b = *b;
    modes.k_inner_stages = static_cast<int>(ceil_div(k_.extent, shape.stage_k));
    std::int64_t outer = 1, batches = 1;
    for (const ContractionMode& mode : outer_k_) {
      modes.by_k[modes.k_outer_count++] = base::FastDivMod(static_cast<std::uint32_t>(mode.extent));
      outer *= mode.extent;
    }
    for (const ContractionMode& mode : batch_) {
      modes.by_batch[modes.batch_count++] =
          base::FastDivMod(static_cast<std::uint32_t>(mode.extent));
      batches *= mode.extent;
    }
    constexpr std::int64_t kMostBatches = 1 << 20;
    const std::int64_t tiles =
        ceil_div(m_.extent, shape.tile_m) * ceil_div(n_.extent, shape.tile_n);
    if (batches > kMostBatches || tiles > (std::int64_t{1} << 31) / batches ||
        outer > (std::int64_t{1} << 30) / modes.k_inner_stages) {
      return std::nullopt;
    }

    GemmArguments product;
    product.m = m_.extent;
    product.n = n_.extent;
    product.k = k_.extent * outer;
    product.batch = batches;
    product.a.dtype = g_.a.dtype;
    product.b.dtype = g_.b.dtype;
    product.compute = g_.compute;
    product.alpha = g_.alpha;
    product.beta = g_.beta;
    product.d.data = g_.d.data;
    product.d.dtype = g_.d.dtype;
    product.d.row_stride = m_.stride.d;
    product.d.column_stride = n_.stride.d;
    if (g_.beta != 0) {
      product.c.data = g_.c.data;
      product.c.dtype = g_.c.dtype;
      product.c.row_stride = m_.stride.c;
      product.c.column_stride = n_.stride.c;
    }
    if (batch_.size() == 1) {
      product.d.batch_stride = batch_[0].stride.d;
      product.c.batch_stride = batch_[0].stride.c;
    } else if (batch_.size() > 1) {
      const auto point = [&](const ContractionOperand& o, Member member) {
        std::vector<void*> pointers;
        for (const std::int64_t at : offsets(member))
          pointers.push_back(static_cast<char*>(o.data) + at * base::bytes(o.dtype));
        return pointers;
      };
      lowered.outputs = point(g_.d, &ModeStrides::d);
      if (g_.beta != 0) lowered.sources = point(g_.c, &ModeStrides::c);
      product.d.pointers = lowered.outputs.data();  // until bound
      if (g_.beta != 0) product.c.pointers = lowered.sources.data();
    }
    set_store(gemm.problem, lower_product(product), false);
    gemm.problem.k_stages = static_cast<int>(modes.k_inner_stages * outer);
    gemm.order = kernel::TileOrder(
        {ceil_div(m_.extent, shape.tile_m), ceil_div(n_.extent, shape.tile_n), batches},
        kernel::Raster::heuristic, 8);
    lowered.blocks = static_cast<int>(std::min<std::int64_t>(gemm.order.count(), processors_));
    return lowered;
  }

  ContractionArguments g_;
  int processors_;
  bool k_major_a_ = true, k_major_b_ = true;
  ContractionMode m_, n_, k_;
  Modes outer_k_, batch_;
};

}  // namespace

extern const NestedInstance kNestedF16[8], kNestedBF16[8];

std::span<const NestedInstance* const> nested_instances() {
  static const auto all = [] {
    std::vector<const NestedInstance*> rows;
    for (const std::span<const NestedInstance> file :
         {std::span<const NestedInstance>(kNestedF16),
          std::span<const NestedInstance>(kNestedBF16)}) {
      for (const NestedInstance& instance : file) rows.push_back(&instance);
    }
    return rows;
  }();
  return all;
}

void LoweredNested::bind(void* workspace, cudaStream_t stream) {
  if (outputs.empty()) return;
  const auto address = (reinterpret_cast<std::uintptr_t>(workspace) + 15) / 16 * 16;
  auto* to = reinterpret_cast<void**>(address);
  const auto move = [&](std::vector<void*>& pointers, DenseMatrix& matrix) {
    if (pointers.empty()) return;
    CUDA_CHECK(cudaMemcpyAsync(to, pointers.data(), pointers.size() * sizeof(void*),
                               cudaMemcpyHostToDevice, stream));
    matrix.pointers = to;
    to += pointers.size();
  };
  move(outputs, params.gemm.problem.epilogue.d);
  move(sources, params.gemm.problem.epilogue.c);
}

std::optional<LoweredNested> lower_nested(const ContractionArguments& arguments,
                                          int multiprocessors) {
  return Lowering(arguments, multiprocessors).run();
}

}  // namespace gemm_core::cuda
