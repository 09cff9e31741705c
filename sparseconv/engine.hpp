// Runs a model: voxelise, coordinates and maps, fused network. Planned once per model. Memory goes
// round: voxels, coordinates, maps, activations and outputs take blocks that earlier frames and
// dropped results gave back, so that in steady state nothing that grows with the frame is
// allocated. (What belongs to the caller is not counted: the cloud, labels() and scores().)
// `run` may be called from several threads; each run in flight has its own activations.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/cloud.hpp"
#include "sparseconv/model.hpp"
#include "sparseconv/result.hpp"
#include "sparseconv/voxel_file.hpp"

namespace sparseconv {

struct EngineOptions {
  std::string device = "cpu";  // cpu, cuda, cuda:N; cuda:N,M,... deals frames to several GPUs
  std::string dtype = "fp32";  // fp32, tf32, fp16, bf16
  int threads = 0;             // compute threads on the CPU; 0: all cores
  // Keep the maps of the last frame and use them again when run() is given the same coordinates
  // (the same pointer).
  bool cache_maps = false;
  // Results are asked for labels() alone: then a GPU sends nothing else back, outputs stay empty
  // and scores() is an error.
  bool labels_only = false;
  // GPU: voxels (points, where clouds come) that a captured frame has room for. Larger ones run
  // without the capture, and a warning says so. 0: room for each size that comes.
  std::int64_t row_bound = 0;
  std::int64_t memory_limit = 0;  // GPU: bytes that this process may hold of each; 0: no limit
};

class Engine {
 public:
  explicit Engine(Model model, const EngineOptions& options = {});
  ~Engine();
  Engine(Engine&&) noexcept;

  Result run(const io::Cloud& cloud) const;
  // One batch; a result a cloud, each as if the cloud had been run alone (its coordinates have
  // batch 0).
  std::vector<Result> run(std::span<const io::Cloud* const> clouds) const;
  // Rows, labels and outputs on the input's coordinates keep the order of the file. A spatial shape
  // of the model and one of the file must agree; where one has it, it holds.
  Result run(const VoxelFile& voxels) const;
  Result run(const SparseTensor& input) const;
  const Model& model()
      const;  // the graph; the engine keeps the weights packed, not as a model has them
  // Milliseconds of each fused step of the network, in order, with the node it ends with; timed one
  // by one.
  struct StepTime {
    std::string node;
    double milliseconds = 0;
  };
  std::vector<StepTime> profile(const SparseTensor& input) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparseconv
