// Layouts as pictures. A grid shows a layout of rank 2: rows are mode 0, columns mode 1, each cell
// its value, coloured by groups of four: for 32-bit words, the 16-byte group of a 128-byte line of
// shared memory. A thread-value picture shows a tile: which thread holds each element, and as which
// of its values.
//
//   const Picture picture = picture_of(parse_layout("(8,(2,4)):(2,(1,16))"));
//   std::ofstream("out.svg") << svg(picture);      // apps/render/layout_picture.hpp: as PNG
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "gemm_core/layout/print.hpp"

namespace layout {

struct Picture {
  struct Cell {
    Index row = 0, column = 0;
    std::size_t colour = 0;    // modulo the colours below
    std::string upper, lower;  // lower may be empty
  };
  static constexpr int kCell = 44, kMargin = 28;  // pixels: side of a cell, room for the numbers
  static constexpr Index kMaxCells = 1 << 14;
  static constexpr std::array<std::uint32_t, 8> kColours = {  // 0xrrggbb
      0xaec7e8, 0xffbb78, 0x98df8a, 0xff9896, 0xc5b0d5, 0xc49c94, 0xf7b6d2, 0xdbdb8d};

  Index rows = 0, columns = 0;
  std::vector<Cell> cells;  // positions without one stay empty
  Index width() const { return columns * kCell + 2 * kMargin; }
  Index height() const { return rows * kCell + 2 * kMargin; }
};

namespace detail {

inline void check_cells(const char* what, Index rows, Index columns) {
  ENSURE(rows >= 1 && columns >= 1 && rows <= Picture::kMaxCells / columns, what, ": ", rows, " x ",
         columns, " cells, the limit is ", Picture::kMaxCells);
}

inline std::string svg_text(Index x, Index y, const std::string& text) {
  return "<text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\">" + text +
         "</text>\n";
}

inline std::string svg_colour(std::size_t colour) {
  constexpr const char* kDigits = "0123456789abcdef";
  const std::uint32_t value = Picture::kColours[colour % Picture::kColours.size()];
  std::string text = "#";
  for (int shift = 20; shift >= 0; shift -= 4) text += kDigits[value >> shift & 15];
  return text;
}

inline std::string svg_cell(const Picture::Cell& cell) {
  constexpr Index kCell = Picture::kCell;
  const Index x = Picture::kMargin + cell.column * kCell, y = Picture::kMargin + cell.row * kCell;
  std::string out = "<rect x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) +
                    "\" width=\"" + std::to_string(kCell) + "\" height=\"" + std::to_string(kCell) +
                    "\" fill=\"" + svg_colour(cell.colour) + "\" stroke=\"#333\"/>\n";
  if (cell.lower.empty()) return out + svg_text(x + kCell / 2, y + kCell / 2 + 5, cell.upper);
  return out + svg_text(x + kCell / 2, y + kCell / 2 - 4, cell.upper) +
         svg_text(x + kCell / 2, y + kCell / 2 + 14, cell.lower);
}

}  // namespace detail

inline std::string svg(const Picture& picture) {
  constexpr Index kCell = Picture::kCell, kMargin = Picture::kMargin;
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" +
                    std::to_string(picture.width()) + "\" height=\"" +
                    std::to_string(picture.height()) +
                    "\" font-family=\"monospace\" font-size=\"13\" text-anchor=\"middle\">\n";
  for (Index i = 0; i < picture.rows; ++i)
    out += detail::svg_text(kMargin / 2, kMargin + i * kCell + kCell / 2 + 5, std::to_string(i));
  for (Index j = 0; j < picture.columns; ++j)
    out += detail::svg_text(kMargin + j * kCell + kCell / 2, kMargin - 8, std::to_string(j));
  for (const Picture::Cell& cell : picture.cells) out += detail::svg_cell(cell);
  return out + "</svg>\n";
}

// The values over a grid of `rows` x `columns`; value(i, j) may come from any layout, swizzled ones
// too.
template <class Value>
Picture picture_of_grid(Index rows, Index columns, const Value& value) {
  detail::check_cells("picture_of_grid", rows, columns);
  Picture picture{rows, columns, {}};
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < columns; ++j) {
      const Index v = value(i, j);
      picture.cells.push_back(
          {i, j, static_cast<std::size_t>(v < 0 ? 0 : v / 4), std::to_string(v), ""});
    }
  return picture;
}

inline Picture picture_of(const LayoutTree& a) {
  ENSURE(rank(a) == 2, "picture_of: ", print(a), " has rank ", rank(a), ", expected 2");
  const Index rows = size(mode(a, 0)).value();
  return picture_of_grid(rows, size(mode(a, 1)).value(),
                         [&](Index i, Index j) { return a(i + rows * j); });
}

// `thread_value` takes (thread, value) to an index of a rows x columns tile, column-major. Elements
// that no thread holds stay empty; of several holders (a broadcast) the first is shown.
inline Picture picture_of_thread_values(const LayoutTree& thread_value, Index rows, Index columns) {
  ENSURE(rank(thread_value) == 2, "picture_of_thread_values: ", print(thread_value), " has rank ",
         rank(thread_value), ", expected 2");
  detail::check_cells("picture_of_thread_values", rows, columns);
  const Index threads = size(mode(thread_value, 0)).value(),
              values = size(mode(thread_value, 1)).value();
  detail::check_cells("picture_of_thread_values: threads and values", threads, values);
  Picture picture{rows, columns, {}};
  std::vector<bool> drawn(static_cast<std::size_t>(rows * columns));
  for (Index t = 0; t < threads; ++t)
    for (Index v = 0; v < values; ++v) {
      const Index index = thread_value(t + threads * v);
      ENSURE(index >= 0 && index < rows * columns,
             "picture_of_thread_values: ", print(thread_value), " reaches past a tile of ", rows,
             " x ", columns);
      if (drawn[static_cast<std::size_t>(index)]) continue;
      drawn[static_cast<std::size_t>(index)] = true;
      std::string thread = "T", number = "V";  // appended: GCC 12 warns wrongly about "T" + string
      thread += std::to_string(t);
      number += std::to_string(v);
      picture.cells.push_back(
          {index % rows, index / rows, static_cast<std::size_t>(t), thread, number});
    }
  return picture;
}

}  // namespace layout
