// Draws layouts as SVG: how the algebra is learnt by looking. `sparseconv layout` draws PNG too.
//   09_draw_layout                                     three pictures in the current folder
//   09_draw_layout "(8,(2,4)):(2,(1,16))" out.svg      any layout of rank 2
#include <fstream>
#include <gemm_core/layout/algebra.hpp>
#include <gemm_core/layout/draw.hpp>
#include <gemm_core/layout/parse.hpp>
#include <iostream>
#include <string>

namespace {

// Writes a picture and checks that it has a rectangle for each cell.
bool write(const std::string& path, const std::string& svg, int cells) {
  std::ofstream(path) << svg;
  int found = 0;
  for (std::size_t at = svg.find("<rect"); at != std::string::npos; at = svg.find("<rect", at + 1))
    ++found;
  std::cout << path << ": " << found << " cells\n";
  return found == cells;
}

}  // namespace

int main(int argc, char** argv) try {
  using layout::LayoutTree;
  if (argc == 3) {
    const LayoutTree given = layout::parse_layout(argv[1]);
    return write(argv[2], svg(layout::picture_of(given)), static_cast<int>(size(given).value()))
               ? 0
               : 1;
  }
  // A row-major tile in tiles of 2 x 4: read a column to walk through one tile.
  const LayoutTree matrix({4, 8}, {8, 1});
  const LayoutTree tiles = zipped_divide(matrix, layout::Tiler{LayoutTree(2, 1), LayoutTree(4, 1)});
  std::cout << print(matrix) << " in tiles of 2 x 4 is " << print(tiles) << "\n";

  // Eight rows of 8 words, swizzled: a column's cells have eight colours, so its reads meet no bank
  // twice.
  const layout::Swizzle swizzle{3, 2, 3};
  const LayoutTree rows({8, 8}, {32, 4});
  const auto swizzled = [&](layout::Index i, layout::Index j) { return swizzle(rows(i + 8 * j)); };

  // C of a 16 x 8 tensor core instruction: 32 threads, 4 values each.
  const LayoutTree accumulators({{4, 8}, {2, 2}}, {{32, 1}, {16, 8}});

  const bool good =
      write("tiles.svg", svg(layout::picture_of(tiles)), 32) &&
      write("swizzled.svg", svg(layout::picture_of_grid(8, 8, swizzled)), 64) &&
      write("accumulators.svg", svg(layout::picture_of_thread_values(accumulators, 16, 8)), 128);
  return good ? 0 : 1;
} catch (const std::exception& wrong) {
  std::cerr << wrong.what() << "\n";
  return 2;
}
