#include "gemm_core/device/cuda/mixed/widened_gemm.hpp"

#include <algorithm>

#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/device/cuda/gemm/gemm_lowering.hpp"
#include "gemm_core/kernel/widen_operand.cuh"

namespace gemm_core::cuda {
namespace {

using base::DType;

constexpr std::size_t kAlignment = 256;
std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}
std::int64_t pitch_of(std::int64_t k) { return (k + kDenseRun - 1) / kDenseRun * kDenseRun; }

bool is_scaled(const GemmOperand& o) { return o.scale.data != nullptr || o.zero.data != nullptr; }
bool is_widened(const GemmOperand& o, DType compute) { return o.dtype != compute || is_scaled(o); }
std::int64_t copies_of(const GemmOperand& o, const GemmArguments& g) {
  return g.batch > 1 && o.batch_stride != 0 ? g.batch : 1;
}
std::size_t bytes_of(const GemmOperand& o, std::int64_t rows, const GemmArguments& g) {
  if (!is_widened(o, g.compute)) return 0;
  return aligned(static_cast<std::size_t>(copies_of(o, g) * rows * pitch_of(g.k)) * 2);
}

// The product of what was written to `a` and `b`.
GemmArguments product_of(const GemmArguments& g, void* a, void* b) {
  GemmArguments product = g;
  const std::int64_t pitch = pitch_of(g.k);
  const auto take = [&](GemmOperand& o, void* room, std::int64_t rows, bool is_a) {
    if (!is_widened(o, g.compute)) return;
    const bool has_copies = copies_of(o, g) > 1;
    o.data = room;
    o.dtype = g.compute;
    o.row_stride = is_a ? pitch : 1;
    o.column_stride = is_a ? 1 : pitch;
    o.batch_stride = has_copies ? rows * pitch : 0;
    o.scale = {};
    o.zero = {};
  };
  take(product.a, a, g.m, true);
  take(product.b, b, g.n, false);
  return product;
}

base::FastDivMod groups(std::int64_t count, std::int64_t extent) {
  return base::FastDivMod(static_cast<std::uint32_t>(std::clamp<std::int64_t>(count, 1, extent)));
}

template <class Compute, DType kType>
void launch_type(const WidenParams& p, cudaStream_t stream) {
  base::cuda::launch(widen_packed<Compute, kType>,
                     {.grid = dim3((p.chunks + 255) / 256), .block = dim3(256)}, stream, p);
}
// False where there is no kernel for the type.
bool launch_packed(const WidenParams& p, DType compute, cudaStream_t stream) {
  bool found = true;
  base::visit_dtype<base::half_t, base::bf16_t>(compute, "widen", [&]<class T>() {
    switch (p.from.type) {
      case DType::i8:
        return launch_type<T, DType::i8>(p, stream);
      case DType::u8:
        return launch_type<T, DType::u8>(p, stream);
      case DType::i4:
        return launch_type<T, DType::i4>(p, stream);
      case DType::u4:
        return launch_type<T, DType::u4>(p, stream);
      case DType::i2:
        return launch_type<T, DType::i2>(p, stream);
      case DType::u2:
        return launch_type<T, DType::u2>(p, stream);
      case DType::e4m3:
        return launch_type<T, DType::e4m3>(p, stream);
      case DType::e5m2:
        return launch_type<T, DType::e5m2>(p, stream);
      default:
        found = false;
    }
  });
  return found;
}

void widen(const DenseOperand& from, const GemmArguments& g, std::int64_t copies, void* to,
           cudaStream_t stream) {
  WidenParams p;
  p.from = from;
  p.to = to;
  p.pitch = pitch_of(g.k);
  p.k = g.k;
  const std::int64_t chunks = p.pitch / kDenseRun;
  p.by_chunks = base::FastDivMod(static_cast<std::uint32_t>(chunks));
  p.by_rows = base::FastDivMod(static_cast<std::uint32_t>(from.rows));
  p.by_scale_rows = groups(from.scale.row_group, from.rows);
  p.by_scale_k = groups(from.scale.k_group, g.k);
  p.by_zero_rows = groups(from.zero.row_group, from.rows);
  p.by_zero_k = groups(from.zero.k_group, g.k);
  p.chunks = static_cast<std::uint32_t>(copies * from.rows * chunks);
  const std::int64_t bits = base::bits(from.type);
  const auto is_whole = [&](const GroupedRef& v) {
    return v.data == nullptr || v.k_group % kDenseRun == 0 || v.k_group >= g.k;
  };
  const auto is_even = [](std::int64_t stride) { return stride >= 0 && stride % kDenseRun == 0; };
  const bool is_packed =
      bits >= 2 && bits <= 8 && g.k % kDenseRun == 0 && from.k_stride == 1 &&
      is_even(from.row_stride) && (copies == 1 || is_even(from.batch_stride)) &&
      reinterpret_cast<std::uintptr_t>(from.data) % static_cast<std::uintptr_t>(bits) == 0 &&
      is_whole(from.scale) && is_whole(from.zero);
  if (is_packed && launch_packed(p, g.compute, stream)) return;
  base::cuda::launch(widen_operand, {.grid = dim3((p.chunks + 255) / 256), .block = dim3(256)},
                     stream, p);
}

}  // namespace

