#include <array>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "apps/batch/interrupt.hpp"
#include "apps/batch/report.hpp"
#include "apps/commands.hpp"
#include "apps/messages.hpp"
#include "apps/results.hpp"
#include "apps/values.hpp"
#include "gemm_core/base/parallel.hpp"
#include "io/io.h"
#include "io/simulator.hpp"
#include "io/sink.hpp"

namespace apps {
namespace {

namespace fs = std::filesystem;

struct Knob {
  const char* option;
  double io::SimulatorOptions::*value;
  const char* help;
  double most = 100;
};

constexpr std::array<Knob, 14> kKnobs = {{
    {"noise", &io::SimulatorOptions::noise, "multiple of the sensor's range noise (1)"},
    {"waver", &io::SimulatorOptions::waver,
     "multiple of how far beams stray within their footprint (1)"},
    {"bias", &io::SimulatorOptions::bias, "multiple of each beam's own error of range (1)"},
    {"relief", &io::SimulatorOptions::relief,
     "multiple of the roughness of surfaces: grass, plaster (1)"},
    {"dropout", &io::SimulatorOptions::dropout,
     "multiple of the share of beams lost at random (1)"},
    {"rain", &io::SimulatorOptions::rain, "0 dry to 1 heavy (0)", 1},
    {"wet", &io::SimulatorOptions::wet,
     "roads and pavements that send shallow beams away: 0 dry to 1 (0)", 1},
    {"traffic", &io::SimulatorOptions::traffic, "how many vehicles, 1 = as usual"},
    {"people", &io::SimulatorOptions::people, "how many people and riders, 1 = as usual"},
    {"vegetation", &io::SimulatorOptions::vegetation, "how many plants, 1 = as usual"},
    {"clutter", &io::SimulatorOptions::clutter, "how many things of no class, 1 = as usual"},
    {"intensity-spread", &io::SimulatorOptions::intensity_spread,
     "random scaling of the intensities, 0 to 1 (0)", 1},
    {"tilt", &io::SimulatorOptions::tilt,
     "degrees by which the mount is off, standard deviation (0)"},
    {"ego-body", &io::SimulatorOptions::ego_body,
     "probability that the sensor sees its own vehicle (1)", 1},
}};

struct Plan {
  io::SimulatorOptions options;
  std::int64_t frames = 1, first = 0;
  fs::path folder;
  std::string format;
  bool is_randomised = false;  // every frame another street, sensor and weather
};

std::vector<std::string> formats_to_write() {
  std::vector<std::string> names;
  for (const io::FormatInfo& format : io::formats()) {
    if (format.writable && format.name != "label") names.push_back(format.name);
  }
  return names;
}

Plan plan_of(const Arguments& arguments) {
  Plan plan;
  plan.is_randomised = arguments.has("randomise");
  for (const char* fixed : {"sensor", "noise", "waver", "bias", "relief", "dropout", "rain", "wet",
                            "traffic", "people", "vegetation", "clutter"}) {
    ENSURE_USAGE(!plan.is_randomised || !arguments.has(fixed), "--randomise draws --", fixed,
                 " itself");
  }
  plan.options.sensor =
      choice_option(arguments, "sensor", plan.options.sensor, io::simulator_sensors());
  plan.options.seed =
      static_cast<std::uint64_t>(integer_option(arguments, "seed", 1, 0, INT64_MAX));
  for (const Knob& knob : kKnobs) {
    if (!arguments.has(knob.option)) continue;
    const double number = parse_number(knob.option, arguments.text(knob.option));
    ENSURE_USAGE(number >= 0 && number <= knob.most, "--", knob.option, ": ", number,
                 " is not in 0..", knob.most);
    plan.options.*knob.value = number;
  }
  plan.frames = integer_option(arguments, "frames", 1, 0, 1000000);
  plan.first = integer_option(arguments, "first", 0, 0, 1000000);
  plan.format = choice_option(arguments, "format", "kitti", formats_to_write());
  plan.folder = arguments.required("output");
  return plan;
}

std::string extension_of(const std::string& name) {
  for (const io::FormatInfo& format : io::formats()) {
    if (format.name == name) return format.extensions.front();
  }
  base::fail("no format ", name);
}

// 000000, 000001, ...
std::string stem_of(std::int64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < 6 ? 6 - digits.size() : 0, '0') + digits;
}

fs::path scan_of(const Plan& plan, std::int64_t number) {
  return plan.folder / (stem_of(number) + extension_of(plan.format));
}

// What the format cannot hold is dropped; labels then go to a file of their own.
Json write_frame(const Plan& plan, const io::Cloud& cloud, std::int64_t number) {
  const fs::path scan = scan_of(plan, number);
  const std::vector<std::string> losses = io::write(scan, cloud, {.format = plan.format});
  Json entry{{"path", text_of(scan)}, {"points", cloud.size()}, {"labels", nullptr}};
  bool holds_labels = true;
  for (const std::string& loss : losses)
    holds_labels = holds_labels && loss.find("label") == std::string::npos;
  if (holds_labels) return entry;
  fs::path labels = scan;
  labels.replace_extension(".label");
  io::write(labels, cloud, {.format = "label"});
  entry["labels"] = text_of(labels);
  return entry;
}

// KITTI's file: one line of 12 numbers a scan, from the sensor to the sensor of scan 0. The frames
// before the first that is written have no line.
void write_poses(const Plan& plan, const io::Simulator& simulator) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text.precision(9);
  for (std::int64_t i = 0; i < plan.frames; ++i) {
    const io::SimulatorPose pose = simulator.pose(plan.first + i);
    for (std::size_t k = 0; k < pose.matrix.size(); ++k)
      text << (k == 0 ? "" : " ") << pose.matrix[k];
    text << '\n';
  }
  io::Sink sink(plan.folder / "poses.txt");
  sink.write(text.str());
  sink.commit();
}

