// What the benchmarks share: settings, the machine's own limits, frames, and the table or JSON of
// results.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/timing.hpp"
#include "apps/command.hpp"
#include "apps/results.hpp"
#include "gemm_core/base/dtype.hpp"
#include "io/cloud.hpp"
#include "sparseconv/sparse_tensor.hpp"
#include "sparseconv/voxelize.hpp"

namespace apps {

// Limits of the cores in use, measured at the start of every benchmark; of a GPU, the copy measured
// and the products of the type as its vendor's library makes them (0: not known).
struct Machine {
  double flops = 0;             // multiply-add peak, FLOP/s
  double bytes_per_second = 0;  // copy: read + written
};

struct BenchSettings {
  std::string device = "cpu", dtype = "fp32";
  base::DType type = base::DType::f32;
  std::vector<int> threads;  // at least one
  Rounds rounds;
  Clock clock = Clock::wall;
  bool as_json = false;
  base::Device place() const { return base::parse_device(device); }
};
void add_bench_options(Command& command);
// `types`: what --dtype may be. Where the option holds a list of the command's own, its first
// entry.
BenchSettings bench_settings(const Arguments& arguments, const std::vector<std::string>& types = {
                                                             "fp32", "tf32", "fp16", "bf16"});

// A row of "results". Numbers that do not apply are null.
struct BenchResult {
  std::string name, dtype = "float32";
  int threads = 1;
  std::optional<std::int64_t> voxels, cin, cout;
  std::optional<std::string> kernel;
  Times times;
  double flop = 0, bytes = 0;  // of the work itself: present pairs, each operand moved once
  Json more = Json::object();  // further keys
};

class BenchReport {
 public:
  explicit BenchReport(const BenchSettings& settings);  // measures the machine
  const Machine& machine(int threads);
  // The least time that the machine's limits allow.
  double floor_ms(double flop, double bytes, int threads);
  void add(const BenchResult& result);
  int close(const Json& more = Json::object());

 private:
  BenchSettings settings_;
  std::string name_;                 // of the device
  std::map<int, Machine> machines_;  // by threads
  Json results_ = Json::array();
};

// Frames to work on: named files (clouds or voxel files), else a simulated street of the hdl64
// sensor.
struct FrameOptions {
  std::vector<std::string> inputs;
  // Features are 0 where a cloud lacks them; bounds where a network has them.
  sparseconv::VoxelizeOptions voxelize{.features = {"x", "y", "z", "intensity"}};
  int batch = 1;           // frames in one tensor; few inputs are repeated
  std::uint64_t seed = 1;  // of the street
};
void add_frame_options(Command& command);
FrameOptions frame_options(const Arguments& arguments);

struct BenchFrame {
  std::vector<std::filesystem::path> files;  // of the clouds; empty where they were simulated
  std::vector<io::Cloud> clouds;             // empty where a voxel file was read
  sparseconv::SparseTensor voxels;           // f32 features: x y z and what else the clouds have
};
BenchFrame load_frame(const FrameOptions& options);  // FileError

std::string device_name(const BenchSettings& settings);

}  // namespace apps
