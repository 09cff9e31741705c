// Dense, grouped and fused products on the CPU against OpenBLAS, BLIS and oneDNN where they are
// installed (oneDNN takes its threads from OMP_NUM_THREADS) and against each other, in turn, in one
// run.
//   gemm_bench [threads = 1] [rounds = 9] [wall|cpu = wall] [part of a name: only what has it]
#include <cstdio>
#include <memory>
#include <string>

#include "benchmarks/peers/blas.hpp"
#include "benchmarks/support/settings.hpp"
#include "gemm_core/base/parallel.hpp"
#include "gemm_core/device/gemm.hpp"
#include "gemm_core/device/machine.hpp"

namespace {

using base::DType;
using benchmarks::random_values;
using benchmarks::Settings;
using gemm_core::Gemm;
using gemm_core::GemmArguments;

std::string wanted;  // part of the names of what is measured
bool is_wanted(const std::string& name) { return name.find(wanted) != std::string::npos; }

// A product that owns its operands and workspace.
struct Product {
  std::int64_t m, n, k;
  benchmarks::Values a, b, d;
  std::vector<std::uint8_t> workspace;
  Gemm gemm;
  Product(std::int64_t rows, std::int64_t columns, std::int64_t depth)
      : m(rows),
        n(columns),
        k(depth),
        a(random_values(m * k)),
        b(random_values(n * k)),
        d(static_cast<std::size_t>(m * n)) {}
  GemmArguments arguments() {
    GemmArguments g{.m = m, .n = n, .k = k};
    g.a = {a.data(), DType::f32, k, 1};
    g.b = {b.data(), DType::f32, 1, k};
    g.d = {d.data(), DType::f32, n, 1};
    return g;
  }
  void initialize(const GemmArguments& g) {
    workspace.resize(Gemm::workspace_size(g));
    const auto status = gemm.initialize(g, workspace.data(), workspace.size());
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.message.c_str());
  }
};

void report(const char* what, double flop, double seconds, const Settings& s) {
  std::printf("%-34s %9.3f ms %7.1f GFLOP/s %5.1f %% of peak", what, seconds * 1e3,
              flop / seconds * 1e-9, 100 * flop / seconds / s.peak);
}

using Peers = std::vector<std::unique_ptr<benchmarks::BlasPeer>>;

template <class... Peer>
Peers installed(const Settings& s) {
  Peers peers;
  (peers.push_back(std::make_unique<Peer>()), ...);
  std::erase_if(peers, [](const auto& peer) { return !peer->found(); });
  for (const auto& peer : peers) peer->set_threads(s.threads);
  return peers;
}

void bench_dense(std::int64_t m, std::int64_t n, std::int64_t k, const Peers& peers,
                 const Settings& s) {
  const std::string name =
      "gemm " + std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k);
  if (!is_wanted(name)) return;
  Product p(m, n, k);
  p.initialize(p.arguments());
  std::vector<std::function<void()>> contenders{[&] { p.gemm.run(); }};
  for (const auto& peer : peers) {
    contenders.push_back([&] { peer->sgemm_nt(m, n, k, p.a.data(), p.b.data(), p.d.data()); });
  }
  const auto seconds = benchmarks::best_seconds(contenders, s.rounds, s.clock);
  report(name.c_str(), 2.0 * static_cast<double>(m * n * k), seconds[0], s);
  for (std::size_t i = 0; i < peers.size(); ++i)
    std::printf(", %.3f x %s", seconds[1 + i] / seconds[0], peers[i]->name());
  std::printf("\n");
}

// 27 groups of 1k to 40k rows against one product of as many rows.
void bench_grouped(std::int64_t channels, const Settings& s) {
  const std::string name = "grouped 27 x [1k..40k], C = " + std::to_string(channels);
  if (!is_wanted(name)) return;
  std::vector<Product> products;
  std::int64_t rows = 0;
  for (std::int64_t tap = 0; tap < 27; ++tap) {
    const std::int64_t m = 1000 + 1500 * (tap * 10 % 27);
    rows += m;
    products.emplace_back(m, channels, channels);
  }
  std::vector<GemmArguments> groups;
  for (auto& p : products) groups.push_back(p.arguments());
  std::vector<std::uint8_t> workspace(gemm_core::GroupedGemm::workspace_size(groups));
  gemm_core::GroupedGemm grouped;
  grouped.initialize(groups, workspace.data(), workspace.size());
  Product one(rows, channels, channels);
  one.initialize(one.arguments());
  const auto seconds = benchmarks::best_seconds({[&] { grouped.run(); }, [&] { one.gemm.run(); }},
                                                s.rounds, s.clock);
  report(name.c_str(), 2.0 * static_cast<double>(rows * channels * channels), seconds[0], s);
  std::printf(", %.3f x one product\n", seconds[1] / seconds[0]);
}

// With a residual, whose bytes are read beside everything that the plain product reads and writes,
// or without.
void bench_fused(std::int64_t k, bool adds, const Settings& s) {
  const std::string name = std::string(adds ? "scale, shift, add, relu" : "scale, shift, relu") +
                           ", K = " + std::to_string(k);
  if (!is_wanted(name)) return;
  Product plain(50000, 128, k), fused(50000, 128, k);
  const auto scale = random_values(128), residual = random_values(50000 * 128);
  GemmArguments g = fused.arguments();
  g.epilogue.scale_shift(scale.data(), scale.data());
  if (adds) g.epilogue.add({residual.data(), DType::f32, {}, {50000, 128}, {128, 1}});
  g.epilogue.activate(gemm_core::Activation::relu);
  plain.initialize(plain.arguments());
  fused.initialize(g);
  const auto seconds = benchmarks::best_seconds(
      {[&] { fused.gemm.run(); }, [&] { plain.gemm.run(); }}, s.rounds, s.clock);
  report(name.c_str(), 2.0 * 50000 * 128 * static_cast<double>(k), seconds[0], s);
  std::printf(", %.3f x the plain product's time\n", seconds[0] / seconds[1]);
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  Settings s = benchmarks::settings_of(argc, argv);
  if (argc > 4) wanted = argv[4];
  s.peak = gemm_core::measure_fma_peak(s.threads);
  std::printf("%s, %d threads: peak %.1f GFLOP/s\n", gemm_core::cpu_instruction_set(), s.threads,
              s.peak * 1e-9);
  const Peers peers = installed<benchmarks::OpenBlas, benchmarks::Blis, benchmarks::OneDnnSgemm>(s);
  base::Threads(s.threads).run([&] {
    bench_dense(2048, 2048, 2048, peers, s);
    for (const std::int64_t c : {64, 96, 128}) bench_dense(100000, c, 27 * c, peers, s);
    bench_dense(100000, 256, 256, peers, s);
    for (const std::int64_t c : {64, 128, 256}) bench_grouped(c, s);
    for (const bool adds : {false, true}) {
      for (const std::int64_t k : {64, 256, 1024}) bench_fused(k, adds, s);
    }
  });
  return 0;
}
