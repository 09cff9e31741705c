#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/bench/bench.hpp"
#include "apps/bench/gemm_device.hpp"
#include "apps/bench/gemm_sweep.hpp"
#include "apps/bench/result_files.hpp"
#include "apps/commands.hpp"
#include "apps/messages.hpp"
#include "apps/values.hpp"
#include "benchmarks/peers/blas.hpp"
#include "gemm_core/base/parallel.hpp"

namespace apps {
namespace {

using gemm_core::GemmArguments;
using gemm_core::GemmConfig;
using gemm_core::TuningTable;

struct SweepSettings {
  BenchSettings bench;
  std::vector<std::string>
      filters;  // a configuration's name holds one of them; empty: the selected one only
  bool all = false, peers = false, verify = true, list = false, cold = false;
  int workspaces = 1;
  TuningTable tuning;       // read from --tuning
  TuningTable best;         // for --tune
  std::string failures_to;  // stem of saved inputs
};

SweepSettings sweep_settings(const Arguments& arguments, const std::vector<GemmTask>& tasks) {
  SweepSettings s;
  s.bench = bench_settings(arguments, {tasks.front().type});
  s.filters = split_list(arguments.text("config"));
  s.all = arguments.has("all-configs") || !s.filters.empty() || arguments.has("tune");
  s.peers = arguments.has("peers");
  s.verify = !arguments.has("no-verify");
  s.list = arguments.has("list");
  s.cold = arguments.has("cold-l2");
  ENSURE_USAGE(!s.cold || !s.bench.place().is_cpu(), "--cold-l2: for a GPU");
  s.workspaces = static_cast<int>(integer_option(arguments, "workspaces", 1, 1, 64));
  s.failures_to = arguments.text("save-failures");
  if (arguments.has("tuning")) s.tuning = TuningTable::read(arguments.text("tuning"));
  return s;
}

bool is_wanted(const SweepSettings& s, const std::string& name) {
  return s.filters.empty() ||
         std::any_of(s.filters.begin(), s.filters.end(),
                     [&](const auto& filter) { return name.find(filter) != std::string::npos; });
}

std::vector<GemmConfig> configs_of(const SweepSettings& s, const GemmArguments& problem) {
  if (!s.all) return {s.tuning.select(problem)};
  std::vector<GemmConfig> chosen;
  for (GemmConfig& config : gemm_core::gemm_configs(problem)) {
    if (is_wanted(s, config.name)) chosen.push_back(std::move(config));
  }
  return chosen;
}

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

// One configuration of a task, ready to run on each workspace in turn.
class Contender {
 public:
  Contender(const GemmConfig& config, GemmInputs& inputs) {
    for (int i = 0; i < inputs.workspaces(); ++i) {
      std::vector<GemmArguments> groups = inputs.arguments(i);
      for (GemmArguments& g : groups) gemm_core::apply(config, g);
      const bool one = groups.size() == 1;
      workspace_.resize(
          std::max(workspace_.size(), one ? gemm_core::Gemm::workspace_size(groups[0])
                                          : gemm_core::GroupedGemm::workspace_size(groups)));
      problems_.push_back(std::move(groups));
    }
    for (const auto& groups : problems_) {
      if (groups.size() == 1) {
        check(single_.emplace_back().initialize(groups[0], workspace_.data(), workspace_.size()));
      } else {
        check(grouped_.emplace_back().initialize(groups, workspace_.data(), workspace_.size()));
      }
    }
  }
  void run(std::size_t which) {
    check(single_.empty() ? grouped_[which].run() : single_[which].run());
  }
  void run_next() { run(next_++ % problems_.size()); }

 private:
  static void check(const gemm_core::GemmStatus& status) { ENSURE(status.ok(), status.message); }
  std::vector<std::vector<GemmArguments>> problems_;
  std::vector<std::uint8_t> workspace_;
  std::vector<gemm_core::Gemm> single_;
  std::vector<gemm_core::GroupedGemm> grouped_;
  std::size_t next_ = 0;
};

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
    const std::vector<GemmConfig> configs = configs_of(s_, problem);
    ENSURE_USAGE(!configs.empty(), "--config: no configuration of ", task_.name(),
                 " has such a name");
    std::vector<std::unique_ptr<Contender>> contenders;
    std::vector<double> errors;
    std::vector<std::function<double()>> work;
    for (const GemmConfig& config : configs) {
      contenders.push_back(std::make_unique<Contender>(config, inputs_));
      errors.push_back(s_.verify ? verify(*contenders.back(), pool) : 0);
      Contender* contender = contenders.back().get();
      work.push_back([this, contender, &pool] {
        return seconds_of([&] { pool.run([&] { contender->run_next(); }); }, s_.bench.clock);
      });
    }
    const benchmarks::OpenBlas blas;
    std::vector<float> theirs;
    if (s_.peers) work.push_back(peer(blas, threads, theirs));
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
  double verify(Contender& contender, const base::Threads& pool) {
    pool.run([&] { contender.run(0); });
    const double error = inputs_.worst_error();
    if (error > 1 && !s_.failures_to.empty()) inputs_.save(s_.failures_to + task_.name());
    return error;
  }

