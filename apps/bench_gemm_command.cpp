#include <fmt/format.h>

#include <random>
#include <type_traits>

#include "apps/bench/bench.hpp"
#include "apps/commands.hpp"
#include "apps/values.hpp"
#include "benchmarks/peers/openblas.hpp"
#include "gemm_core/base/parallel.hpp"
#include "gemm_core/device/gather_conv.hpp"

namespace apps {
namespace {

struct Problem {
  std::int64_t m = 0, n = 0, k = 0, groups = 1;
};

base::Tensor random_matrix(std::int64_t rows, std::int64_t columns) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> spread(-1, 1);
  auto matrix = base::Tensor::empty({rows, columns}, base::DType::f32);
  for (std::int64_t i = 0; i < matrix.numel(); ++i) matrix.data<float>()[i] = spread(random);
  return matrix;
}

BenchResult result_of(const Problem& p, const BenchSettings& settings, const std::string& name,
                      int threads, const Times& times, base::DType storage) {
  const auto groups = static_cast<double>(p.groups);
  BenchResult result{.name = name,
                     .dtype = std::string(base::name(settings.type)),
                     .threads = threads,
                     .cin = p.k,
                     .cout = p.n,
                     .times = times,
                     .flop = 2.0 * groups * static_cast<double>(p.m) * static_cast<double>(p.n) *
                             static_cast<double>(p.k),
                     .bytes = groups * static_cast<double>(base::bytes(
                                           storage, p.m * p.k + p.n * p.k + p.m * p.n))};
  result.more = {{"m", p.m}, {"n", p.n}, {"k", p.k}, {"groups", p.groups}};
  return result;
}

// Operands of all groups, one after the other.
struct Operands {
  Operands(const Problem& p, base::DType compute)
      : storage(compute == base::DType::tf32 ? base::DType::f32 : compute),
        a(random_matrix(p.groups * p.m, p.k)),
        b(random_matrix(p.groups * p.n, p.k)),
        typed_a(a.to(storage)),
        d(base::Tensor::empty({p.groups * p.m, p.n}, storage)) {
    for (std::int64_t g = 0; g < p.groups; ++g) {
      weights.push_back(gemm_core::pack_conv_weights({.weight = b.data<float>() + g * p.n * p.k,
                                                      .cout = p.n,
                                                      .cin = p.k,
                                                      .compute = compute}));
    }
  }

  base::DType storage;
  base::Tensor a, b, typed_a, d;
  std::vector<gemm_core::PackedConvWeights> weights;
};

// Rows [g*m, (g+1)*m) of a matrix of all groups.
template <class View>
View rows_of_group(View view, std::int64_t group, std::int64_t m) {
  using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(view.data)>>,
                                  const char, char>;
  view.data = static_cast<Byte*>(view.data) + base::bytes(view.dtype, group * m * view.stride[0]);
  view.shape[0] = m;
  return view;
}

void multiply(const Problem& p, Operands& x) {
  for (std::int64_t g = 0; g < p.groups; ++g) {
    gemm_core::gather_conv({.input = rows_of_group(std::as_const(x.typed_a).view(), g, p.m),
                            .rows = p.m,
                            .weights = &x.weights[static_cast<std::size_t>(g)],
                            .output = rows_of_group(x.d.view(), g, p.m)});
  }
}

void bench_threads(BenchReport& report, const BenchSettings& settings, const Problem& p,
                   Operands& x, int threads, bool peers) {
  const base::Threads pool(threads);
  std::vector<std::function<double()>> contenders{
      [&] { return seconds_of([&] { pool.run([&] { multiply(p, x); }); }, settings.clock); }};
  const benchmarks::OpenBlas blas;
  base::Tensor theirs = base::Tensor::empty({p.m, p.n}, base::DType::f32);
  if (peers) {
    ENSURE(blas.found(), "--peers: OpenBLAS (libopenblas.so.0) is not installed");
    blas.set_threads(threads);
    contenders.push_back([&] {
      return seconds_of(
          [&] {
            for (std::int64_t g = 0; g < p.groups; ++g) {
              blas.sgemm_nt(p.m, p.n, p.k, x.a.data<float>() + g * p.m * p.k,
                            x.b.data<float>() + g * p.n * p.k, theirs.data<float>());
            }
          },
          settings.clock);
    });
  }
  const std::vector<Times> times = time_in_turn(contenders, settings.rounds);
  BenchResult ours = result_of(p, settings, "gemm", threads, times[0], x.storage);
  if (peers) ours.more["speed_over_openblas"] = times[1].min_ms / times[0].min_ms;
  report.add(ours);
  if (!peers) return;
  BenchResult peer = result_of(p, settings, "OpenBLAS sgemm", threads, times[1], base::DType::f32);
  peer.dtype = "float32";
  report.add(peer);
}

int bench_gemm(const Arguments& arguments) {
  const BenchSettings settings = bench_settings(arguments);
  ENSURE_USAGE(base::parse_device(settings.device).is_cpu(),
               "--device: this product is timed on the CPU");
  const Problem problem{.m = integer_option(arguments, "m", 100000, 1, 1 << 30),
                        .n = integer_option(arguments, "n", 64, 1, 1 << 20),
                        .k = integer_option(arguments, "k", 27 * 64, 1, 1 << 20),
                        .groups = integer_option(arguments, "groups", 1, 1, 1 << 20)};
  BenchReport report(settings);
  Operands operands(problem, settings.type);
  for (const int threads : settings.threads) {
    bench_threads(report, settings, problem, operands, threads, arguments.has("peers"));
  }
  return report.close();
}

}  // namespace

Command bench_gemm_command() {
  Command command{
      .name = "bench gemm",
      .summary = "time D[m,n] = A[m,k] B[n,k]^T against the machine's limits and OpenBLAS",
      .usage = "[--m M] [--n N] [--k K] [options]",
      .examples =
          "  sparseconv bench gemm --m 100000 --n 64 --k 1728 --peers\n"
          "  sparseconv bench gemm --m 2000 --n 128 --k 128 --groups 27 --json"};
  auto add = command.options.add_options();
  add("m", value<std::string>(), "rows of a group (100000)");
  add("n", value<std::string>(), "columns (64)");
  add("k", value<std::string>(), "inner extent (1728)");
  add("groups", value<std::string>(), "problems of this shape, one after the other (1)");
  add("peers", "also OpenBLAS, in turn with ours");
  add_bench_options(command);
  command.max_inputs = 0;
  command.run = bench_gemm;
  return command;
}

}  // namespace apps
