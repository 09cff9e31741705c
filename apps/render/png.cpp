#include <png.h>

#include <csetjmp>
#include <new>
#include <string>

#include "apps/render/image.hpp"
#include "gemm_core/base/error.hpp"
#include "io/sink.hpp"

namespace render {
namespace {

// libpng reports through these; throwing across its C frames is not allowed, so errors jump.
struct Encoding {
  std::string bytes, trouble;
};

void note_error(png_structp png, png_const_charp message) {
  static_cast<Encoding*>(png_get_error_ptr(png))->trouble = message;
  png_longjmp(png, 1);
}

void ignore_warning(png_structp, png_const_charp) {}

void append(png_structp png, png_bytep data, png_size_t count) {
  try {
    static_cast<Encoding*>(png_get_io_ptr(png))
        ->bytes.append(reinterpret_cast<const char*>(data), count);
    return;
  } catch (const std::bad_alloc&) {
  }
  png_error(png, "out of memory");
}

void flush_nothing(png_structp) {}

// False when libpng gave up. No object with a destructor lives between setjmp and the return.
bool encode(png_structp png, png_infop info, Encoding* encoding, const Image& image) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_write_fn(png, encoding, append, flush_nothing);
  png_set_IHDR(png, info, static_cast<png_uint_32>(image.width()),
               static_cast<png_uint_32>(image.height()), 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  static_assert(sizeof(Rgb) == 3, "a row of pixels is r g b r g b ... in memory");
  for (int y = 0; y < image.height(); ++y)
    png_write_row(png, reinterpret_cast<png_const_bytep>(image.row(y)));
  png_write_end(png, info);
  return true;
}

}  // namespace

std::string encode_png(const Image& image) {
  ENSURE(image.width() > 0 && image.height() > 0, "png: picture of ", image.width(), " x ",
         image.height());
  Encoding encoding;
  png_structp png =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, &encoding, note_error, ignore_warning);
  ENSURE(png != nullptr, "png: out of memory");
  png_infop info = png_create_info_struct(png);
  const bool is_encoded = info != nullptr && encode(png, info, &encoding, image);
  png_destroy_write_struct(&png, &info);
  ENSURE(is_encoded, "png: ", encoding.trouble.empty() ? "out of memory" : encoding.trouble);
  return std::move(encoding.bytes);
}

void write_png(const std::filesystem::path& path, const Image& image) {
  const std::string bytes = encode_png(image);
  io::Sink sink(path);
  sink.write(bytes);
  sink.commit();
}

}  // namespace render
