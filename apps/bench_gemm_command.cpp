#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/bench/gemm_contender.hpp"
#include "apps/bench/gemm_settings.hpp"
#include "apps/bench/result_files.hpp"
#include "apps/commands.hpp"
#include "benchmarks/peers/blas.hpp"
#include "gemm_core/base/parallel.hpp"

namespace apps {
namespace {

using gemm_core::GemmArguments;
using gemm_core::GemmConfig;

BenchResult result_of(const GemmTask& task, const std::string& name, int threads,
                      const Times& times) {
  BenchResult r{.name = name,
                .dtype = task.type,
                .threads = threads,
                .cin = task.k,
                .cout = task.n,
                .times = times,
                .flop = task.flop(),
                .bytes = task.bytes()};
  r.more = {{"m", task.m},
            {"n", task.n},
            {"k", task.k},
            {"groups", task.groups},
            {"layout", task.layout}};
  return r;
}

TimedCase case_of(const GemmTask& task, const std::string& config, const Times& times,
                  double estimate_ms, bool verified, double error) {
  TimedCase c{.name = task.name(),
              .config = config,
              .median_ms = times.median_ms,
              .min_ms = times.min_ms,
              .gflops = task.flop() / times.median_ms * 1e-6,
              .estimate_ms = estimate_ms,
              .verified = verified,
              .error = error};
  if (error > 1) c.failure = fmt::format("error {:.3g} times its bound", error);
  return c;
}

void add_error(const SweepSettings& s, double error, BenchResult& r) {
  if (!s.verify) return;
  r.more["error"] = error;
  r.more["reference"] = s.against_peer ? "peer" : "host";
  if (!s.tolerance.epsilon) return;
  r.more["epsilon"] = *s.tolerance.epsilon;
  r.more["nonzero_floor"] = s.tolerance.nonzero_floor;
}

class TaskBench {
 public:
  TaskBench(SweepSettings& settings, const GemmTask& task, BenchReport& report,
            std::vector<TimedCase>& cases)
      : s_(settings),
        task_(task),
        report_(report),
        cases_(cases),
        inputs_(task, settings.workspaces, 7) {}

  void run(int threads) {
    const base::Threads pool(threads);
    const GemmArguments problem = inputs_.arguments(0)[0];
    const std::vector<GemmConfig> configs = configs_of(s_, task_, problem);
    const benchmarks::OpenBlas blas;
    std::vector<float> theirs;
    if (s_.peers || s_.against_peer) prepare_peer(blas, threads, theirs);
    if (s_.against_peer) run_peer(blas, theirs);
    std::vector<std::unique_ptr<GemmContender>> contenders;
    std::vector<double> errors;
    std::vector<std::function<double()>> work;
    for (const GemmConfig& config : configs) {
      contenders.push_back(std::make_unique<GemmContender>(config, inputs_));
      errors.push_back(s_.verify ? verify(*contenders.back(), pool, theirs) : 0);
      GemmContender* contender = contenders.back().get();
      work.push_back([this, contender, &pool] {
        return seconds_of([&] { pool.run([&] { contender->run_next(); }); }, s_.bench.clock);
      });
    }
    if (s_.peers)
      work.push_back([&] { return seconds_of([&] { run_peer(blas, theirs); }, s_.bench.clock); });
    const std::vector<Times> times = time_in_turn(work, s_.bench.rounds);
    const double peer_ms = s_.peers ? times.back().min_ms : 0;
    for (std::size_t i = 0; i < configs.size(); ++i)
      add(configs[i], problem, threads, times[i], errors[i], peer_ms);
    if (s_.peers) report_.add(result_of(task_, "OpenBLAS sgemm", threads, times.back()));
    const auto best =
        std::min_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(configs.size()),
                         [](const Times& x, const Times& y) { return x.min_ms < y.min_ms; });
    s_.best.set(problem, configs[static_cast<std::size_t>(best - times.begin())].name);
  }

 private:
  double verify(GemmContender& contender, const base::Threads& pool,
                const std::vector<float>& theirs) {
    pool.run([&] { contender.run(0); });
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(theirs.data());
    const double error = inputs_.worst_error(
        s_.tolerance, {}, {bytes, s_.against_peer ? theirs.size() * sizeof(float) : 0});
    if (error > 1 && !s_.failures_to.empty()) inputs_.save(s_.failures_to + task_.name());
    return error;
  }

