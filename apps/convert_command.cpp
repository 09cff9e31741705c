#include <filesystem>

#include "apps/batch/file_batch.hpp"
#include "apps/commands.hpp"
#include "apps/read_options.hpp"
#include "apps/sweeps.hpp"
#include "apps/values.hpp"
#include "gemm_core/base/parallel.hpp"

namespace apps {
namespace fs = std::filesystem;

namespace {

struct Conversion {
  Inputs inputs;
  std::vector<fs::path> outputs;
  fs::path folder;  // of a batch
  io::ReadOptions read;
  SweepOptions sweeps;
  io::WriteOptions write;
};

struct Target {
  std::string format, extension;
};

// A format by its name, or by one of its extensions (csv: text with that extension).
Target target_of(const std::string& word) {
  for (const io::FormatInfo& info : io::formats()) {
    if (!info.writable) continue;
    if (info.name == word) return {info.name, info.extensions.front()};
    for (const std::string& extension : info.extensions) {
      if (extension == "." + word) return {info.name, extension};
    }
  }
  throw UsageError("--format: " + word + " cannot be written");
}

Conversion plan(const Arguments& arguments) {
  Conversion plan;
  plan.inputs = find_inputs({arguments.inputs()[0]}, arguments.inputs()[1]);
  plan.read = read_options(arguments);
  plan.sweeps = sweep_options(arguments);
  const Target target = arguments.has("format") ? target_of(arguments.text("format")) : Target{};
  plan.write = {.format = target.format,
                .ascii = arguments.has("ascii"),
                .compressed = arguments.has("compressed")};
  const fs::path out = arguments.inputs()[1];
  const bool is_folder = fs::is_directory(out) || arguments.inputs()[1].ends_with('/');
  if (plan.inputs.is_one_file && !is_folder) {
    std::error_code error;
    ENSURE_USAGE(!fs::equivalent(plan.inputs.files[0].path, out, error), "the output is the input ",
                 out.string());
    plan.outputs = {out};
    return plan;
  }
  ENSURE_USAGE(!plan.write.format.empty(), "--format is needed to convert into the folder ",
               out.string());
  plan.folder = out;
  plan.outputs = result_paths(plan.inputs.files, out, target.extension);
  return plan;
}

int convert(const Arguments& arguments) {
  const BatchThreads threads = batch_threads(
      base::current_threads(), static_cast<int>(integer_option(arguments, "jobs", 0, 1, 256)));
  const Conversion conversion = plan(arguments);
  const std::string signature = "convert " + conversion.write.format +
                                (conversion.write.ascii ? " ascii" : "") +
                                (conversion.write.compressed ? " compressed" : "") +
                                signature_of(conversion.read) + signature_of(conversion.sweeps);
  FileBatch batch({.command = "convert",
                   .inputs = conversion.inputs,
                   .outputs = conversion.outputs,
                   .folder = conversion.folder,
                   .signature = signature,
                   .resume = arguments.has("resume"),
                   .writers = threads.writers});
  SweepReader reader(conversion.read, conversion.sweeps);
  OrderedLoader<io::Cloud> loader(batch.todo().size(), threads.jobs, [&](std::size_t i) {
    return reader.read(batch.input(batch.todo()[i])).joined;
  });
  while (auto loaded = batch.is_stopped() ? std::nullopt : loader.next()) {
    const std::size_t file = batch.todo()[loaded->index];
    if (!loaded->value) {
      batch.fail(file, loaded->error);
      continue;
    }
    const auto cloud = std::make_shared<io::Cloud>(std::move(*loaded->value));
    batch.store(file, [&batch, &conversion, file, cloud] {
      std::vector<std::string> losses = io::write(batch.output(file), *cloud, conversion.write);
      return [&batch, file, losses = std::move(losses), warnings = std::move(cloud->warnings),
              points = cloud->size()] {
        report_warnings(batch.input(file), warnings, losses);
        return Json{{"path", text_of(batch.input(file))},
                    {"output", text_of(batch.output(file))},
                    {"points", points},
                    {"losses", losses}};
      };
    });
  }
  return batch.close(arguments.has("json"));
}

}  // namespace

Command convert_command() {
  Command command{.name = "convert",
                  .summary = "a cloud from any readable format to any writable one",
                  .usage = "IN OUT [options]",
                  .examples =
                      "  sparseconv convert scan.pcd scan.ply\n"
                      "  sparseconv convert scan.las scan.pcd --ascii\n"
                      "  sparseconv convert scans/ out/ --format ply"};
  auto add = command.options.add_options();
  add("format", value<std::string>(),
      "format to write, by its name or extension (default: by the extension of OUT)");
  add("ascii", "the text flavour of the format");
  add("compressed", "the compressed flavour of the format");
  add("resume", "skip files of a folder that an earlier call has converted in the same way");
  add("jobs", value<std::string>(), "files read at a time (three for four cores)");
  add("json", "one JSON document on stdout");
  add_read_options(command);
  add_sweep_options(command);
  command.min_inputs = command.max_inputs = 2;
  command.run = convert;
  return command;
}

}  // namespace apps
