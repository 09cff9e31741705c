#include "apps/run/npy_writer.hpp"

#include <bit>
#include <string>

#include "io/sink.hpp"

namespace apps {
namespace fs = std::filesystem;

namespace {

std::string header_of(const base::Tensor& tensor) {
  static_assert(std::endian::native == std::endian::little, "written as it is in memory");
  std::string shape;
  for (const std::int64_t extent : tensor.shape()) shape += std::to_string(extent) + ", ";
  if (tensor.shape().rank() > 1) shape.resize(shape.size() - 2);
  if (tensor.shape().rank() == 1) shape.pop_back();
  const char* type = tensor.dtype() == base::DType::f32 ? "<f4" : "<i4";
  std::string text =
      std::string("{'descr': '") + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  text.append(64 - (10 + text.size() + 1) % 64, ' ');  // data starts at a multiple of 64
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}  // namespace

void write_npy(const fs::path& path, const base::Tensor& tensor) {
  ENSURE(tensor.dtype() == base::DType::f32 || tensor.dtype() == base::DType::i32,
         "npy: element type ", base::name(tensor.dtype()), " is not written");
  io::Sink sink(path);
  sink.write(header_of(tensor));
  sink.write(tensor.data(), tensor.nbytes());
  sink.commit();
}

}  // namespace apps