  void prepare_peer(const benchmarks::OpenBlas& blas, int threads, std::vector<float>& theirs) {
    const char* option = s_.peers ? "--peers" : "--reference peer";
    ENSURE(blas.found(), option, ": OpenBLAS (libopenblas.so.0) is not installed");
    ENSURE_USAGE(task_.type == "fp32" && (task_.layout == "nt" || task_.layout == "nn"), option,
                 ": OpenBLAS is run for fp32, layouts nt and nn");
    blas.set_threads(threads);
    theirs.resize(static_cast<std::size_t>(task_.groups * task_.m * task_.n));
  }

  void run_peer(const benchmarks::OpenBlas& blas, std::vector<float>& theirs) {
    float* d = theirs.data();
    for (const GemmArguments& g : inputs_.arguments(0)) {
      const auto* a = static_cast<const float*>(g.a.data);
      const auto* b = static_cast<const float*>(g.b.data);
      if (task_.layout == "nt")
        blas.sgemm_nt(task_.m, task_.n, task_.k, a, b, d);
      else
        blas.sgemm_nn(task_.m, task_.n, task_.k, a, b, d);
      d += task_.m * task_.n;
    }
  }

  void add(const GemmConfig& config, const GemmArguments& problem, int threads, const Times& times,
           double error, double peer_ms) {
    const double estimate =
        gemm_core::estimate_ns(config, problem) * 1e-6 * static_cast<double>(task_.groups);
    BenchResult r = result_of(task_, s_.all ? "gemm " + config.name : "gemm", threads, times);
    r.more["config"] = config.name;
    r.more["estimate_ms"] = estimate;
    add_error(s_, error, r);
    if (s_.peers) r.more["speed_over_openblas"] = peer_ms / times.min_ms;
    report_.add(r);
    cases_.push_back(case_of(task_, config.name, times, estimate, s_.verify, error));
  }

  SweepSettings& s_;
  GemmTask task_;
  BenchReport& report_;
  std::vector<TimedCase>& cases_;
  GemmInputs inputs_;
};

std::string no_cublas(const GemmTask& task) {
  return "cuBLAS (libcublas.so, libcublasLt.so) is missing, or does not take " + task.name();
}

// A task on a GPU: the kernels that take it, in turn, and cuBLAS.
void bench_on_device(SweepSettings& s, const GemmTask& task, BenchReport& report,
                     std::vector<TimedCase>& cases) {
  GemmInputs inputs(task, s.workspaces, 7);
  DeviceGemm device(s.bench.place(), inputs, s.cold);
  const std::vector<DeviceGemmConfig> configs = device_configs(s, task, device);
  std::vector<double> errors;
  std::vector<std::function<double()>> work;
  std::vector<std::uint8_t> theirs;
  if (s.against_peer) {
    theirs = device.peer_result();
    ENSURE(!theirs.empty(), "--reference peer: ", no_cublas(task));
  }
  for (const DeviceGemmConfig& config : configs) {
    errors.push_back(s.verify ? inputs.worst_error(s.tolerance, device.compute(config.name), theirs)
                              : 0);
    if (errors.back() > 1 && !s.failures_to.empty()) inputs.save(s.failures_to + task.name());
    work.push_back(device.contender(config.name));
  }
  const bool has_peer = s.peers;
  if (has_peer) {
    work.push_back(device.peer());
    ENSURE(work.back() != nullptr, "--peers: ", no_cublas(task));
  }
  const int before = device.clock_mhz();
  const std::vector<Times> times = time_in_turn(work, s.bench.rounds);
  const int after = device.clock_mhz();
  std::size_t best = 0;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const std::string& config = configs[i].name;
    BenchResult r = result_of(task, s.all ? "gemm " + config : "gemm", 1, times[i]);
    r.more["config"] = config;
    r.more["estimate_ms"] = configs[i].estimate_ms;
    r.more["cold_l2"] = s.cold;
    r.more["sm_mhz"] = {before, after};
    add_error(s, errors[i], r);
    if (has_peer) r.more["speed_over_cublas"] = times.back().median_ms / times[i].median_ms;
    report.add(r);
    cases.push_back(case_of(task, config, times[i], configs[i].estimate_ms, s.verify, errors[i]));
    if (times[i].median_ms < times[best].median_ms) best = i;
  }
  if (has_peer) report.add(result_of(task, "cuBLAS", 1, times.back()));
  s.best.set(device.tuning_key(), configs[best].name);
}

