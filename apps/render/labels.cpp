#include "apps/render/labels.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include "gemm_core/base/error.hpp"
#include "io/formats/npy_array.hpp"
#include "io/hdf5_container.hpp"
#include "io/source.hpp"

namespace render {
namespace {

std::vector<std::int32_t> read_kitti(const std::filesystem::path& path) {
  const io::Source source(path);
  ENSURE(source.size() % 4 == 0, source.size(), " bytes are no whole number of 4-byte labels");
  std::vector<std::uint32_t> words(static_cast<std::size_t>(source.size() / 4));
  source.read(0, words.data(), source.size());
  std::vector<std::int32_t> labels;
  labels.reserve(words.size());
  for (const std::uint32_t word : words) labels.push_back(static_cast<std::int32_t>(word & 0xffff));
  return labels;
}

std::vector<std::int32_t> read_npy(const std::filesystem::path& path) {
  const io::Source source(path);
  io::FileStream stream(source, 0, source.size());
  const io::NpyHeader header = io::read_npy_header(stream);
  ENSURE(!header.is_structured && header.shape.size() == 1, "an array of shape ",
         io::shape_text(header.shape), ", expected one label a point");
  const base::Tensor values = io::read_npy_tensor(header, stream).to(base::DType::i32);
  return {values.data<std::int32_t>(), values.data<std::int32_t>() + values.numel()};
}

std::vector<std::int32_t> read_labels(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  if (extension == ".label") return read_kitti(path);
  if (extension == ".npy") return read_npy(path);
  if (extension == ".h5" || extension == ".hdf5")
    return io::Hdf5Reader(path).read<std::int32_t>("/labels");
  base::fail("no labels in files of this kind; expected .label, .h5 or .npy");
}

}  // namespace

io::Cloud with_labels(const io::Cloud& cloud, const std::filesystem::path& path) {
  std::vector<std::int32_t> labels;
  try {
    labels = read_labels(path);
  } catch (const base::Error& error) {
    base::fail(path.string(), ": ", error.what());
  }
  ENSURE(static_cast<std::int64_t>(labels.size()) == cloud.size(), path.string(), ": ",
         labels.size(), " labels for ", cloud.size(), " points");
  return cloud.with("label", labels);
}

}  // namespace render
