#include <fmt/format.h>

#include <optional>

#include "apps/bench/gemm_contender.hpp"
#include "apps/bench/gemm_settings.hpp"
#include "apps/messages.hpp"
#include "gemm_core/base/parallel.hpp"

namespace apps {
namespace {

using gemm_core::GemmArguments;
using gemm_core::GemmConfig;

void print_config(const GemmTask& task, const std::string& config, const std::string& what) {
  print_text(fmt::format("{} {} {}\n", task.name(), config, what));
}

std::string estimated(double ms) { return fmt::format("{:.3f} ms estimated", ms); }
std::string prepared(double ms, std::size_t workspace_bytes) {
  return fmt::format("{}, {} bytes of workspace", estimated(ms), workspace_bytes);
}

// Without a clock: names, or everything but the run, or one run.
void visit_on_device(const SweepSettings& s, const GemmTask& task) {
  GemmInputs inputs(task, 1, 7);
  DeviceGemm device(s.bench.place(), inputs, false);
  for (const DeviceGemmConfig& config : device_configs(s, task, device)) {
    if (s.mode == GemmMode::list) {
      print_config(task, config.name, estimated(config.estimate_ms));
    } else if (s.mode == GemmMode::dry_run) {
      print_config(task, config.name, prepared(config.estimate_ms, device.prepare(config.name)));
    } else {
      device.compute(config.name);
      print_config(task, config.name, "ran once");
    }
  }
}

// A problem of the task's extents and few bytes, for the model.
GemmArguments shape_of(const GemmTask& task) {
  GemmTask shape = task;
  shape.m = shape.n = shape.k = shape.groups = 1;
  GemmArguments problem = GemmInputs(shape, 1, 7).arguments(0)[0];
  problem.m = task.m, problem.n = task.n, problem.k = task.k;
  return problem;
}

}  // namespace

void visit_configs(const SweepSettings& s, const GemmTask& task) {
  if (!s.bench.place().is_cpu()) return visit_on_device(s, task);
  const GemmArguments problem = shape_of(task);
  const std::vector<GemmConfig> configs = configs_of(s, task, problem);
  std::optional<GemmInputs> inputs;
  if (s.mode != GemmMode::list) inputs.emplace(task, 1, 7);
  for (const GemmConfig& config : configs) {
    const double estimate =
        gemm_core::estimate_ns(config, problem) * 1e-6 * static_cast<double>(task.groups);
    if (s.mode == GemmMode::list) {
      print_config(task, config.name, estimated(estimate));
      continue;
    }
    GemmContender contender(config, *inputs);
    if (s.mode == GemmMode::dry_run) {
      print_config(task, config.name, prepared(estimate, contender.workspace_bytes()));
      continue;
    }
    base::Threads(s.bench.threads.front()).run([&] { contender.run(0); });
    print_config(task, config.name, "ran once");
  }
}

}  // namespace apps