  std::function<double()> peer(const benchmarks::OpenBlas& blas, int threads,
                               std::vector<float>& theirs) {
    ENSURE(blas.found(), "--peers: OpenBLAS (libopenblas.so.0) is not installed");
    ENSURE_USAGE(task_.type == "fp32" && (task_.layout == "nt" || task_.layout == "nn"),
                 "--peers: OpenBLAS is timed for fp32, layouts nt and nn");
    blas.set_threads(threads);
    theirs.resize(static_cast<std::size_t>(task_.m * task_.n));
    return [this, &blas, &theirs] {
      const auto groups = inputs_.arguments(0);
      return seconds_of(
          [&] {
            for (const auto& g : groups) {
              const auto* a = static_cast<const float*>(g.a.data);
              const auto* b = static_cast<const float*>(g.b.data);
              if (task_.layout == "nt")
                blas.sgemm_nt(task_.m, task_.n, task_.k, a, b, theirs.data());
              else
                blas.sgemm_nn(task_.m, task_.n, task_.k, a, b, theirs.data());
            }
          },
          s_.bench.clock);
    };
  }

  void add(const GemmConfig& config, const GemmArguments& problem, int threads, const Times& times,
           double error, double peer_ms) {
    const double estimate =
        gemm_core::estimate_ns(config, problem) * 1e-6 * static_cast<double>(task_.groups);
    BenchResult r = result_of(task_, s_.all ? "gemm " + config.name : "gemm", threads, times);
    r.more["config"] = config.name;
    r.more["estimate_ms"] = estimate;
    if (s_.verify) r.more["error"] = error;
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

// A task on a GPU: the kernels that take it, in turn, and cuBLAS.
void bench_on_device(SweepSettings& s, const GemmTask& task, BenchReport& report,
                     std::vector<TimedCase>& cases) {
  GemmInputs inputs(task, s.workspaces, 7);
  DeviceGemm device(s.bench.place(), inputs, s.cold);
  std::vector<DeviceGemmConfig> configs = device.configs();
  const std::string selected = device.selected(s.tuning);
  std::erase_if(configs, [&](const DeviceGemmConfig& c) {
    return s.all ? !is_wanted(s, c.name) : c.name != selected;
  });
  ENSURE_USAGE(!configs.empty(), "--config: no kernel that takes ", task.name(),
               " has such a name");
  std::vector<double> errors;
  std::vector<std::function<double()>> work;
  for (const DeviceGemmConfig& config : configs) {
    errors.push_back(s.verify ? inputs.worst_error(device.compute(config.name)) : 0);
    if (errors.back() > 1 && !s.failures_to.empty()) inputs.save(s.failures_to + task.name());
    work.push_back(device.contender(config.name));
  }
  const bool has_peer = s.peers;
  if (has_peer) {
    work.push_back(device.peer());
    ENSURE(work.back() != nullptr,
           "--peers: cuBLAS (libcublas.so, libcublasLt.so) is missing, or "
           "does not take ",
           task.name());
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
    if (s.verify) r.more["error"] = errors[i];
    if (has_peer) r.more["speed_over_cublas"] = times.back().median_ms / times[i].median_ms;
    report.add(r);
    cases.push_back(case_of(task, config, times[i], configs[i].estimate_ms, s.verify, errors[i]));
    if (times[i].median_ms < times[best].median_ms) best = i;
  }
  if (has_peer) report.add(result_of(task, "cuBLAS", 1, times.back()));
  s.best.set(device.tuning_key(), configs[best].name);
}

void list_device_configs(const SweepSettings& s, const GemmTask& task) {
  GemmInputs inputs(task, 1, 7);
  for (const DeviceGemmConfig& config : DeviceGemm(s.bench.place(), inputs, false).configs()) {
    if (is_wanted(s, config.name))
      print_text(
          fmt::format("{} {} {:.3f} ms estimated\n", task.name(), config.name, config.estimate_ms));
  }
}

int list_configs(const SweepSettings& s, const std::vector<GemmTask>& tasks) {
  for (const GemmTask& task : tasks) {
    if (!s.bench.place().is_cpu()) {
      list_device_configs(s, task);
      continue;
    }
    GemmTask shape = task;
    shape.m = shape.n = shape.k = shape.groups = 1;
    GemmInputs inputs(shape, 1, 7);
    GemmArguments problem = inputs.arguments(0)[0];
    problem.m = task.m, problem.n = task.n, problem.k = task.k;
    for (const GemmConfig& config : configs_of(s, problem)) {
      print_text(fmt::format(
          "{} {} {:.3f} ms estimated\n", task.name(), config.name,
          gemm_core::estimate_ns(config, problem) * 1e-6 * static_cast<double>(task.groups)));
    }
  }
  return kDone;
}

int bench_gemm(const Arguments& arguments) {
  const std::vector<GemmTask> tasks = gemm_tasks(arguments);
  SweepSettings settings = sweep_settings(arguments, tasks);
  if (settings.list) return list_configs(settings, tasks);
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
  ENSURE(wrong == 0, "bench gemm: ", wrong, " of ", cases.size(),
         " results differ from the naive ones");
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
      "time the configurations whose name holds one of these words");
  add("list", "name the configurations and what the model makes of them, and time nothing");
  add("no-verify", "do not compare with the naive result");
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
