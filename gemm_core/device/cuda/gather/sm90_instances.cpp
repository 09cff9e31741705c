#include "gemm_core/device/cuda/gather/sm90_instances.hpp"

namespace gemm_core::cuda {

extern const Sm90Instance kF16_128x128, kF16_128x256, kF16_128x96, kF16_128x96_k128, kF16_64x128,
    kF16_64x256, kF16_64x32, kF16_64x64, kBF16_128x128, kBF16_128x256, kBF16_128x96,
    kBF16_128x96_k128, kBF16_64x128, kBF16_64x256, kBF16_64x32, kBF16_64x64, kTF32_128x128,
    kTF32_128x96, kTF32_128x96_k96, kTF32_64x128, kTF32_64x256, kTF32_64x32, kTF32_64x64,
    kF32_64x32, kF32_64x64, kF32_64x96, kE4M3_128x128, kE4M3_128x256, kE4M3_128x96,
    kE4M3_128x96_k128, kE4M3_64x128, kE4M3_64x256, kE4M3_64x32, kE4M3_64x64, kI8_128x128,
    kI8_128x256, kI8_128x96, kI8_128x96_k128, kI8_64x128, kI8_64x256, kI8_64x32, kI8_64x64;

std::span<const Sm90Instance* const> sm90_instances() {
  static const Sm90Instance* const kAll[] = {
      &kF16_128x128, &kF16_128x256,      &kF16_128x96,     &kF16_128x96_k128, &kF16_64x128,
      &kF16_64x256,  &kF16_64x32,        &kF16_64x64,      &kBF16_128x128,    &kBF16_128x256,
      &kBF16_128x96, &kBF16_128x96_k128, &kBF16_64x128,    &kBF16_64x256,     &kBF16_64x32,
      &kBF16_64x64,  &kTF32_128x128,     &kTF32_128x96,    &kTF32_128x96_k96, &kTF32_64x128,
      &kTF32_64x256, &kTF32_64x32,       &kTF32_64x64,     &kF32_64x32,       &kF32_64x64,
      &kF32_64x96,   &kE4M3_128x128,     &kE4M3_128x256,   &kE4M3_128x96,     &kE4M3_128x96_k128,
      &kE4M3_64x128, &kE4M3_64x256,      &kE4M3_64x32,     &kE4M3_64x64,      &kI8_128x128,
      &kI8_128x256,  &kI8_128x96,        &kI8_128x96_k128, &kI8_64x128,       &kI8_64x256,
      &kI8_64x32,    &kI8_64x64};
  return kAll;
}

}  // namespace gemm_core::cuda
