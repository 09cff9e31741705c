// Which input row meets which output row under which tap: in = out * stride - padding + tap *
// dilation, per axis.
#include <sparseconv/sparseconv.h>
#include <iostream>

int main() {
  using namespace sparseconv;
  // Three cells in a row and one far away.
  const auto fine =
      Coordinates::create({{0, 0, 0, 0}, {0, 1, 0, 0}, {0, 2, 0, 0}, {0, 9, 9, 9}}, {});

  // Submanifold: outputs stand where inputs stand.
  const auto same = build_kernel_map(fine, fine, ConvGeometry::submanifold({3, 1, 1}));
  for (int tap = 0; tap < 3; ++tap) {
    std::cout << "tap " << tap - 1 << ":";
    for (std::int64_t row = 0; row < fine->size(); ++row) {
      std::cout << " " << same->table[static_cast<std::size_t>(tap * fine->size() + row)];
    }
    std::cout << "   (input row of each output row; -1: no neighbour)\n";
  }

  // Strided: every coarse cell that some tap can fill. Its inverse restores the fine cells.
  const ConvGeometry half{.kernel = {2, 2, 2}, .stride = {2, 2, 2}};
  const auto coarse = strided_coordinates(fine, half);
  const auto down = build_kernel_map(fine, coarse, half);
  const auto up = invert(down);
  std::cout << fine->size() << " cells -> " << coarse->size() << " -> " << up->output->size()
            << "\n";
  return up->output == fine && down->pairs() == fine->size() ? 0 : 1;
}