bool WidenedGemm::takes(const GemmArguments& g) {
  const auto is_plain = [](const GemmOperand& o) {
    return o.pointers == nullptr && o.metadata == nullptr;
  };
  constexpr std::int64_t kLimit = std::int64_t{1} << 31;
  const auto fits = [&](const GemmOperand& o, std::int64_t rows) {
    return copies_of(o, g) * rows * pitch_of(g.k) / kDenseRun < kLimit;
  };
  const auto converts = [](const GemmOperand& o) {
    return base::bits(o.dtype) <= 8 || is_narrow_float(o.dtype);
  };
  return (g.compute == DType::f16 || g.compute == DType::bf16) && g.m > 0 && g.n > 0 && g.k > 0 &&
         g.batch > 0 && (is_widened(g.a, g.compute) || is_widened(g.b, g.compute)) &&
         is_plain(g.a) && is_plain(g.b) && g.d.pointers == nullptr && g.c.pointers == nullptr &&
         converts(g.a) && converts(g.b) && g.k < kLimit && g.m < kLimit && g.n < kLimit &&
         fits(g.a, g.m) && fits(g.b, g.n);
}

bool WidenedGemm::pays(const GemmArguments& g, bool has_mixed_kernel) {
  // Rows that use what is written once: beside kernels of narrow weights, beside the general ones.
  constexpr std::int64_t kManyRows = 384, kSomeRows = 16;
  const std::int64_t least = has_mixed_kernel ? kManyRows : kSomeRows;
  return (!is_widened(g.a, g.compute) || g.n >= least) &&
         (!is_widened(g.b, g.compute) || g.m >= least);
}

std::size_t WidenedGemm::workspace_size(const GemmArguments& g) {
  // Any aligned address will do to ask how much the product needs.
  auto* const any = reinterpret_cast<void*>(kAlignment);
  return kAlignment + bytes_of(g.a, g.m, g) + bytes_of(g.b, g.n, g) +
         workspace_of_product(product_of(g, any, any));
}

GemmStatus WidenedGemm::initialize(const GemmArguments& g, void* workspace, std::size_t bytes,
                                   cudaStream_t stream) {
  arguments_ = g;
  const auto begin =
      (reinterpret_cast<std::uintptr_t>(workspace) + kAlignment - 1) / kAlignment * kAlignment;
  auto at = begin;
  const auto take = [&](const GemmOperand& o, std::int64_t rows) {
    void* const room = is_widened(o, g.compute) ? reinterpret_cast<void*>(at) : nullptr;
    at += bytes_of(o, rows, g);
    return room;
  };
  room_[0] = take(g.a, g.m);
  room_[1] = take(g.b, g.n);
  const std::size_t used = at - reinterpret_cast<std::uintptr_t>(workspace);
  return product_.initialize(product_of(g, room_[0], room_[1]), reinterpret_cast<void*>(at),
                             bytes > used ? bytes - used : 0, stream);
}

GemmStatus WidenedGemm::run(cudaStream_t stream) const {
  // Never the transpose: that depends on D.
  GemmArguments g = arguments_;
  g.d.row_stride = g.n;
  g.d.column_stride = 1;
  const DenseProduct p = lower_product(g);
  if (room_[0] != nullptr) widen(p.a, g, copies_of(g.a, g), room_[0], stream);
  if (room_[1] != nullptr) widen(p.b, g, copies_of(g.b, g), room_[1], stream);
  return product_.run(stream);
}

std::string WidenedGemm::kernel_name() const {
  return base::concat(kName, ", ", product_.kernel_name());
}

}  // namespace gemm_core::cuda
