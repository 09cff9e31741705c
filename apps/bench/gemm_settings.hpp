// The settings of `bench gemm`, and which configurations of a task they choose.
#pragma once
#include "apps/bench/bench.hpp"
#include "apps/bench/gemm_device.hpp"
#include "apps/bench/gemm_sweep.hpp"

namespace apps {

// profile: verify and time. list: name configurations. dry_run: make operands, workspaces and
// operations. trace: run each configuration once and nothing else.
enum class GemmMode { profile, list, dry_run, trace };

// What a call of `bench gemm` asks for.
struct SweepSettings {
  BenchSettings bench;
  std::vector<std::string>
      filters;  // patterns of names of configurations; empty: the selected one only
  bool all = false, peers = false, verify = true, cold = false;
  GemmMode mode = GemmMode::profile;
  Tolerance tolerance;
  bool against_peer = false;  // verified against the peer's result instead of sums in double
  int workspaces = 1;
  gemm_core::TuningTable tuning;  // read from --tuning
  gemm_core::TuningTable best;    // for --tune
  std::string failures_to;        // stem of saved inputs
};

SweepSettings sweep_settings(const Arguments& arguments, const std::vector<GemmTask>& tasks);

// Those that were asked for, or the selected one; UsageError where none has such a name.
std::vector<gemm_core::GemmConfig> configs_of(const SweepSettings& settings, const GemmTask& task,
                                              const gemm_core::GemmArguments& problem);
std::vector<DeviceGemmConfig> device_configs(const SweepSettings& settings, const GemmTask& task,
                                             const DeviceGemm& device);

// Names a task's configurations, prepares or runs them, as the mode says; without a clock.
void visit_configs(const SweepSettings& settings, const GemmTask& task);

}  // namespace apps
