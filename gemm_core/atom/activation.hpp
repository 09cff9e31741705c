// Element-wise activations by name.
#pragma once
#include <cstdint>

namespace gemm_core {

enum class Activation : std::uint8_t { identity, relu, leaky_relu, sigmoid, silu, tanh, gelu };

}  // namespace gemm_core
