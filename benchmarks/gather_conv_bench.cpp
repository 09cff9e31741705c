// The CPU convolution kernel and the dense product on the same machine in the same run, as
// fractions of its own multiply-add peak, beside OpenBLAS where it is installed.
//   gather_conv_bench SCAN.bin [voxel size = 0.1] [threads = 1] [rounds = 15] [layer|gemm|all =
//   all] [wall|cpu = wall]
#include <cstdio>
#include <cstdlib>
#include <random>

#include "benchmarks/peers/blas.hpp"
#include "benchmarks/support/settings.hpp"
#include "benchmarks/support/voxel_frame.hpp"
#include "gemm_core/base/parallel.hpp"
#include "gemm_core/device/gather_conv.hpp"
#include "gemm_core/device/machine.hpp"

namespace {

struct Settings {
  int threads = 1, rounds = 15;
  double peak = 0;
  std::string what = "all";
  benchmarks::TimedBy clock = benchmarks::TimedBy::wall;
};

base::Tensor tensor(std::int64_t rows, std::int64_t columns, base::DType type) {
  const auto values = benchmarks::random_values(rows * columns);
  base::Tensor t = base::Tensor::empty({rows, columns}, base::DType::f32);
  std::copy(values.begin(), values.end(), t.data<float>());
  return t.to(type);
}

void bench_layer(const benchmarks::VoxelFrame& frame, std::int64_t cin, std::int64_t cout,
                 base::DType type, const Settings& s) {
  const auto weight = benchmarks::random_values(cout * 27 * cin);
  const auto weights = gemm_core::pack_conv_weights(
      {.weight = weight.data(), .cout = cout, .taps = 27, .cin = cin, .compute = type});
  const base::Tensor input = tensor(frame.rows, cin, type);
  base::Tensor output = base::Tensor::zeros({frame.rows, cout}, type);
  gemm_core::GatherConvArguments arguments{.input = input.view(),
                                           .neighbours = frame.neighbours.data(),
                                           .rows = frame.rows,
                                           .weights = &weights,
                                           .output = output.view()};
  const double seconds =
      benchmarks::best_seconds({[&] { gemm_core::gather_conv(arguments); }}, s.rounds, s.clock)[0];
  const double flop = 2.0 * static_cast<double>(frame.pairs * cin * cout);
  std::printf("layer k3 %s %3ld -> %3ld: %8.3f ms %7.1f GFLOP/s %5.1f %% of peak\n",
              std::string(name(type)).c_str(), static_cast<long>(cin), static_cast<long>(cout),
              seconds * 1e3, flop / seconds * 1e-9, 100 * flop / seconds / s.peak);
}

void bench_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const benchmarks::OpenBlas& blas,
                const Settings& s) {
  const auto weight = benchmarks::random_values(n * k);
  const auto weights = gemm_core::pack_conv_weights({.weight = weight.data(), .cout = n, .cin = k});
  const base::Tensor a = tensor(m, k, base::DType::f32);
  base::Tensor d = base::Tensor::zeros({m, n}, base::DType::f32);
  gemm_core::GatherConvArguments arguments{
      .input = a.view(), .rows = m, .weights = &weights, .output = d.view()};
  std::vector<std::function<void()>> contenders{[&] { gemm_core::gather_conv(arguments); }};
  base::Tensor peer = base::Tensor::zeros({m, n}, base::DType::f32);
  if (blas.found()) {
    contenders.push_back(
        [&] { blas.sgemm_nt(m, n, k, a.data<float>(), weight.data(), peer.data<float>()); });
  }
  const auto seconds = benchmarks::best_seconds(contenders, s.rounds, s.clock);
  const double flop = 2.0 * static_cast<double>(m * n * k);
  std::printf("gemm M=%ld N=%ld K=%ld: %8.3f ms %7.1f GFLOP/s %5.1f %% of peak",
              static_cast<long>(m), static_cast<long>(n), static_cast<long>(k), seconds[0] * 1e3,
              flop / seconds[0] * 1e-9, 100 * flop / seconds[0] / s.peak);
  if (blas.found())
    std::printf(", OpenBLAS %8.3f ms, %.3f x its speed", seconds[1] * 1e3, seconds[1] / seconds[0]);
  std::printf("\n");
}

void bench_layers(const benchmarks::VoxelFrame& frame, const Settings& s) {
  using base::DType;
  for (const std::int64_t c : {16, 32, 64, 96, 128, 256}) bench_layer(frame, c, c, DType::f32, s);
  bench_layer(frame, 4, 32, DType::f32, s);
  bench_layer(frame, 192, 96, DType::f32, s);
  for (const std::int64_t c : {32, 64, 128}) bench_layer(frame, c, c, DType::f16, s);
  for (const std::int64_t c : {32, 64, 128}) bench_layer(frame, c, c, DType::bf16, s);
}

void bench_gemms(const Settings& s) {
  const benchmarks::OpenBlas blas;
  if (blas.found()) blas.set_threads(s.threads);
  for (const std::int64_t c : {32, 64, 96, 128}) bench_gemm(100000, c, 27 * c, blas, s);
  bench_gemm(100000, 256, 256, blas, s);
  bench_gemm(2048, 2048, 2048, blas, s);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: gather_conv_bench SCAN.bin [voxel size] [threads] [rounds] "
                 "[layer|gemm|all] [wall|cpu]\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  Settings s;
  const double size = argc > 2 ? std::atof(argv[2]) : 0.1;
  s.threads = argc > 3 ? std::atoi(argv[3]) : 1;
  s.rounds = argc > 4 ? std::atoi(argv[4]) : 15;
  if (argc > 5) s.what = argv[5];
  if (argc > 6 && std::string(argv[6]) == "cpu") s.clock = benchmarks::TimedBy::process_cpu;
  const auto frame = benchmarks::read_voxel_frame(argv[1], size);
  s.peak = gemm_core::measure_fma_peak(s.threads);
  std::printf(
      "%s, %d threads: peak %.1f GFLOP/s, copy %.1f GB/s; %ld voxels, %.2f neighbours each\n",
      gemm_core::cpu_instruction_set(), s.threads, s.peak * 1e-9,
      gemm_core::measure_copy_bandwidth(s.threads) * 1e-9, static_cast<long>(frame.rows),
      static_cast<double>(frame.pairs) / static_cast<double>(frame.rows));
  base::Threads(s.threads).run([&] {
    if (s.what != "gemm") bench_layers(frame, s);
    if (s.what != "layer") bench_gemms(s);
  });
  return 0;
}
