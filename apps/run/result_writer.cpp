#include "apps/run/result_writer.hpp"

#include <limits>

#include "apps/command.hpp"
#include "apps/run/npy_writer.hpp"
#include "apps/voxel_cloud.hpp"
#include "io/hdf5_container.hpp"
#include "io/io.h"

namespace apps {
namespace fs = std::filesystem;
using sparseconv::Output, sparseconv::Result;

namespace {

void write_output(io::Hdf5Writer& file, const Output& output) {
  const std::string group = "/outputs/" + output.node;
  file.create_group(group);
  if (output.dense.defined()) {
    file.write_tensor(group + "/dense", output.dense);
    return;
  }
  file.write_tensor(group + "/features", output.sparse.features);
  if (output.per_point) return;
  const auto coords = output.sparse.coordinates->coords();
  const std::span<const std::int32_t> numbers(coords.empty() ? nullptr : &coords[0].batch,
                                              4 * coords.size());
  file.write<std::int32_t>(group + "/coordinates", numbers,
                           {static_cast<std::int64_t>(coords.size()), 4});
}

void write_hdf5_result(const fs::path& path, const ResultKind& kind, const Result& result) {
  io::Hdf5Writer file(path);
  file.set_attribute("/", "sparseconv_result", std::int64_t{1});
  file.set_attribute("/", "origin",
                     std::vector<double>(result.origin.begin(), result.origin.end()));
  file.set_attribute("/", "voxel_size",
                     std::vector<double>(result.voxel_size.begin(), result.voxel_size.end()));
  if (!result.classes.empty()) {
    file.set_attribute("/", "classes", result.classes);
    file.set_attribute("/", "class_ids", result.class_ids);
  }
  if (kind.save == "labels") {
    const std::vector<std::int32_t> labels = result.labels(-1);
    file.write<std::int32_t>("/labels", labels, {static_cast<std::int64_t>(labels.size())});
  } else if (kind.save == "scores") {
    file.write_tensor("/scores", result.scores());
  } else {
    for (const Output& output : result.outputs) write_output(file, output);
  }
  file.commit();
}

void write_npy_result(const fs::path& path, const ResultKind& kind, const Result& result) {
  if (kind.save == "scores") return write_npy(path, result.scores());
  const std::vector<std::int32_t> labels = result.labels(-1);
  auto tensor = base::Tensor::empty({static_cast<std::int64_t>(labels.size())}, base::DType::i32);
  std::copy(labels.begin(), labels.end(), tensor.data<std::int32_t>());
  write_npy(path, tensor);
}

std::vector<std::uint32_t> unsigned_labels(const Result& result) {
  const std::vector<std::int32_t> labels = result.labels(0);
  for (const std::int32_t label : labels) {
    ENSURE(label >= 0, "class id ", label, " is negative and no label file can hold it");
  }
  return {labels.begin(), labels.end()};
}

void write_points(const fs::path& path, const ResultKind& kind, const RunInput& input,
                  const Result& result) {
  io::Cloud cloud = input.cloud ? *input.cloud : cell_centres(*input.voxels);
  if (kind.save == "labels") {
    io::write(path, cloud.with("label", unsigned_labels(result)), {.format = kind.format});
    return;
  }
  const base::Tensor scores = result.scores();
  const std::int64_t rows = scores.size(0), classes = scores.size(1);
  const float* score = scores.data<float>();
  for (std::int64_t c = 0; c < classes; ++c) {
    std::vector<float> column;
    column.reserve(static_cast<std::size_t>(rows));
    for (std::int64_t row = 0; row < rows; ++row) column.push_back(score[row * classes + c]);
    cloud.add("score_" + std::to_string(c), std::span<const float>(column));
  }
  io::write(path, cloud, {.format = kind.format});
}

void write_label(const fs::path& path, const Result& result) {
  const std::vector<std::uint32_t> labels = unsigned_labels(result);
  io::Cloud cloud(static_cast<std::int64_t>(labels.size()));
  cloud.add("label", std::span<const std::uint32_t>(labels));
  io::write(path, cloud, {.format = "label"});
}

}  // namespace

void check_result_kind(const ResultKind& kind) {
  ENSURE_USAGE(kind.format != "label" || kind.save == "labels",
               "--format label holds labels only, not ", kind.save);
  ENSURE_USAGE(kind.save != "features" || kind.format == "h5",
               "--save features goes with --format h5 only, not ", kind.format);
}

void write_result(const fs::path& path, const ResultKind& kind, const RunInput& input,
                  const Result& result) {
  if (kind.format == "h5") return write_hdf5_result(path, kind, result);
  if (kind.format == "npy") return write_npy_result(path, kind, result);
  if (kind.format == "label") return write_label(path, result);
  write_points(path, kind, input, result);
}

}  // namespace apps
