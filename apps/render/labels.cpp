#include "apps/render/labels.hpp"

#include <algorithm>
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

// The class of the largest score in each row, ties to the lowest: its place, or its id where ids
// are given.
std::vector<std::int32_t> best_classes(const base::Tensor& scores, const std::vector<double>& ids) {
  ENSURE(scores.shape().rank() == 2 && scores.size(1) > 0, "scores: expected [points, classes]");
  const base::Tensor values = scores.to(base::DType::f32);
  const std::int64_t classes = values.size(1);
  ENSURE(ids.empty() || static_cast<std::int64_t>(ids.size()) == classes, ids.size(),
         " class ids for ", classes, " classes");
  std::vector<std::int32_t> labels;
  for (std::int64_t row = 0; row < values.size(0); ++row) {
    const float* const begin = values.data<float>() + row * classes;
    const auto best = static_cast<std::size_t>(std::max_element(begin, begin + classes) - begin);
    labels.push_back(
        static_cast<std::int32_t>(ids.empty() ? static_cast<double>(best) : ids[best]));
  }
  return labels;
}

std::vector<std::int32_t> read_npy(const std::filesystem::path& path) {
  const io::Source source(path);
  io::FileStream stream(source, 0, source.size());
  const io::NpyHeader header = io::read_npy_header(stream);
  if (!header.is_structured && header.shape.size() == 2)
    return best_classes(io::read_npy_tensor(header, stream), {});
  ENSURE(!header.is_structured && header.shape.size() == 1, "an array of shape ",
         io::shape_text(header.shape), ", expected one label a point, or scores");
  const base::Tensor values = io::read_npy_tensor(header, stream).to(base::DType::i32);
  return {values.data<std::int32_t>(), values.data<std::int32_t>() + values.numel()};
}

std::vector<std::int32_t> read_hdf5(const std::filesystem::path& path) {
  const io::Hdf5Reader file(path);
  if (file.has("/labels") || !file.has("/scores")) return file.read<std::int32_t>("/labels");
  const bool has_ids = file.has_attribute("/", "class_ids");
  return best_classes(file.read_tensor("/scores"),
                      has_ids ? file.attribute_numbers("/", "class_ids") : std::vector<double>{});
}

std::vector<std::int32_t> read_labels(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  if (extension == ".label") return read_kitti(path);
  if (extension == ".npy") return read_npy(path);
  if (extension == ".h5" || extension == ".hdf5") return read_hdf5(path);
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
