// Layouts as SVG pictures. A grid shows a layout of rank 2: rows are mode 0, columns mode 1, each
// cell its value, coloured by groups of four: for 32-bit words, the 16-byte group of a 128-byte
// line of shared memory. A thread-value picture shows a tile: which thread holds each element, and
// as which of its values.
#pragma once
#include <array>
#include <string>

#include "gemm_core/layout/print.hpp"

namespace layout {

namespace detail {

inline constexpr int kCell = 44, kMargin = 28;
inline constexpr std::array<const char*, 8> kColours = {"#aec7e8", "#ffbb78", "#98df8a", "#ff9896",
                                                        "#c5b0d5", "#c49c94", "#f7b6d2", "#dbdb8d"};

inline std::string svg_text(Index x, Index y, const std::string& text) {
  return "<text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\">" + text +
         "</text>\n";
}

inline std::string svg_cell(Index row, Index column, std::size_t colour, const std::string& upper,
                            const std::string& lower) {
  const Index x = kMargin + column * kCell, y = kMargin + row * kCell;
  std::string out = "<rect x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) +
                    "\" width=\"" + std::to_string(kCell) + "\" height=\"" + std::to_string(kCell) +
                    "\" fill=\"" + kColours[colour % kColours.size()] + "\" stroke=\"#333\"/>\n";
  if (lower.empty()) return out + svg_text(x + kCell / 2, y + kCell / 2 + 5, upper);
  return out + svg_text(x + kCell / 2, y + kCell / 2 - 4, upper) +
         svg_text(x + kCell / 2, y + kCell / 2 + 14, lower);
}

inline std::string svg_page(Index rows, Index columns, const std::string& cells) {
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" +
                    std::to_string(columns * kCell + 2 * kMargin) + "\" height=\"" +
                    std::to_string(rows * kCell + 2 * kMargin) +
                    "\" font-family=\"monospace\" font-size=\"13\" text-anchor=\"middle\">\n";
  for (Index i = 0; i < rows; ++i)
    out += svg_text(kMargin / 2, kMargin + i * kCell + kCell / 2 + 5, std::to_string(i));
  for (Index j = 0; j < columns; ++j)
    out += svg_text(kMargin + j * kCell + kCell / 2, kMargin - 8, std::to_string(j));
  return out + cells + "</svg>\n";
}

inline constexpr Index kMaxDrawn = 1 << 14;  // cells

}  // namespace detail

// The values over a grid of `rows` x `columns`; value(i, j) may come from any layout, swizzled ones
// too.
template <class Value>
std::string draw_grid(Index rows, Index columns, const Value& value) {
  ENSURE(rows >= 1 && columns >= 1 && rows <= detail::kMaxDrawn / columns, "draw_grid: ", rows,
         " x ", columns, " cells, the limit is ", detail::kMaxDrawn);
  std::string cells;
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < columns; ++j) {
      const Index v = value(i, j);
      cells += detail::svg_cell(i, j, static_cast<std::size_t>(v < 0 ? 0 : v / 4),
                                std::to_string(v), "");
    }
  return detail::svg_page(rows, columns, cells);
}

inline std::string draw(const LayoutTree& a) {
  ENSURE(rank(a) == 2, "draw: ", print(a), " has rank ", rank(a), ", expected 2");
  const Index rows = size(mode(a, 0)).value();
  return draw_grid(rows, size(mode(a, 1)).value(),
                   [&](Index i, Index j) { return a(i + rows * j); });
}

// `thread_value` takes (thread, value) to an index of a rows x columns tile, column-major. Elements
// that no thread holds stay empty; of several holders (a broadcast) the first is shown.
inline std::string draw_thread_values(const LayoutTree& thread_value, Index rows, Index columns) {
  ENSURE(rank(thread_value) == 2, "draw_thread_values: ", print(thread_value), " has rank ",
         rank(thread_value));
  ENSURE(rows >= 1 && columns >= 1 && rows <= detail::kMaxDrawn / columns,
         "draw_thread_values: ", rows, " x ", columns, " cells, the limit is ", detail::kMaxDrawn);
  ENSURE(cosize(thread_value).value() <= rows * columns,
         "draw_thread_values: ", print(thread_value), " reaches past a tile of ", rows, " x ",
         columns);
  const Index threads = size(mode(thread_value, 0)).value(),
              values = size(mode(thread_value, 1)).value();
  std::vector<bool> drawn(static_cast<std::size_t>(rows * columns));
  std::string cells;
  for (Index t = 0; t < threads; ++t)
    for (Index v = 0; v < values; ++v) {
      const Index index = thread_value(t + threads * v);
      if (drawn[static_cast<std::size_t>(index)]) continue;
      drawn[static_cast<std::size_t>(index)] = true;
      std::string thread = "T", value = "V";  // appended: GCC 12 warns wrongly about "T" + string
      thread += std::to_string(t);
      value += std::to_string(v);
      cells +=
          detail::svg_cell(index % rows, index / rows, static_cast<std::size_t>(t), thread, value);
    }
  return detail::svg_page(rows, columns, cells);
}

}  // namespace layout
