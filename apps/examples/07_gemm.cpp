// The matrix product under it all: D = relu(A * B^T + bias) for A [m, k] and B [n, k].
#include <algorithm>
#include <cmath>
#include <gemm_core/device/gather_conv.hpp>
#include <iostream>
#include <utility>
#include <vector>

int main() {
  constexpr std::int64_t m = 100, n = 24, k = 40;
  auto a = base::Tensor::empty({m, k}, base::DType::f32);
  for (std::int64_t i = 0; i < m * k; ++i) a.data<float>()[i] = static_cast<float>(i % 7) - 3;
  std::vector<float> b(n * k), bias(n, 0.5f);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 5) - 2;

  const auto packed = gemm_core::pack_conv_weights({.weight = b.data(), .cout = n, .cin = k});
  auto d = base::Tensor::empty({m, n}, base::DType::f32);
  gemm_core::Epilogue epilogue;
  epilogue.scale_shift(nullptr, bias.data()).activate(gemm_core::Activation::relu);
  gemm_core::gather_conv({.input = std::as_const(a).view(),
                          .rows = m,
                          .weights = &packed,
                          .epilogue = epilogue,
                          .output = d.view()});

  float worst = 0;  // against the definition
  for (std::int64_t row = 0; row < m; ++row) {
    for (std::int64_t column = 0; column < n; ++column) {
      float sum = 0.5f;
      for (std::int64_t i = 0; i < k; ++i)
        sum += a.data<float>()[row * k + i] * b[static_cast<std::size_t>(column * k + i)];
      worst = std::max(worst, std::abs(d.data<float>()[row * n + column] - std::max(sum, 0.0f)));
    }
  }
  std::cout << "largest difference from the definition: " << worst << "\n";
  return worst == 0 ? 0 : 1;  // small whole numbers: no sum rounds
}
