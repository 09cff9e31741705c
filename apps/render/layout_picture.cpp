#include "apps/render/layout_picture.hpp"

#include <string>

namespace render {
namespace {

using layout::Picture;

constexpr Rgb kPaper{255, 255, 255}, kInk{0, 0, 0}, kLine{0x33, 0x33, 0x33};

Rgb colour_of(const Picture::Cell& cell) {
  const std::uint32_t value = Picture::kColours[cell.colour % Picture::kColours.size()];
  return {static_cast<std::uint8_t>(value >> 16), static_cast<std::uint8_t>(value >> 8),
          static_cast<std::uint8_t>(value)};
}

// In the middle of (x, y); in smaller letters where the words are wider than a cell.
void centred(Image& image, int x, int y, const std::string& words) {
  const int scale = text_width(words, 2) <= Picture::kCell - 4 ? 2 : 1;
  image.text(x - text_width(words, scale) / 2, y - text_height(scale) / 2, words, kInk, scale);
}

void draw_cell(Image& image, const Picture::Cell& cell) {
  constexpr int kCell = Picture::kCell;
  const int x = Picture::kMargin + static_cast<int>(cell.column) * kCell,
            y = Picture::kMargin + static_cast<int>(cell.row) * kCell;
  image.fill({x, y, kCell + 1, kCell + 1}, kLine);
  image.fill({x + 1, y + 1, kCell - 1, kCell - 1}, colour_of(cell));
  const int middle = x + kCell / 2;
  if (cell.lower.empty()) return centred(image, middle, y + kCell / 2, cell.upper);
  centred(image, middle, y + kCell / 3 - 2, cell.upper);
  centred(image, middle, y + 2 * kCell / 3 + 2, cell.lower);
}

}  // namespace

Image draw(const Picture& picture) {
  constexpr int kCell = Picture::kCell, kMargin = Picture::kMargin;
  Image image(static_cast<int>(picture.width()), static_cast<int>(picture.height()), kPaper);
  for (int i = 0; i < static_cast<int>(picture.rows); ++i)
    centred(image, kMargin / 2, kMargin + i * kCell + kCell / 2, std::to_string(i));
  for (int j = 0; j < static_cast<int>(picture.columns); ++j)
    centred(image, kMargin + j * kCell + kCell / 2, kMargin / 2, std::to_string(j));
  for (const Picture::Cell& cell : picture.cells) draw_cell(image, cell);
  return image;
}

}  // namespace render
