#include "apps/bench/gemm_settings.hpp"

#include <utility>

#include "apps/values.hpp"

namespace apps {
namespace {

using gemm_core::GemmArguments;
using gemm_core::GemmConfig;
using gemm_core::TuningTable;

GemmMode mode_of(const Arguments& arguments) {
  const std::pair<const char*, GemmMode> modes[] = {
      {"list", GemmMode::list}, {"dry-run", GemmMode::dry_run}, {"trace", GemmMode::trace}};
  GemmMode mode = GemmMode::profile;
  for (const auto& [option, of_option] : modes) {
    if (!arguments.has(option)) continue;
    ENSURE_USAGE(mode == GemmMode::profile, "--", option, ": one of --list, --dry-run and --trace");
    mode = of_option;
  }
  if (mode == GemmMode::profile) return mode;
  for (const char* option : {"csv", "junit", "tune", "save-failures"}) {
    ENSURE_USAGE(!arguments.has(option), "--", option,
                 ": nothing is timed with --list, --dry-run and --trace");
  }
  return mode;
}

}  // namespace

SweepSettings sweep_settings(const Arguments& arguments, const std::vector<GemmTask>& tasks) {
  SweepSettings s;
  s.bench = bench_settings(arguments, {tasks.front().type});
  s.filters = split_list(arguments.text("config"));
  s.all = arguments.has("all-configs") || !s.filters.empty() || arguments.has("tune");
  s.peers = arguments.has("peers");
  s.verify = !arguments.has("no-verify");
  s.mode = mode_of(arguments);
  s.tolerance = gemm_tolerance(arguments);
  s.against_peer = choice_option(arguments, "reference", "host", {"host", "peer"}) == "peer";
  ENSURE_USAGE(s.verify || !(s.against_peer || s.tolerance.epsilon),
               "--no-verify: goes without --reference peer and --epsilon");
  s.cold = arguments.has("cold-l2");
  ENSURE_USAGE(!s.cold || !s.bench.place().is_cpu(), "--cold-l2: for a GPU");
  s.workspaces = static_cast<int>(integer_option(arguments, "workspaces", 1, 1, 64));
  s.failures_to = arguments.text("save-failures");
  if (arguments.has("tuning")) s.tuning = TuningTable::read(arguments.text("tuning"));
  return s;
}

std::vector<GemmConfig> configs_of(const SweepSettings& s, const GemmTask& task,
                                   const GemmArguments& problem) {
  if (!s.all) return {s.tuning.select(problem)};
  std::vector<GemmConfig> chosen;
  for (GemmConfig& config : gemm_core::gemm_configs(problem)) {
    if (has_pattern(config.name, s.filters)) chosen.push_back(std::move(config));
  }
  ENSURE_USAGE(!chosen.empty(), "--config: no configuration of ", task.name(), " has such a name");
  return chosen;
}

std::vector<DeviceGemmConfig> device_configs(const SweepSettings& s, const GemmTask& task,
                                             const DeviceGemm& device) {
  std::vector<DeviceGemmConfig> configs = device.configs();
  const std::string selected = device.selected(s.tuning);
  std::erase_if(configs, [&](const DeviceGemmConfig& c) {
    return s.all ? !has_pattern(c.name, s.filters) : c.name != selected;
  });
  ENSURE_USAGE(!configs.empty(), "--config: no kernel that takes ", task.name(),
               " has such a name");
  return configs;
}

}  // namespace apps
