// A picture in memory and the few things that are drawn on it besides points.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace render {

struct Rgb {
  std::uint8_t r = 0, g = 0, b = 0;
  friend bool operator==(const Rgb&, const Rgb&) = default;
};
Rgb mixed(Rgb a, Rgb b, double share_of_b);

struct Rectangle {
  int x = 0, y = 0, width = 0, height = 0;
};

class Image {
 public:
  Image() = default;
  Image(int width, int height, Rgb background);
  int width() const { return width_; }
  int height() const { return height_; }
  Rgb& at(int x, int y) { return pixels_[offset(x, y)]; }
  Rgb at(int x, int y) const { return pixels_[offset(x, y)]; }
  const Rgb* row(int y) const { return pixels_.data() + offset(0, y); }

  // Parts outside the picture are left out.
  void fill(const Rectangle& area, Rgb colour);
  void text(int x, int y, std::string_view words, Rgb colour, int scale = 2);  // top left corner
  void copy(const Image& from, int x, int y);

 private:
  std::size_t offset(int x, int y) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) +
           static_cast<std::size_t>(x);
  }
  int width_ = 0, height_ = 0;
  std::vector<Rgb> pixels_;
};

int text_width(std::string_view words, int scale = 2);
inline int text_height(int scale = 2) { return 8 * scale; }

std::string encode_png(const Image& image);  // the bytes of a PNG file
// Writes to a temporary name beside `path` and renames. Throws base::Error.
void write_png(const std::filesystem::path& path, const Image& image);

}  // namespace render