int simulate(const Arguments& arguments) {
  const Plan plan = plan_of(arguments);
  const auto threads = static_cast<int>(integer_option(arguments, "threads", 0, 0, 1024));
  io::Simulator simulator(plan.options);
  std::error_code error;
  fs::create_directories(plan.folder, error);
  ENSURE(!error, text_of(plan.folder), ": cannot create the folder: ", error.message());
  watch_interrupts();
  BatchReport report("simulate");
  bool can_write = true;
  {
    Progress progress("simulate", plan.frames);
    const base::Threads arena(threads);
    for (std::int64_t i = 0; i < plan.frames; ++i) {
      if (is_interrupted()) {
        report.stopped("interrupted", plan.frames - i);
        break;
      }
      const std::int64_t number = plan.first + i;
      io::Cloud cloud;
      arena.run([&] {
        if (!plan.is_randomised) {
          cloud = simulator.frame(number);
          return;
        }
        const std::uint64_t seed = plan.options.seed * 1000003 + static_cast<std::uint64_t>(number);
        cloud = io::Simulator(io::SimulatorOptions::randomised(seed)).frame(0);
      });
      try {
        report.done(write_frame(plan, cloud, number));
      } catch (const std::exception& problem) {
        can_write = false;
        report.failed(text_of(scan_of(plan, number)), problem.what());
        report.stopped(base::concat("nothing more can be written; --first ", number, " goes on"),
                       plan.frames - i - 1);
        break;
      }
      progress.advance();
    }
  }
  if (can_write && !plan.is_randomised) write_poses(plan, simulator);
  if (arguments.has("json")) print_json(report.document());
  return report.close();
}

}  // namespace

Command simulate_command() {
  Command command{
      .name = "simulate",
      .summary = "labelled scans of procedural streets",
      .usage = "-o DIR [options]",
      .examples =
          "  sparseconv simulate --sensor hdl64 --frames 10 --seed 1 -o street/\n"
          "  sparseconv simulate --sensor os1-128 --format ply -o scans/\n"
          "  sparseconv simulate --randomise --frames 1000 -o training/   every frame another "
          "street,\n"
          "                                                               sensor and weather"};
  auto add = command.options.add_options();
  add("output,o", value<std::string>(), "folder; made where missing. Also gets poses.txt")(
      "sensor", value<std::string>(), "hdl64, hdl32, vlp16 or os1-128 (hdl64)")(
      "frames", value<std::string>(),
      "scans in a row, the own vehicle and the traffic moving on (1)")(
      "first", value<std::string>(), "number of the first scan (0)")(
      "seed", value<std::string>(),
      "of the street and everything in it (1); same seed, same bytes")(
      "format", value<std::string>(), "kitti (000000.bin and 000000.label), pcd, ply, ... (kitti)");
  for (const Knob& knob : kKnobs) add(knob.option, value<std::string>(), knob.help);
  add("randomise", "every frame another street, sensor and weather, for training")(
      "threads", value<std::string>(), "compute threads (one a core); changes no byte")(
      "json", "one JSON document on stdout");
  command.max_inputs = 0;
  command.run = simulate;
  return command;
}

}  // namespace apps
