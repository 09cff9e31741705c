#include <algorithm>

#include "apps/bench/bench.hpp"
#include "apps/bench/work.hpp"
#include "apps/commands.hpp"
#include "apps/run/memory.hpp"
#include "apps/values.hpp"
#include "io/io.h"
#include "sparseconv/engine.hpp"

namespace apps {
namespace {

using sparseconv::Engine, sparseconv::Model, sparseconv::SparseTensor;

Model model_of(const Arguments& arguments, const FrameOptions& frame) {
  const bool has_file = arguments.has("model");
  ENSURE_USAGE(!(has_file && arguments.has("arch")), "--arch and --model exclude each other");
  if (has_file) {
    try {
      return sparseconv::load_model(arguments.text("model"));
    } catch (const std::exception& error) {
      throw FileError(arguments.text("model"), error.what());
    }
  }
  const std::string name = arguments.get_or<std::string>("arch", "minkunet42");
  choice_option(arguments, "arch", name, sparseconv::architecture_names());
  const double width = parse_number("width", arguments.get_or<std::string>("width", "1"));
  ENSURE_USAGE(width > 0 && width <= 64, "--width: ", width, " is not in (0, 64]");
  return sparseconv::build_architecture(
      name, {.width = width, .voxel_size = frame.voxelize.voxel_size[0]});
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

// Engines of one model for several thread counts and the parts of their times.
struct Contender {
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Engine> labeller;  // asked for labels alone
  std::vector<double> maps_ms, network_ms, frame_ms, labels_ms;
  std::vector<Engine::StepTime> steps;  // least of each

  double run(const SparseTensor& input, Clock clock) {
    const double seconds = seconds_of(
        [&] {
          const sparseconv::Result result = engine->run(input);
          maps_ms.push_back(result.timing.maps);
          network_ms.push_back(result.timing.network);
        },
        clock);
    return seconds;
  }
  // From files to labels.
  void run_frame(const std::vector<std::filesystem::path>& files) {
    frame_ms.push_back(1e3 * seconds_of([&] {
                         std::vector<io::Cloud> clouds;
                         std::vector<const io::Cloud*> batch;
                         for (const auto& file : files) clouds.push_back(io::read(file));
                         for (const io::Cloud& cloud : clouds) batch.push_back(&cloud);
                         for (const sparseconv::Result& result : engine->run(batch)) {
                           if (!result.classes.empty()) result.labels();
                         }
                       }));
  }
  // From points in memory to labels in memory.
  void run_points(const std::vector<io::Cloud>& clouds) {
    std::vector<const io::Cloud*> batch;
    for (const io::Cloud& cloud : clouds) batch.push_back(&cloud);
    labels_ms.push_back(1e3 * seconds_of([&] {
                          for (const auto& result : labeller->run(batch)) result.labels();
                        }));
  }
  void forget(int rounds) {
    for (auto* samples : {&maps_ms, &network_ms, &frame_ms, &labels_ms}) {
      samples->erase(samples->begin(),
                     samples->begin() + std::min<std::ptrdiff_t>(rounds, std::ssize(*samples)));
    }
  }
  void profile(const SparseTensor& input) {
    const auto measured = engine->profile(input);
    if (steps.empty()) steps = measured;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      steps[i].milliseconds = std::min(steps[i].milliseconds, measured[i].milliseconds);
    }
  }
};

Json layers_json(const std::vector<Engine::StepTime>& steps, const std::vector<StepWork>& work,
                 BenchReport& report, int threads) {
  Json layers = Json::array();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Json layer{{"node", steps[i].node}, {"min_ms", steps[i].milliseconds}};
    if (i < work.size() && work[i].node == steps[i].node) {
      layer["rows"] = work[i].rows;
      layer["pairs"] = work[i].pairs;
      layer["gflop"] = work[i].flop * 1e-9;
      layer["floor_ms"] = report.floor_ms(work[i].flop, work[i].bytes, threads);
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

double sum_of_steps(const std::vector<Engine::StepTime>& steps) {
  double sum = 0;
  for (const auto& step : steps) sum += step.milliseconds;
  return sum;
}

Json breakdown(const Contender& contender) {
  const double maps = median(contender.maps_ms), network = median(contender.network_ms);
  const double layers = sum_of_steps(contender.steps);
  Json json{{"maps_ms", maps},
            {"network_ms", network},
            {"sum_of_layers_ms", layers},
            {"network_over_layers", *std::ranges::min_element(contender.network_ms) / layers},
            {"maps_share", maps / (maps + network)}};
  if (!contender.labels_ms.empty()) {
    json["points_to_labels_ms"] = median(contender.labels_ms);
    json["points_to_labels_over_gpu"] = median(contender.labels_ms) / (maps + network);
  }
  if (!contender.frame_ms.empty()) {
    json["frame_ms"] = median(contender.frame_ms);
    json["frame_over_network"] = *std::ranges::min_element(contender.frame_ms) /
                                 *std::ranges::min_element(contender.network_ms);
  }
  return json;
}

std::string breakdown_text(const Json& parts) {
  std::string text = "   ";
  for (const auto& [key, value] : parts.items()) {
    char number[64];
    std::snprintf(number, sizeof number, " %s %.3f", key.c_str(), value.get<double>());
    text += number;
  }
  return text + '\n';
}

SparseTensor input_of(const BenchFrame& frame, const Model& model) {
  const std::int64_t channels = frame.voxels.channels();
  ENSURE(channels == model.in_channels(), "the frame has ", channels, " channels, the model ",
         model.name, " takes ", model.in_channels());
  return frame.voxels;
}

int bench_network(const Arguments& arguments) {
  const BenchSettings settings =
      bench_settings(arguments, {"fp32", "tf32", "fp16", "bf16", "fp8", "int8"});
  const bool cached = choice_option(arguments, "maps", "built", {"built", "cached"}) == "cached";
  FrameOptions frame_settings = frame_options(arguments);
  Model model = model_of(arguments, frame_settings);
  // Detectors have a field of view, cut into cells of their own heights.
  if (arguments.has("voxel-size") && !model.input.range)
    model.input.voxel_size = frame_settings.voxelize.voxel_size;
  frame_settings.voxelize = voxelize_options(model.input);
  const BenchFrame frame = load_frame(frame_settings);
  const SparseTensor input = input_of(frame, model);
  std::vector<Contender> contenders;
  for (const int threads : settings.threads) {
    contenders.push_back({.engine = std::make_unique<Engine>(
                              model, sparseconv::EngineOptions{.device = settings.device,
                                                               .dtype = settings.dtype,
                                                               .threads = threads,
                                                               .cache_maps = cached})});
    // Made where a frame of points is there to be labelled.
    const bool has_labels =
        !settings.place().is_cpu() && !cached && !model.classes.empty() && !frame.clouds.empty();
    if (has_labels) {
      contenders.back().labeller = std::make_unique<Engine>(
          model, sparseconv::EngineOptions{
                     .device = settings.device, .dtype = settings.dtype, .labels_only = true});
    }
  }
  BenchReport report(settings);
  std::vector<std::function<double()>> timed;
  for (Contender& contender : contenders) {
    timed.push_back([&] {
      contender.profile(input);
      // Another frame would take the place of the cached maps.
      if (!frame.files.empty() && !cached) contender.run_frame(frame.files);
      if (contender.labeller) contender.run_points(frame.clouds);
      return contender.run(input, settings.clock);
    });
  }
  const std::vector<Times> times = time_in_turn(timed, settings.rounds);
  for (Contender& contender : contenders) contender.forget(settings.rounds.warmup);
  const base::DType storage = settings.type == base::DType::tf32 ? base::DType::f32 : settings.type;
  const auto work = work_of(model, input.coordinates, static_cast<int>(base::bytes(storage)));
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    BenchResult result{.name = model.name + (cached ? ", maps cached" : ""),
                       .dtype = settings.dtype,
                       .threads = settings.threads[i],
                       .voxels = input.rows(),
                       .cin = model.in_channels(),
                       .cout = static_cast<std::int64_t>(model.classes.size()),
                       .times = times[i]};
    for (const StepWork& step : work) {
      result.flop += step.flop;
      result.bytes += step.bytes;
    }
    const Json parts = breakdown(contenders[i]);
    result.more = parts;
    result.more["layers"] = layers_json(contenders[i].steps, work, report, settings.threads[i]);
    report.add(result);
    if (!settings.as_json) print_text(breakdown_text(parts));
  }
  return report.close({{"peak_bytes", peak_resident_bytes()}});
}

}  // namespace

Command bench_network_command() {
  Command command{.name = "bench network",
                  .summary = "time a whole network, its maps and its layers",
                  .usage = "[--arch NAME | --model M.h5] [--input FILE...] [options]",
                  .examples =
                      "  sparseconv bench network --arch minkunet42 --voxel-size 0.05\n"
                      "  sparseconv bench network --arch minkunet18 --width 0.5 --input scan.bin "
                      "--threads 1,2 --json\n"
                      "  sparseconv bench network --model m.h5 --input voxels.h5 --maps cached"};
  auto add = command.options.add_options();
  add("arch", value<std::string>(), "built-in architecture (minkunet42)");
  add("width", value<std::string>(), "factor on its channels (1)");
  add("model", value<std::string>(), "model file instead");
  add("maps", value<std::string>(), "built (in the timed region) or cached (built)");
  add_frame_options(command);
  add_bench_options(command);
  command.max_inputs = 0;
  command.run = bench_network;
  return command;
}

}  // namespace apps
