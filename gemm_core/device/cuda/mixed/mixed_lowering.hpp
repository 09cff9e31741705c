// Products of narrow weights with f16 or bf16 activations: which kernel, and its parameters.
#pragma once
#include "gemm_core/device/cuda/gemm/gemm_lowering.hpp"
#include "gemm_core/device/cuda/mixed/mixed_instances.hpp"

namespace gemm_core::cuda {

// Parameters for `instance`; empty where it cannot take the product: weights of another format, in
// A or in B, rows of either operand that do not lie along k at multiples of 16 bytes, groups of
// scales along k that are no multiples of instance.scale_k.
std::optional<LoweredGemm> lower_to(const MixedInstance& instance, const DenseProduct& product,
                                    std::uint32_t group, int multiprocessors);
// Cycles that an instance would take, by a model of the machine.
double estimate_cycles(const MixedInstance& instance, const DenseProduct& product,
                       int multiprocessors);
// Those that can take the product, the cheapest first.
std::vector<const MixedInstance*> mixed_candidates(const DenseProduct& product,
                                                   int multiprocessors);

}  // namespace gemm_core::cuda
