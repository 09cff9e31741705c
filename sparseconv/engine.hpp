// Runs a model: voxelise, coordinates and maps, fused network. Planned once per model, then run without allocating in
// steady state. `run` may be called from several threads.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/cloud.hpp"
#include "sparseconv/model.hpp"
#include "sparseconv/sparse_tensor.hpp"
#include "sparseconv/voxel_file.hpp"

namespace sparseconv {

struct EngineOptions {
  std::string device = "cpu";   // cpu, cuda, cuda:N
  std::string dtype = "fp32";   // fp32, tf32, fp16, bf16
  int threads = 0;              // compute threads on the CPU; 0: all cores
};

struct Output {
  std::string node;
  SparseTensor sparse;          // where the output is sparse: coordinates + f32 features (CPU)
  base::Tensor dense;           // where it is to_dense: [N, C*D, H, W] f32 (CPU)
  bool per_point = false;       // devoxelize: features [points, channels], coordinates empty
};

struct RunTiming {              // milliseconds
  double voxelize = 0, maps = 0, network = 0, total = 0;
};

struct RunMemory {              // bytes, of this run
  std::int64_t weights = 0, maps = 0, activations = 0, largest_two_tensors = 0, peak_process = 0;
};

class Result {
 public:
  std::vector<Output> outputs;
  std::vector<std::string> classes;
  std::vector<std::int64_t> class_ids;
  std::vector<std::int64_t> point_to_voxel;   // of the input cloud; empty for a voxel file without it
  std::vector<std::string> warnings;
  RunTiming timing;
  RunMemory memory;
  std::int64_t points = 0, voxels = 0, dropped = 0;

  // One class id a point (clouds) or a voxel (voxel files); `dropped_label` where a point became no voxel. Error when no
  // output has as many channels as the model has classes.
  std::vector<std::int32_t> labels(std::int32_t dropped_label = 0) const;
  // Softmax [rows, classes], rows as labels(); zeros for dropped points.
  base::Tensor scores() const;
};

class Engine {
 public:
  explicit Engine(Model model, const EngineOptions& options = {});
  ~Engine();
  Engine(Engine&&) noexcept;

  Result run(const io::Cloud& cloud) const;
  std::vector<Result> run(std::span<const io::Cloud* const> clouds) const;  // one batch
  Result run(const VoxelFile& voxels) const;
  Result run(const SparseTensor& input) const;
  const Model& model() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparseconv
