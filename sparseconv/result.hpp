// What a run gives back: the outputs of the network, and how points, labels and scores follow from
// them.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gemm_core/base/block_cache.hpp"
#include "sparseconv/sparse_tensor.hpp"

namespace sparseconv {

struct Output {
  std::string node;
  SparseTensor sparse;     // where the output is sparse: coordinates + f32 features (CPU)
  base::Tensor dense;      // where it is to_dense: [N, C*D, H, W] f32 (CPU)
  bool per_point = false;  // devoxelize: features [points, channels], coordinates empty
  bool on_input = false;   // its rows are those of the input
};

struct RunTiming {  // milliseconds, of the whole batch
  double voxelize = 0, maps = 0, network = 0, total = 0;
};

struct RunMemory {  // bytes, of this run
  std::int64_t weights = 0, maps = 0, activations = 0, largest_two_tensors = 0, peak_process = 0;
  std::int64_t device = 0;  // all that this process holds on the GPU; 0 on the CPU
};

class Result {
 public:
  std::vector<Output> outputs;
  std::vector<std::string> classes;
  std::vector<std::int64_t> class_ids;
  base::Buffer<std::int64_t> point_to_voxel;  // of the input cloud; empty for voxels
  std::vector<std::string> warnings;
  RunTiming timing;
  RunMemory memory;
  std::int64_t points = 0, voxels = 0, dropped = 0;
  // Cells of the input: cell = floor((x - origin) / voxel_size), with the origin after a whole-cell
  // shift where one was needed. Zeros where a voxel file does not say.
  std::array<double, 3> origin{}, voxel_size{};
  bool has_points = false;  // the input was a cloud: labels and scores have a row a point
  // EngineOptions::labels_only on a GPU: index into `classes` by row of labels(), 0xffff for a
  // point that became no voxel; `outputs` are empty then.
  std::optional<std::vector<std::uint16_t>> row_classes;
  // Of run_views: scores() as f32 [points, classes], from which labels() follow too; `outputs` and
  // `point_to_voxel` are empty then.
  std::optional<base::Tensor> probabilities;

  // One class id a point (clouds) or a voxel (voxel files); `dropped_label` where a point became no
  // voxel. Ties go to the lowest class. Error when no output on the input's voxels or points has as
  // many channels as the model has classes.
  std::vector<std::int32_t> labels(std::int32_t dropped_label = 0) const;
  // Softmax [rows, classes], rows as labels(); zeros for dropped points.
  base::Tensor scores() const;
  // Leaves out all points but the first `count`, as if the others had only been seen: labels,
  // scores, outputs a point and the counts. Error where there are fewer.
  void keep_first_points(std::int64_t count);
  // The output that labels come from.
  const Output& label_output() const;

 private:
  std::int64_t label_rows() const { return has_points ? points : voxels; }
  std::int64_t row_of(const Output& output, std::int64_t row) const;
};

}  // namespace sparseconv
