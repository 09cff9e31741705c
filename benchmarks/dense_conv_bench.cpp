// Dense 3 x 3 convolution, NHWC, on the CPU against oneDNN (where its library is installed), in
// turn, in one run.
//   dense_conv_bench [threads = 1] [rounds = 9] [wall|cpu = wall]
#include <cstdio>
#include <string>

#include "benchmarks/peers/onednn.hpp"
#include "benchmarks/support/settings.hpp"
#include "gemm_core/base/parallel.hpp"
#include "gemm_core/device/conv.hpp"
#include "gemm_core/device/machine.hpp"

namespace {

using benchmarks::random_values;
using benchmarks::Settings;
using gemm_core::Conv;
using gemm_core::ConvArguments;
using gemm_core::ConvOperation;

void bench(const char* name, ConvOperation operation, std::int64_t side, std::int64_t channels,
           const Settings& s) {
  const std::int64_t positions = side * side;
  auto activation = random_values(positions * channels),
       filter = random_values(9 * channels * channels),
       output = random_values(positions * channels);
  ConvArguments g{.operation = operation,
                  .problem = {.axes = 2,
                              .channels = channels,
                              .filters = channels,
                              .input = {1, side, side},
                              .kernel = {1, 3, 3},
                              .lower = {0, 1, 1},
                              .upper = {0, 1, 1}}};
  const bool forward = operation == ConvOperation::forward,
             wgrad = operation == ConvOperation::filter_gradient;
  g.a = {forward ? activation.data() : output.data()};
  g.b = {wgrad ? activation.data() : filter.data()};
  g.d = {forward ? output.data() : wgrad ? filter.data() : activation.data()};
  std::vector<std::uint8_t> workspace(Conv::workspace_size(g));
  Conv conv;
  if (const auto status = conv.initialize(g, workspace.data(), workspace.size()); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.message.c_str());
    return;
  }
  std::vector<std::function<void()>> contenders{[&] { conv.run(); }};
  const benchmarks::OneDnnConv peer(side, channels, activation.data(), filter.data(),
                                    output.data());
  if (forward && peer.found()) contenders.push_back([&] { peer.run(); });
  const auto seconds = benchmarks::best_seconds(contenders, s.rounds, s.clock);
  const double flop = 18.0 * static_cast<double>(positions * channels * channels);
  std::printf("%-18s %4lld x %lld x %-4lld %9.3f ms %7.1f GFLOP/s %5.1f %% of peak", name,
              static_cast<long long>(side), static_cast<long long>(side),
              static_cast<long long>(channels), seconds[0] * 1e3, flop / seconds[0] * 1e-9,
              100 * flop / seconds[0] / s.peak);
  if (seconds.size() > 1) std::printf(", %.3f x oneDNN", seconds[1] / seconds[0]);
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  Settings s = benchmarks::settings_of(argc, argv);
  s.peak = gemm_core::measure_fma_peak(s.threads);
  std::printf("%s, %d threads: peak %.1f GFLOP/s\n", gemm_core::cpu_instruction_set(), s.threads,
              s.peak * 1e-9);
  base::Threads(s.threads).run([&] {
    for (const std::int64_t channels : {64, 128, 256}) {
      bench("forward", ConvOperation::forward, 56, channels, s);
      bench("activation grad.", ConvOperation::activation_gradient, 56, channels, s);
      bench("filter gradient", ConvOperation::filter_gradient, 56, channels, s);
    }
  });
  return 0;
}
