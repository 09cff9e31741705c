// Gradients on the CPU beside the forward pass of the same run: layers, then whole training steps.
//   training_bench SCAN.bin [voxel size = 0.1] [threads = 1] [rounds = 5] [layer|step|all = all]
//   [wall|cpu = wall] [architecture = minkunet14] [width = 1]
#include <cstdio>
#include <cstdlib>
#include <random>

#include "benchmarks/support/timing.hpp"
#include "benchmarks/support/voxel_frame.hpp"
#include "gemm_core/base/parallel.hpp"
#include "gemm_core/device/gather_conv.hpp"
#include "gemm_core/device/gather_conv_gradient.hpp"
#include "gemm_core/device/machine.hpp"
#include "io/io.h"
#include "sparseconv/engine.hpp"
#include "sparseconv/training/trainer.hpp"
#include "sparseconv/voxelize.hpp"

namespace {

struct Settings {
  std::string scan, what = "all", architecture = "minkunet14";
  double size = 0.1, width = 1;
  int threads = 1, rounds = 5;
  benchmarks::TimedBy clock = benchmarks::TimedBy::wall;
};

base::Tensor random_matrix(std::int64_t rows, std::int64_t columns) {
  static std::mt19937 random(7);
  std::normal_distribution<float> normal;
  auto t = base::Tensor::empty({rows, columns}, base::DType::f32);
  for (std::int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = normal(random);
  return t;
}

// A submanifold layer: forward, gradient of the input (same table, taps reversed), of the weights.
void bench_layer(const benchmarks::VoxelFrame& frame, std::int64_t cin, std::int64_t cout,
                 const Settings& s) {
  const base::Tensor weight = random_matrix(cout, 27 * cin), x = random_matrix(frame.rows, cin);
  base::Tensor y = random_matrix(frame.rows, cout), dx = random_matrix(frame.rows, cin);
  base::Tensor dw = random_matrix(cout, 27 * cin);
  const base::Tensor& dy = y;
  const float* values = weight.data<float>();
  const auto forward =
      gemm_core::pack_conv_weights({.weight = values, .cout = cout, .taps = 27, .cin = cin});
  const auto backward = gemm_core::pack_conv_weights({.weight = values,
                                                      .cout = cin,
                                                      .taps = 27,
                                                      .cin = cout,
                                                      .is_transposed = true,
                                                      .has_reversed_taps = true});
  gemm_core::AlignedBuffer workspace;
  const std::int32_t* map = frame.neighbours.data();
  const auto seconds = benchmarks::best_seconds(
      {[&] {
         gemm_core::gather_conv({.input = x.view(),
                                 .neighbours = map,
                                 .rows = frame.rows,
                                 .weights = &forward,
                                 .output = y.view()});
       },
       [&] {
         gemm_core::gather_conv({.input = dy.view(),
                                 .neighbours = map,
                                 .rows = frame.rows,
                                 .weights = &backward,
                                 .output = dx.view()});
       },
       [&] {
         gemm_core::gather_conv_weight_gradient({.input = x.view(),
                                                 .gradient = dy.view(),
                                                 .neighbours = map,
                                                 .rows = frame.rows,
                                                 .taps = 27,
                                                 .weight_gradient = dw.data<float>(),
                                                 .workspace = &workspace});
       }},
      s.rounds, s.clock);
  const double gflop = 2e-9 * static_cast<double>(frame.pairs * cin * cout);
  std::printf(
      "k3 %3ld -> %3ld: forward %8.3f ms (%6.1f GFLOP/s), dgrad %8.3f ms, %.2f x, wgrad "
      "%8.3f ms (%6.1f GFLOP/s), %.2f x\n",
      static_cast<long>(cin), static_cast<long>(cout), seconds[0] * 1e3, gflop / seconds[0],
      seconds[1] * 1e3, seconds[1] / seconds[0], seconds[2] * 1e3, gflop / seconds[2],
      seconds[2] / seconds[0]);
}

void bench_layers(const Settings& s) {
  const auto frame = benchmarks::read_voxel_frame(s.scan, s.size);
  std::printf("%ld voxels, %.2f neighbours each\n", static_cast<long>(frame.rows),
              static_cast<double>(frame.pairs) / static_cast<double>(frame.rows));
  base::Threads(s.threads).run([&] {
    for (const std::int64_t c : {16, 32, 64, 96, 128, 256}) bench_layer(frame, c, c, s);
    bench_layer(frame, 4, 32, s);
    bench_layer(frame, 192, 96, s);
  });
}

void bench_step(const Settings& s) {
  using namespace sparseconv;
  const io::Cloud cloud = io::read(s.scan);
  const Model model = build_architecture(s.architecture, {.width = s.width, .voxel_size = s.size});
  const Voxels voxels =
      voxelize(cloud, {.voxel_size = model.input.voxel_size, .features = model.input.features});
  training::Batch batch{.voxels = voxels.tensor};
  for (std::int64_t i = 0; i < voxels.tensor.rows(); ++i)
    batch.labels.push_back(static_cast<std::int32_t>(i % std::ssize(model.classes)));
  const Engine engine(model, {.threads = s.threads});
  training::Trainer trainer(model, {.schedule = {.rate = 1e-4}, .threads = s.threads});
  training::StepReport report;
  const auto seconds = benchmarks::best_seconds(
      {[&] { engine.run(voxels.tensor); }, [&] { report = trainer.step(batch); }}, s.rounds,
      s.clock);
  std::printf(
      "%s x %g, %ld voxels: inference %.1f ms, training step %.1f ms, %.2f x; of the last "
      "step: maps %.1f, forward %.1f, backward %.1f, update %.1f ms (wall)\n",
      s.architecture.c_str(), s.width, static_cast<long>(voxels.tensor.rows()), seconds[0] * 1e3,
      seconds[1] * 1e3, seconds[1] / seconds[0], report.maps_ms, report.forward_ms,
      report.backward_ms, report.update_ms);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: training_bench SCAN.bin [voxel size] [threads] [rounds] "
                 "[layer|step|all] [wall|cpu] [architecture] [width]\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  Settings s{.scan = argv[1]};
  if (argc > 2) s.size = std::atof(argv[2]);
  if (argc > 3) s.threads = std::atoi(argv[3]);
  if (argc > 4) s.rounds = std::atoi(argv[4]);
  if (argc > 5) s.what = argv[5];
  if (argc > 6 && std::string(argv[6]) == "cpu") s.clock = benchmarks::TimedBy::process_cpu;
  if (argc > 7) s.architecture = argv[7];
  if (argc > 8) s.width = std::atof(argv[8]);
  std::printf("%s, %d threads\n", gemm_core::cpu_instruction_set(), s.threads);
  if (s.what != "step") bench_layers(s);
  if (s.what != "layer") bench_step(s);
  return 0;
}
