// Which compiled instance and which order of rows suit a layer: from shapes alone, so that a first
// frame never pays for tuning and results never depend on a timing.
#include <algorithm>
#include <string>

#include "gemm_core/device/cuda/gather/gather_conv.hpp"

namespace gemm_core::cuda {
namespace {

// Measured on an H200, submanifold k3 layers of a street scan at 96.8k, 47k, 21k, 8.5k and 2.8k
// rows (docs/performance_gpu.md). The first line that fits holds. `planes_below`: with fewer rows,
// planes beat one order, because the longest tile of one order takes all 27 taps alone.
struct Choice {
  base::DType element;
  std::int64_t max_cout, min_rows;
  const char* name;
  std::int64_t planes_below;
};
using base::DType;
constexpr std::int64_t kAny = std::int64_t{1} << 40;
constexpr Choice kChoices[] = {
    {DType::f16, 32, 0, "64x32", 70000},
    {DType::f16, 64, 0, "64x64", 30000},
    {DType::f16, 96, 0, "128x96", 30000},
    {DType::f16, 128, 30000, "128x128", 0},
    {DType::f16, 128, 0, "64x128", 15000},
    {DType::f16, 192, 0, "128x96", 30000},
    {DType::f16, kAny, 15000, "128x256", kAny},
    {DType::f16, kAny, 5000, "64x256", kAny},
    {DType::f16, kAny, 0, "64x128", kAny},

    {DType::e4m3, 32, 0, "64x32", 0},
    {DType::e4m3, 64, 0, "64x64", 30000},
    {DType::e4m3, 96, 0, "128x96", 10000},
    {DType::e4m3, 128, 60000, "128x128", 10000},
    {DType::e4m3, 128, 0, "64x128", 10000},
    {DType::e4m3, 192, 0, "128x96", 10000},
    {DType::e4m3, kAny, 30000, "128x256", 10000},
    {DType::e4m3, kAny, 17000, "64x256", 0},
    {DType::e4m3, kAny, 10000, "64x128", 0},
    {DType::e4m3, kAny, 5000, "64x256", 10000},
    {DType::e4m3, kAny, 0, "64x128", kAny},

    {DType::tf32, 32, 0, "64x32", 0},
    {DType::tf32, 64, 0, "64x64", 30000},
    {DType::tf32, 96, 60000, "128x96", kAny},
    {DType::tf32, 96, 0, "128x96", 30000},
    {DType::tf32, 128, 15000, "128x128", kAny},
    {DType::tf32, 128, 0, "64x128", kAny},
    {DType::tf32, 192, 0, "128x96", kAny},
    {DType::tf32, kAny, 5000, "64x256", kAny},
    {DType::tf32, kAny, 0, "64x128", kAny},

    {DType::f32, 32, 0, "64x32", kAny},
    {DType::f32, 64, 0, "64x64", kAny},
    {DType::f32, 96, 0, "64x96", kAny},
    {DType::f32, 128, 0, "64x64", kAny},
    {DType::f32, 192, 0, "64x96", kAny},
    {DType::f32, kAny, 0, "64x64", kAny},
};

const Sm90Instance* find(DType element, const std::string& name) {
  const std::string prefix = element == DType::f16    ? "f16_"
                             : element == DType::bf16 ? "bf16_"
                             : element == DType::tf32 ? "tf32_"
                             : element == DType::e4m3 ? "e4m3_"
                             : element == DType::i8   ? "i8_"
                                                      : "f32_";
  for (const Sm90Instance* instance : sm90_instances()) {
    if (instance->name == prefix + name) return instance;
  }
  return nullptr;
}

}  // namespace

int lists_for(const Sm90Instance& instance, std::int64_t cout,
              const base::cuda::DeviceInfo& device) {
  const auto column_blocks = (cout + instance.tile_n - 1) / instance.tile_n;
  const auto lists = device.multiprocessors * instance.blocks_per_sm / column_blocks;
  return static_cast<int>(std::clamp<std::int64_t>(lists, 1, 1024));
}

LayerChoice choose_instance(const LayerShape& layer) {
  const auto [compute, cin, cout, rows, taps] = layer;
  if (cin % (16 / base::bytes(compute == DType::tf32 ? DType::f32 : compute)) != 0 || cout % 8 != 0)
    return {};
  const DType rows_of = compute == DType::bf16 ? DType::f16  // timed alike
                        : compute == DType::i8 ? DType::e4m3
                                               : compute;
  // One tap a row (pointwise, strided, inverse): narrower tiles fill the machine sooner. 384 -> 256
  // over 8.5k rows: 8.2 us instead of 10.4.
  if (taps <= 8 && cout > 192 && rows < 30000)
    return {find(compute, compute == DType::f32 ? "64x64" : "64x128"), false};
  for (const Choice& choice : kChoices) {
    if (choice.element != rows_of || cout > choice.max_cout || rows < choice.min_rows) continue;
    std::string name = choice.name;
    // Whose stages hold 128 channels: 192 -> 128 over 85,524 rows 113 us, 85 by 64 channels a
    // stage.
    if (name == "128x128" && rows_of == DType::f16 && cin % 128 != 0) name = "64x128";
    if (name == "128x96" && rows_of == DType::f16 && cin % 128 == 0) name = "128x96_k128";
    if (name == "128x96" && rows_of == DType::e4m3 && cin % 96 != 0) name = "128x96_k128";
    if (name == "128x96" && rows_of == DType::tf32 && cin % 96 == 0) name = "128x96_k96";
    return {find(compute, name), taps == 27 && rows < choice.planes_below};
  }
  return {};
}

}  // namespace gemm_core::cuda
