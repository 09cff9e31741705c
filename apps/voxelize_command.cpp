#include <filesystem>
#include <memory>

#include "apps/batch/file_batch.hpp"
#include "apps/commands.hpp"
#include "apps/read_options.hpp"
#include "apps/sweeps.hpp"
#include "apps/values.hpp"
#include "apps/voxel_labels.hpp"
#include "gemm_core/base/parallel.hpp"
#include "sparseconv/device_voxelize.hpp"
#include "sparseconv/voxel_file.hpp"
#include "sparseconv/voxelize.hpp"

namespace apps {
namespace fs = std::filesystem;

namespace {

struct Settings {
  io::ReadOptions read;
  SweepOptions sweeps;
  sparseconv::VoxelizeOptions voxelize;
  base::Device device;
  bool labels = false;
};

struct Voxelized {
  sparseconv::Voxels voxels;
  std::vector<std::int32_t> labels;
  std::vector<std::string> warnings;
};

Settings settings_of(const Arguments& arguments) {
  Settings settings{.read = read_options(arguments), .sweeps = sweep_options(arguments)};
  sparseconv::VoxelizeOptions& options = settings.voxelize;
  options.voxel_size =
      parse_voxel_size("voxel-size", arguments.get_or<std::string>("voxel-size", "0.1"));
  if (arguments.has("range")) options.range = parse_range("range", arguments.text("range"));
  if (arguments.has("origin")) {
    ENSURE_USAGE(!options.range,
                 "--origin and --range exclude each other: the lower bound of the "
                 "range is the origin");
    options.origin = parse_triple("origin", arguments.text("origin"));
  }
  options.reduce = sparseconv::parse_reduce(
      choice_option(arguments, "reduce", "mean", {"mean", "sum", "max", "first"}));
  options.max_points = integer_option(arguments, "max-points", 0, 1, INT64_MAX);
  options.max_voxels = integer_option(arguments, "max-voxels", 0, 1, INT64_MAX);
  options.features = split_list(arguments.text("features"));
  settings.labels = arguments.has("labels");
  try {
    settings.device = base::parse_device(arguments.get_or<std::string>("device", "cpu"));
  } catch (const base::Error& error) {
    throw UsageError(std::string("--device: ") + error.what());
  }
  return settings;
}

// The texts of the options are enough: equal texts make equal results.
std::string signature_of_call(const Arguments& arguments, const Settings& settings) {
  std::string text = "voxelize" + signature_of(settings.read) + signature_of(settings.sweeps);
  for (const char* option :
       {"voxel-size", "range", "origin", "reduce", "max-points", "max-voxels", "features"}) {
    text += std::string(" --") + option + ' ' + arguments.text(option);
  }
  return text + (settings.labels ? " --labels" : "");
}

Voxelized voxelize_file(const fs::path& path, const Settings& settings, SweepReader& reader,
                        const sparseconv::Voxelizer& voxelizer) {
  const io::Cloud cloud = reader.read(path).joined;
  Voxelized result{.voxels = voxelizer.run(cloud), .warnings = cloud.warnings};
  if (settings.labels) {
    result.labels = majority_labels(cloud.get("label"), result.voxels.point_to_voxel,
                                    result.voxels.tensor.rows());
  }
  return result;
}

sparseconv::VoxelFile voxel_file(Voxelized&& made) {
  sparseconv::VoxelFile file;
  file.tensor = std::move(made.voxels.tensor);
  file.voxel_size = made.voxels.voxel_size;
  file.origin = made.voxels.origin;
  file.feature_names = std::move(made.voxels.feature_names);
  file.point_to_voxel = std::move(made.voxels.point_to_voxel);
  file.labels = std::move(made.labels);
  return file;
}

struct Places {
  Inputs inputs;
  std::vector<fs::path> outputs;
  fs::path folder;  // of a batch
};

Places places_of(const Arguments& arguments) {
  const std::string output = arguments.text("output");
  Places places{.inputs = find_inputs(arguments.inputs(), output)};
  const auto& files = places.inputs.files;
  if (output.empty()) {
    places.outputs.resize(files.size());
  } else if (places.inputs.is_one_file && !fs::is_directory(output) && !output.ends_with('/')) {
    std::error_code error;
    ENSURE_USAGE(!fs::equivalent(files[0].path, output, error), "the output is the input ", output);
    places.outputs = {output};
  } else {
    places.folder = output;
    places.outputs = result_paths(files, output, ".h5");
  }
  return places;
}

Json entry_of(const fs::path& input, const fs::path& output, const Voxelized& made) {
  const sparseconv::Voxels& voxels = made.voxels;
  return {{"path", text_of(input)},
          {"points", voxels.points},
          {"voxels", voxels.tensor.rows()},
          {"dropped", voxels.dropped},
          {"output", output.empty() ? Json(nullptr) : Json(text_of(output))},
          {"dropped_because",
           {{"non_finite", voxels.non_finite},
            {"out_of_range", voxels.out_of_range},
            {"max_points", voxels.over_max_points},
            {"max_voxels", voxels.over_max_voxels}}},
          {"origin", voxels.origin},
          {"features", voxels.feature_names}};
}

void print_entry(const Json& entry) {
  const Json& output = entry["output"];
  print_text(entry["path"].get<std::string>() + ": " + entry["points"].dump() + " points, " +
             entry["voxels"].dump() + " voxels, " + entry["dropped"].dump() + " dropped" +
             (output.is_null() ? "" : " -> " + output.get<std::string>()) + '\n');
}

int voxelize_files(const Arguments& arguments) {
  const Settings settings = settings_of(arguments);
  const bool as_json = arguments.has("json");
  // More were no sooner done, writers being the slower ones then (docs/performance.md); each of the
  // four takes a share of the threads.
  constexpr int kMostJobs = 4;
  const int cores = base::current_threads(), usual = std::min(kMostJobs, batch_threads(cores).jobs);
  const BatchThreads threads =
      batch_threads(cores, static_cast<int>(integer_option(arguments, "jobs", usual, 1, 256)));
  const auto voxelizer = sparseconv::make_voxelizer(settings.voxelize, settings.device);
  Places places = places_of(arguments);
  FileBatch batch({.command = "voxelize",
                   .inputs = std::move(places.inputs),
                   .outputs = std::move(places.outputs),
                   .folder = places.folder,
                   .signature = signature_of_call(arguments, settings),
                   .resume = arguments.has("resume"),
                   .writers = threads.writers});
  SweepReader reader(settings.read, settings.sweeps);
  OrderedLoader<Voxelized> loader(batch.todo().size(), threads.jobs, [&](std::size_t i) {
    const fs::path& path = batch.input(batch.todo()[i]);
    if (batch.todo().size() == 1) return voxelize_file(path, settings, reader, *voxelizer);
    Voxelized made;  // on no more threads than leave the writers a core
    base::Threads(threads.each).run([&] {
      made = voxelize_file(path, settings, reader, *voxelizer);
    });
    return made;
  });
  while (auto loaded = batch.is_stopped() ? std::nullopt : loader.next()) {
    const std::size_t file = batch.todo()[loaded->index];
    if (!loaded->value) {
      batch.fail(file, loaded->error);
      continue;
    }
    const auto made = std::make_shared<Voxelized>(std::move(*loaded->value));
    batch.store(file, [&batch, made, file, as_json] {
      const fs::path& output = batch.output(file);
      const Json entry = entry_of(batch.input(file), output, *made);
      const std::vector<std::string> read = made->warnings, voxelized = made->voxels.warnings;
      if (!output.empty()) sparseconv::write_voxel_file(output, voxel_file(std::move(*made)));
      return [&batch, file, as_json, entry, read, voxelized] {
        report_warnings(batch.input(file), read, voxelized);
        if (!as_json) print_entry(entry);
        return entry;
      };
    });
  }
  return batch.close(as_json);
}

}  // namespace

Command voxelize_command() {
  Command command{.name = "voxelize",
                  .summary = "clouds to voxel files: coordinates, features, point-to-voxel map",
                  .usage = "IN... -o OUT.h5 [options]",
                  .examples =
                      "  sparseconv voxelize scan.bin -o scan.h5 --voxel-size 0.05\n"
                      "  sparseconv voxelize scans/ -o voxels/ --voxel-size 0.05,0.05,0.1 "
                      "--range 0,-40,-3,70.4,40,1\n"
                      "  sparseconv voxelize scan.pcd --json          counts only"};
  auto add = command.options.add_options();
  add("output,o", value<std::string>(),
      "a file for one input, a folder for several; without it only the counts are printed");
  add("voxel-size", value<std::string>(), "v or vx,vy,vz in metres (0.1)");
  add("range", value<std::string>(),
      "x0,y0,z0,x1,y1,z1: lower bound in, upper bound out; cell 0 is at the lower bound");
  add("origin", value<std::string>(), "x,y,z of cell 0 (0,0,0)");
  add("reduce", value<std::string>(), "mean, sum, max or first (mean)");
  add("max-points", value<std::string>(), "points kept a voxel, in file order (all)");
  add("max-voxels", value<std::string>(), "voxels kept, by their first point (all)");
  add("features", value<std::string>(), "x,y,z,intensity,... (x y z and every other scalar field)");
  add("device", value<std::string>(), "cpu, cuda or cuda:N; the voxels are the same (cpu)");
  add("labels", "also a label a voxel: the most frequent of its points, ties to the lowest");
  add("resume", "skip files of a folder that an earlier call has done in the same way");
  add("jobs", value<std::string>(), "files voxelised at a time (three for four cores, at most 4)");
  add("json", "one JSON document on stdout");
  add_read_options(command);
  add_sweep_options(command);
  command.min_inputs = 1;
  command.run = voxelize_files;
  return command;
}

}  // namespace apps
