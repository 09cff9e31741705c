#include "apps/bench/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>

#include "apps/bench/commit.hpp"
#include "apps/messages.hpp"
#include "apps/values.hpp"
#include "gemm_core/base/parallel.hpp"
#include "gemm_core/device/machine.hpp"
#include "sparseconv/device_timing.hpp"

namespace apps {
namespace {

std::string processor_name() {
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

std::string now_utc() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::string cell(const Json& value, const char* format) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return value.dump();
  return fmt::format(fmt::runtime(format), value.get<double>());
}

constexpr const char* kRow =
    "{:<34} {:<9} {:>7} {:>9} {:>9} {:<8} {:>10} {:>10} {:>9} {:>8} {:>8}\n";

std::string heading() {
  return fmt::format(kRow, "name", "dtype", "threads", "voxels", "cin:cout", "kernel", "median ms",
                     "min ms", "GFLOP/s", "GB/s", "of floor");
}

std::string row(const Json& result) {
  const Json& cin = result["cin"];
  const std::string channels = cin.is_null() ? "-" : cin.dump() + ':' + result["cout"].dump();
  const Json& tflops = result["tflops"];
  return fmt::format(kRow, result["name"].get<std::string>(), result["dtype"].get<std::string>(),
                     result["threads"].dump(), cell(result["voxels"], ""), channels,
                     cell(result["kernel"], ""), cell(result["time_ms"], "{:.3f}"),
                     cell(result["min_ms"], "{:.3f}"),
                     tflops.is_null() ? "-" : fmt::format("{:.1f}", tflops.get<double>() * 1e3),
                     cell(result["gbps"], "{:.1f}"),
                     result["of_floor"].is_null()
                         ? "-"
                         : fmt::format("{:.0f} %", 100 * result["of_floor"].get<double>()));
}

}  // namespace

void add_bench_options(Command& command) {
  auto add = command.options.add_options();
  add("device", value<std::string>(), "cpu, cuda or cuda:N (cpu)");
  add("dtype", value<std::string>(),
      "fp32, tf32, fp16 or bf16; network on a GPU: fp8, int8 (fp32)");
  add("threads", value<std::string>(), "compute threads; a list is timed in turn: 1,2 (all cores)");
  add("clock", value<std::string>(),
      "wall, or cpu: processor time, for one thread on a machine that others use (wall)");
  add("repeat", value<std::string>(), "timed rounds (15)");
  add("warmup", value<std::string>(), "rounds before them (2)");
  add("json", "one JSON document on stdout");
}

BenchSettings bench_settings(const Arguments& arguments, const std::vector<std::string>& types) {
  BenchSettings settings{.device = arguments.get_or<std::string>("device", "cpu")};
  settings.dtype = types.size() == 1 ? types[0] : choice_option(arguments, "dtype", "fp32", types);
  try {
    base::parse_device(settings.device);
  } catch (const base::Error& error) {
    throw UsageError(std::string("--device: ") + error.what());
  }
  if (types.size() > 1) settings.type = base::parse_dtype(settings.dtype);
  for (const std::int64_t count : parse_integers("threads", arguments.text("threads"))) {
    ENSURE_USAGE(count >= 1 && count <= 1024, "--threads: ", count, " is not in 1..1024");
    settings.threads.push_back(static_cast<int>(count));
  }
  if (!settings.place().is_cpu()) {
    ENSURE_USAGE(settings.threads.empty(), "--threads: a GPU has none to choose");
    settings.threads = {1};
  }
  if (settings.threads.empty()) settings.threads = {base::Threads().count()};
  settings.rounds.repeat = static_cast<int>(integer_option(arguments, "repeat", 15, 1, 1000000));
  settings.rounds.warmup = static_cast<int>(integer_option(arguments, "warmup", 2, 0, 1000000));
  if (choice_option(arguments, "clock", "wall", {"wall", "cpu"}) == "cpu") {
    ENSURE_USAGE(settings.threads == std::vector{1}, "--clock cpu needs --threads 1");
    settings.clock = Clock::processor;
  }
  settings.as_json = arguments.has("json");
  return settings;
}

std::string device_name(const BenchSettings& settings) {
  if (!settings.place().is_cpu())
    return sparseconv::device_limits(settings.place(), settings.type).name;
  return processor_name() + " (" + gemm_core::cpu_instruction_set() + ")";
}

BenchReport::BenchReport(const BenchSettings& settings) : settings_(settings) {
  name_ = device_name(settings_);
  if (!settings_.as_json) print_text(name_ + ", commit " + kCommit + "\n");
  for (const int threads : settings_.threads) {
    const Machine& limits = machine(threads);
    if (settings_.as_json) continue;
    const std::string what = settings_.place().is_cpu()
                                 ? fmt::format("{} thread(s): {:.1f} GFLOP/s of fp32 multiply-adds",
                                               threads, limits.flops * 1e-9)
                                 : fmt::format("{:.0f} TFLOP/s of dense products in {}",
                                               limits.flops * 1e-12, base::name(settings_.type));
    print_text(fmt::format("{}, {:.1f} GB/s of copying\n", what, limits.bytes_per_second * 1e-9));
  }
  if (!settings_.as_json) print_text('\n' + heading());
}

const Machine& BenchReport::machine(int threads) {
  const auto [found, is_new] = machines_.try_emplace(threads);
  if (is_new && !settings_.place().is_cpu()) {
    const auto limits = sparseconv::device_limits(settings_.place(), settings_.type);
    found->second = {limits.flops, limits.bytes_per_second};
  } else if (is_new) {
    found->second = {gemm_core::measure_fma_peak(threads),
                     gemm_core::measure_copy_bandwidth(threads)};
  }
  return found->second;
}

double BenchReport::floor_ms(double flop, double bytes, int threads) {
  const Machine& limits = machine(threads);
  const double of_products = limits.flops > 0 ? flop / limits.flops : 0;
  return 1e3 * std::max(of_products, bytes / limits.bytes_per_second);
}

void BenchReport::add(const BenchResult& result) {
  const double seconds = result.times.median_ms * 1e-3;
  const double floor = floor_ms(result.flop, result.bytes, result.threads);
  const bool has_flop = result.flop > 0, has_bytes = result.bytes > 0;
  Json json{{"name", result.name},
            {"dtype", result.dtype},
            {"threads", result.threads},
            {"voxels", or_null(result.voxels)},
            {"cin", or_null(result.cin)},
            {"cout", or_null(result.cout)},
            {"kernel", or_null(result.kernel)},
            {"time_ms", result.times.median_ms},
            {"min_ms", result.times.min_ms},
            {"gflop", has_flop ? Json(result.flop * 1e-9) : Json(nullptr)},
            {"tflops", has_flop ? Json(result.flop * 1e-12 / seconds) : Json(nullptr)},
            {"gbps", has_bytes ? Json(result.bytes * 1e-9 / seconds) : Json(nullptr)},
            {"floor_ms", has_flop || has_bytes ? Json(floor) : Json(nullptr)},
            {"of_floor", has_flop || has_bytes ? Json(floor / result.times.min_ms) : Json(nullptr)},
            {"of_peak",
             has_flop && machine(result.threads).flops > 0
                 ? Json(result.flop / (result.times.min_ms * 1e-3) / machine(result.threads).flops)
                 : Json(nullptr)}};
  json.update(result.more);
  if (!settings_.as_json) print_text(row(json));
  results_.push_back(std::move(json));
}

int BenchReport::close(const Json& more) {
  if (!settings_.as_json) return kDone;
  Json limits = Json::array();
  for (const auto& [threads, machine] : machines_) {
    limits.push_back({{"threads", threads},
                      {"fma_peak_gflops", machine.flops * 1e-9},
                      {"copy_gbps", machine.bytes_per_second * 1e-9}});
  }
  Json document{{"device", name_},   {"date", now_utc()},
                {"commit", kCommit}, {"clock", settings_.clock == Clock::wall ? "wall" : "cpu"},
                {"machine", limits}, {"results", results_}};
  document.update(more);
  print_json(document);
  return kDone;
}

}  // namespace apps