int bench_gemm(const Arguments& arguments) {
  const std::vector<GemmTask> tasks = gemm_tasks(arguments);
  SweepSettings settings = sweep_settings(arguments, tasks);
  if (settings.mode != GemmMode::profile) {
    for (const GemmTask& task : tasks) visit_configs(settings, task);
    return kDone;
  }
  BenchReport report(settings.bench);
  std::vector<TimedCase> cases;
  for (const GemmTask& task : tasks) {
    if (!settings.bench.place().is_cpu()) {
      bench_on_device(settings, task, report, cases);
      continue;
    }
    TaskBench bench(settings, task, report, cases);
    for (const int threads : settings.bench.threads) bench.run(threads);
  }
  if (arguments.has("csv")) write_csv(arguments.text("csv"), cases);
  if (arguments.has("junit")) write_junit(arguments.text("junit"), "bench gemm", cases);
  if (arguments.has("tune")) settings.best.write(arguments.text("tune"));
  const int closed = report.close();
  const auto wrong = std::count_if(cases.begin(), cases.end(),
                                   [](const TimedCase& c) { return !c.failure.empty(); });
  ENSURE(wrong == 0, "bench gemm: ", wrong, " of ", cases.size(), " results differ from ",
         settings.against_peer ? "the peer's" : "the naive ones");
  return closed;
}

}  // namespace

Command bench_gemm_command() {
  Command command{
      .name = "bench gemm",
      .summary = "time D[m,n] = A[m,k] B[k,n] over shapes, types and configurations, verified",
      .usage = "[--m M] [--n N] [--k K] [options]",
      .examples =
          "  sparseconv bench gemm --m 100000 --n 64 --k 1728 --peers\n"
          "  sparseconv bench gemm --m 2000 --n 128 --k 128 --groups 27 --json\n"
          "  sparseconv bench gemm --m 256:1024:256 --n 512 --k 512 --dtype fp32,bf16,int8 "
          "--all-configs --csv a.csv\n"
          "  sparseconv bench gemm --m 4096 --n 64 --k 576 --tune cpu.tuning\n"
          "  sparseconv bench gemm --m 8192 --n 8192 --k 8192 --dtype fp16 --device cuda --peers"};
  auto add = command.options.add_options();
  add("m", value<std::string>(), "rows of a group: a number, a list, or LOW:HIGH:STEP (100000)");
  add("n", value<std::string>(), "columns, likewise (64)");
  add("k", value<std::string>(), "inner extent, likewise (1728)");
  add("groups", value<std::string>(), "problems of this shape in one call (1)");
  add("layout", value<std::string>(),
      "nn, nt, tn, tt: n rows one after the other, t turned; a list (nt)");
  add("all-configs", "time every configuration, not only the selected one");
  add("config", value<std::string>(),
      "time the configurations whose name holds one of these words, or looks like one with \"*\" "
      "in "
      "it; \"!\" before it excludes");
  add("list", "name the configurations and what the model makes of them, and time nothing");
  add("dry-run", "make operands, workspaces and operations, and run nothing");
  add("trace", "run every configuration once and nothing else: no reference, no warm-up, no clock");
  add("no-verify", "do not compare with a reference");
  add("reference", value<std::string>(),
      "host: sums in double (the default); peer: the result of OpenBLAS, or of cuBLAS on a GPU");
  add("epsilon", value<std::string>(),
      "a result may be this times max(|reference|, floor) off, instead of what its roundings "
      "allow");
  add("nonzero-floor", value<std::string>(), "that floor (0.00390625)");
  add("save-failures", value<std::string>(), "stem of files for the operands of wrong results");
  add("workspaces", value<std::string>(), "sets of operands that runs alternate between (1)");
  add("csv", value<std::string>(), "also write a CSV file");
  add("junit", value<std::string>(), "also write a JUnit file");
  add("tune", value<std::string>(),
      "time every configuration and write the fastest of each problem to this file");
  add("tuning", value<std::string>(), "select by the table in this file");
  add("peers", "also OpenBLAS, or cuBLAS on a GPU, in turn with ours");
  add("accumulation", value<std::string>(),
      "of 8-bit floats: blocked, promoted or fast: how many products one chain takes (blocked)");
  add("cold-l2", "on a GPU: replace what L2 holds before every launch");
  add_bench_options(command);
  command.max_inputs = 0;
  command.run = bench_gemm;
  return command;
}

}  // namespace apps
