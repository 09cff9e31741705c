// The fastest kernels on an H200, as `sparseconv bench gemm --device cuda --tune FILE` measured
// them and scripts/write_gemm_defaults.py wrote them; docs/performance_gpu.md says when and how.
// Sums are not cut here.
#include <algorithm>
#include <array>
#include <string_view>

#include "gemm_core/device/cuda/gemm/gemm_tuning.hpp"

namespace gemm_core::cuda {
namespace {

struct Entry {
  std::string_view key, kernel;
};
// clang-format off
constexpr std::array<Entry, 60> kEntries{{
    {"NVIDIA H200 bfloat16 x bfloat16 -> bfloat16 as bfloat16 A columns B columns m 1024 n 1024 k 1024 batch 1",
     "bf16_mk_128x128"},
    {"NVIDIA H200 bfloat16 x bfloat16 -> bfloat16 as bfloat16 A columns B columns m 4096 n 4096 k 4096 batch 1",
     "bf16_mk_128x256_c2"},
    {"NVIDIA H200 bfloat16 x bfloat16 -> bfloat16 as bfloat16 A columns B rows m 1024 n 1024 k 1024 batch 1",
     "bf16_mn_128x128"},
    {"NVIDIA H200 bfloat16 x bfloat16 -> bfloat16 as bfloat16 A columns B rows m 4096 n 4096 k 4096 batch 1",
     "bf16_mn_128x256_c2"},
    {"NVIDIA H200 bfloat16 x bfloat16 -> bfloat16 as bfloat16 A rows B columns m 100000 n 32 k 864 batch 1",
     "bf16_kk_128x64"},
    {"NVIDIA H200 bfloat16 x bfloat16 -> bfloat16 as bfloat16 A rows B columns m 100000 n 64 k 1728 batch 1",
     "bf16_kk_128x64"},
    {"NVIDIA H200 bfloat16 x bfloat16 -> bfloat16 as bfloat16 A rows B columns m 1024 n 1024 k 1024 batch 1",
     "bf16_kk_128x64"},
    {"NVIDIA H200 bfloat16 x bfloat16 -> bfloat16 as bfloat16 A rows B columns m 1024 n 4096 k 4096 batch 1",
     "bf16_kk_128x128_c2"},
    {"NVIDIA H200 bfloat16 x bfloat16 -> bfloat16 as bfloat16 A rows B columns m 1024 n 4096 k 512 batch 1",
     "bf16_kk_128x128_c2"},
    {"NVIDIA H200 bfloat16 x bfloat16 -> bfloat16 as bfloat16 A rows B columns m 2048 n 2048 k 2048 batch 1",
     "bf16_kk_128x256_c2"},
    {"NVIDIA H200 bfloat16 x bfloat16 -> bfloat16 as bfloat16 A rows B columns m 2048 n 4096 k 4096 batch 1",
     "bf16_kk_128x256_c2"},
    {"NVIDIA H200 bfloat16 x bfloat16 -> bfloat16 as bfloat16 A rows B columns m 2048 n 4096 k 512 batch 1",
     "bf16_kk_128x128_c2"},
    {"NVIDIA H200 bfloat16 x bfloat16 -> bfloat16 as bfloat16 A rows B columns m 4096 n 4096 k 4096 batch 1",
     "bf16_kk_128x256_c2"},
    {"NVIDIA H200 bfloat16 x bfloat16 -> bfloat16 as bfloat16 A rows B columns m 4096 n 4096 k 512 batch 1",
     "bf16_kk_128x128"},
    {"NVIDIA H200 bfloat16 x bfloat16 -> bfloat16 as bfloat16 A rows B columns m 512 n 512 k 512 batch 1",
     "bf16_kk_128x64"},
    {"NVIDIA H200 bfloat16 x bfloat16 -> bfloat16 as bfloat16 A rows B columns m 8192 n 4096 k 4096 batch 1",
     "bf16_kk_128x128_c2"},
    {"NVIDIA H200 bfloat16 x bfloat16 -> bfloat16 as bfloat16 A rows B columns m 8192 n 4096 k 512 batch 1",
     "bf16_kk_128x128"},
    {"NVIDIA H200 bfloat16 x bfloat16 -> bfloat16 as bfloat16 A rows B rows m 100000 n 32 k 864 batch 1",
     "bf16_kn_128x64"},
    {"NVIDIA H200 bfloat16 x bfloat16 -> bfloat16 as bfloat16 A rows B rows m 100000 n 64 k 1728 batch 1",
     "bf16_kn_128x64"},
    {"NVIDIA H200 bfloat16 x bfloat16 -> bfloat16 as bfloat16 A rows B rows m 1024 n 1024 k 1024 batch 1",
     "bf16_kn_128x64"},
    {"NVIDIA H200 bfloat16 x bfloat16 -> bfloat16 as bfloat16 A rows B rows m 4096 n 4096 k 4096 batch 1",
     "bf16_kn_128x256_c2"},
    {"NVIDIA H200 float16 x float16 -> float16 as float16 A columns B columns m 1024 n 1024 k 1024 batch 1",
     "f16_mk_128x128"},
    {"NVIDIA H200 float16 x float16 -> float16 as float16 A columns B columns m 4096 n 4096 k 4096 batch 1",
     "f16_mk_128x256_c2"},
    {"NVIDIA H200 float16 x float16 -> float16 as float16 A columns B rows m 1024 n 1024 k 1024 batch 1",
     "f16_mn_128x128"},
    {"NVIDIA H200 float16 x float16 -> float16 as float16 A columns B rows m 4096 n 4096 k 4096 batch 1",
     "f16_mn_128x256_c2"},
    {"NVIDIA H200 float16 x float16 -> float16 as float16 A rows B columns m 100000 n 32 k 864 batch 1",
     "f16_kk_128x64"},
    {"NVIDIA H200 float16 x float16 -> float16 as float16 A rows B columns m 100000 n 64 k 1728 batch 1",
     "f16_kk_128x64"},
    {"NVIDIA H200 float16 x float16 -> float16 as float16 A rows B columns m 1024 n 1024 k 1024 batch 1",
     "f16_kk_128x64"},
    {"NVIDIA H200 float16 x float16 -> float16 as float16 A rows B columns m 1024 n 4096 k 4096 batch 1",
     "f16_kk_128x256_c2"},
    {"NVIDIA H200 float16 x float16 -> float16 as float16 A rows B columns m 1024 n 4096 k 512 batch 1",
     "f16_kk_128x128_c2"},
    {"NVIDIA H200 float16 x float16 -> float16 as float16 A rows B columns m 2048 n 2048 k 2048 batch 1",
     "f16_kk_128x256_c2"},
    {"NVIDIA H200 float16 x float16 -> float16 as float16 A rows B columns m 2048 n 4096 k 4096 batch 1",
     "f16_kk_128x256_c2"},
    {"NVIDIA H200 float16 x float16 -> float16 as float16 A rows B columns m 2048 n 4096 k 512 batch 1",
     "f16_kk_128x128_c2"},
    {"NVIDIA H200 float16 x float16 -> float16 as float16 A rows B columns m 4096 n 4096 k 4096 batch 1",
     "f16_kk_128x256_c2"},
    {"NVIDIA H200 float16 x float16 -> float16 as float16 A rows B columns m 4096 n 4096 k 512 batch 1",
     "f16_kk_128x128"},
    {"NVIDIA H200 float16 x float16 -> float16 as float16 A rows B columns m 512 n 512 k 512 batch 1",
     "f16_kk_128x64"},
    {"NVIDIA H200 float16 x float16 -> float16 as float16 A rows B columns m 8192 n 4096 k 4096 batch 1",
     "f16_kk_128x128_c2"},
    {"NVIDIA H200 float16 x float16 -> float16 as float16 A rows B columns m 8192 n 4096 k 512 batch 1",
     "f16_kk_128x128"},
    {"NVIDIA H200 float16 x float16 -> float16 as float16 A rows B rows m 100000 n 32 k 864 batch 1",
     "f16_kn_128x64"},
    {"NVIDIA H200 float16 x float16 -> float16 as float16 A rows B rows m 100000 n 64 k 1728 batch 1",
     "f16_kn_128x64"},
    {"NVIDIA H200 float16 x float16 -> float16 as float16 A rows B rows m 1024 n 1024 k 1024 batch 1",
     "f16_kn_128x64"},
    {"NVIDIA H200 float16 x float16 -> float16 as float16 A rows B rows m 4096 n 4096 k 4096 batch 1",
     "f16_kn_128x128_c2"},
    {"NVIDIA H200 float32 x float32 -> float32 as tf32 A rows B columns m 100000 n 32 k 864 batch 1",
     "tf32_kk_128x64"},
    {"NVIDIA H200 float32 x float32 -> float32 as tf32 A rows B columns m 100000 n 64 k 1728 batch 1",
     "tf32_kk_128x64"},
    {"NVIDIA H200 float32 x float32 -> float32 as tf32 A rows B columns m 1024 n 1024 k 1024 batch 1",
     "tf32_kk_128x64"},
    {"NVIDIA H200 float32 x float32 -> float32 as tf32 A rows B columns m 2048 n 2048 k 2048 batch 1",
     "tf32_kk_128x256_c2"},
    {"NVIDIA H200 float32 x float32 -> float32 as tf32 A rows B columns m 4096 n 4096 k 4096 batch 1",
     "tf32_kk_128x256_c2"},
    {"NVIDIA H200 float32 x float32 -> float32 as tf32 A rows B columns m 512 n 512 k 512 batch 1",
     "tf32_kk_128x64"},
    {"NVIDIA H200 float32 x float32 -> float32 as tf32 A rows B rows m 100000 n 32 k 864 batch 1",
     "sm80_tf32"},
    {"NVIDIA H200 float32 x float32 -> float32 as tf32 A rows B rows m 100000 n 64 k 1728 batch 1",
     "sm80_tf32"},
    {"NVIDIA H200 float8_e4m3 x float8_e4m3 -> bfloat16 as float8_e4m3 A rows B columns m 1024 n 1024 k 1024 batch 1",
     "e4m3_kk_128x128_c2_promoted"},
    {"NVIDIA H200 float8_e4m3 x float8_e4m3 -> bfloat16 as float8_e4m3 A rows B columns m 2048 n 2048 k 2048 batch 1",
     "e4m3_kk_128x128_c2_promoted"},
    {"NVIDIA H200 float8_e4m3 x float8_e4m3 -> bfloat16 as float8_e4m3 A rows B columns m 4096 n 4096 k 4096 batch 1",
     "e4m3_kk_128x128_c2_promoted"},
    {"NVIDIA H200 float8_e4m3 x float8_e4m3 -> bfloat16 as float8_e4m3 A rows B columns m 512 n 512 k 512 batch 1",
     "e4m3_kk_128x128_c2_promoted"},
    {"NVIDIA H200 float8_e4m3 x float8_e4m3 -> bfloat16 as float8_e4m3 A rows B columns m 8192 n 8192 k 8192 batch 1",
     "e4m3_kk_128x128_c2_promoted"},
    {"NVIDIA H200 int8 x int8 -> int32 as int8 A rows B columns m 1024 n 1024 k 1024 batch 1",
     "i8_kk_128x128"},
    {"NVIDIA H200 int8 x int8 -> int32 as int8 A rows B columns m 2048 n 2048 k 2048 batch 1",
     "i8_kk_128x256_c2"},
    {"NVIDIA H200 int8 x int8 -> int32 as int8 A rows B columns m 4096 n 4096 k 4096 batch 1",
     "i8_kk_128x256_c2"},
    {"NVIDIA H200 int8 x int8 -> int32 as int8 A rows B columns m 512 n 512 k 512 batch 1",
     "i8_kk_128x128"},
    {"NVIDIA H200 int8 x int8 -> int32 as int8 A rows B columns m 8192 n 8192 k 8192 batch 1",
     "i8_kk_128x256_c2"},
}};
// clang-format on
static_assert(std::is_sorted(kEntries.begin(), kEntries.end(),
                             [](const Entry& a, const Entry& b) { return a.key < b.key; }));

}  // namespace

std::string default_kernel(const std::string& key) {
  const auto found = std::lower_bound(
      kEntries.begin(), kEntries.end(), key,
      [](const Entry& entry, const std::string& wanted) { return entry.key < wanted; });
  return found != kEntries.end() && found->key == key ? std::string(found->kernel) : "";
}

}  // namespace gemm_core::cuda
