// One convolution, batch norm and ReLU as a single kernel call on a kernel map: what the engine
// does a hundred times.
#include <sparseconv/sparseconv.h>
#include <gemm_core/device/gather_conv.hpp>
#include <iostream>
#include <utility>
#include <vector>

int main() {
  using namespace sparseconv;
  // Two cells side by side; the kernel sums a cell and its neighbour at x - 1.
  const auto cells = Coordinates::create({{0, 4, 0, 0}, {0, 5, 0, 0}}, {});
  const auto map = build_kernel_map(cells, cells, ConvGeometry::submanifold({3, 1, 1}));
  const std::vector<float> weight{1, 1, 0};  // [cout = 1][taps = 3][cin = 1]: x - 1, x, x + 1
  const auto packed =
      gemm_core::pack_conv_weights({.weight = weight.data(), .cout = 1, .taps = 3, .cin = 1});

  auto input = base::Tensor::empty({2, 1}, base::DType::f32), output = input.clone();
  input.data<float>()[0] = 10;
  input.data<float>()[1] = -30;
  const float scale = 2, shift = 5;  // a batch norm, folded
  gemm_core::Epilogue epilogue;
  epilogue.scale_shift(&scale, &shift).activate(gemm_core::Activation::relu);
  gemm_core::gather_conv({.input = std::as_const(input).view(),
                          .neighbours = map->table.data(),
                          .rows = cells->size(),
                          .weights = &packed,
                          .epilogue = epilogue,
                          .output = output.view()});

  const float* y = output.data<float>();
  std::cout << "cell 4: relu(2 * 10 + 5) = " << y[0]
            << "\ncell 5: relu(2 * (10 - 30) + 5) = " << y[1] << "\n";
  return y[0] == 25 && y[1] == 0 ? 0 : 1;
}
