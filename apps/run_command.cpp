#include <algorithm>
#include <exception>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "apps/batch/file_batch.hpp"
#include "apps/commands.hpp"
#include "apps/read_options.hpp"
#include "apps/run/memory.hpp"
#include "apps/run/result_writer.hpp"
#include "apps/sweeps.hpp"
#include "apps/values.hpp"
#include "io/hdf5_starter.hpp"
#include "sparseconv/devices.hpp"
#include "sparseconv/engine.hpp"
#include "sparseconv/views.hpp"

namespace apps {
namespace fs = std::filesystem;
using sparseconv::Engine, sparseconv::Result;

namespace {

struct Settings {
  fs::path model, folder;
  io::ReadOptions read;
  SweepOptions sweeps;
  sparseconv::EngineOptions engine;
  std::string save, format;  // "": by the model, h5
  int jobs = 2, views = 1;
  std::size_t batch = 1;
  bool resume = false, as_json = false, reports_memory = false;
};

Settings settings_of(const Arguments& arguments) {
  Settings settings{.model = arguments.required("model"),
                    .folder = arguments.required("output"),
                    .read = read_options(arguments),
                    .sweeps = sweep_options(arguments)};
  settings.save = choice_option(arguments, "save", "", {"", "labels", "scores", "features"});
  settings.format = choice_option(arguments, "format", "h5", {"h5", "npy", "ply", "pcd", "label"});
  settings.engine.device = arguments.get_or<std::string>("device", "cpu");
  try {
    settings.jobs = sparseconv::parse_devices(settings.engine.device)[0].is_cpu() ? 2 : 4;
  } catch (const base::Error& error) {
    throw UsageError(std::string("--device: ") + error.what());
  }
  settings.engine.dtype =
      choice_option(arguments, "dtype", "fp32", {"fp32", "tf32", "fp16", "bf16", "fp8", "int8"});
  settings.engine.threads = static_cast<int>(integer_option(arguments, "threads", 0, 1, 4096));
  settings.jobs = static_cast<int>(integer_option(arguments, "jobs", settings.jobs, 1, 256));
  settings.batch = static_cast<std::size_t>(integer_option(arguments, "batch", 1, 1, 1024));
  settings.views =
      static_cast<int>(integer_option(arguments, "views", 1, 1, sparseconv::kViewsMax));
  if (settings.views > 1) settings.batch = 1;  // the views of a cloud come one after the other
  settings.resume = arguments.has("resume");
  settings.as_json = arguments.has("json");
  settings.reports_memory = arguments.has("memory");
  settings.engine.row_bound = integer_option(arguments, "row-bound", 0, 1, INT32_MAX / 4);
  settings.engine.memory_limit = integer_option(arguments, "memory-limit", 0, 1, INT64_MAX >> 20)
                                 << 20;
  return settings;
}

RunInput read_input(const fs::path& path, SweepReader& reader) {
  check_is_file(path);
  if (sparseconv::is_voxel_file(path)) return {.voxels = sparseconv::read_voxel_file(path)};
  auto sweeps = reader.read(path);
  if (!reader.joins()) return {.cloud = std::move(sweeps.joined)};
  return {.cloud = *sweeps.own, .joined = std::move(sweeps.joined)};
}

Json timing_json(const sparseconv::RunTiming& timing) {
  return {{"voxelize_ms", timing.voxelize},
          {"maps_ms", timing.maps},
          {"network_ms", timing.network},
          {"total_ms", timing.total}};
}

// Largest parts over the files of a batch: what the process must have had room for.
struct MemoryParts {
  std::int64_t start = resident_bytes();  // before the model was loaded
  sparseconv::RunMemory largest;

  void note(const sparseconv::RunMemory& run) {
    largest.weights = std::max(largest.weights, run.weights);
    largest.maps = std::max(largest.maps, run.maps);
    largest.activations = std::max(largest.activations, run.activations);
    largest.largest_two_tensors = std::max(largest.largest_two_tensors, run.largest_two_tensors);
    largest.device = std::max(largest.device, run.device);
  }
  Json json() const {
    return {{"peak", peak_resident_bytes()},
            {"start", start},
            {"weights", largest.weights},
            {"maps", largest.maps},
            {"activations", largest.activations},
            {"largest_two_tensors", largest.largest_two_tensors},
            {"device", largest.device}};
  }
  std::string text() const {
    std::string lines;
    const Json parts = json();
    for (const auto& [part, bytes] : parts.items()) {
      char line[80];
      std::snprintf(line, sizeof line, "memory: %-20s %10.1f MiB\n", part.c_str(),
                    bytes.get<double>() / (1 << 20));
      lines += line;
    }
    return lines;
  }
};

// What goes on while the model is read: its digest, and the start of GPUs.
struct Beside {
  std::future<std::string> digest;
  std::future<void> devices;

  explicit Beside(const Settings& settings) {
    io::hdf5::start_ahead();  // while there is one thread
    digest = std::async(std::launch::async, [&] { return file_digest(settings.model); });
    devices = std::async(std::launch::async, [&] {
      for (const base::Device device : sparseconv::parse_devices(settings.engine.device)) {
        try {
          sparseconv::wake_device(device);
        } catch (const base::Error&) {  // said by the engine
        }
      }
    });
  }
};

class Runner {
 public:
  Runner(const Settings& settings, sparseconv::Model model, std::string model_digest,
         FileBatchOptions files, const MemoryParts& memory)
      : settings_(settings),
        model_digest_(std::move(model_digest)),
        kind_({.save = !settings.save.empty()  ? settings.save
                       : model.classes.empty() ? "features"
                                               : "labels",
               .format = settings.format}),
        engine_(std::move(model), engine_options()),
        reader_(settings.read, settings.sweeps),
        memory_(memory) {
    const bool has_classes = !engine_.model().classes.empty();
    check_result_kind(kind_);
    ENSURE_USAGE(kind_.save == "features" || has_classes, "--save ", kind_.save,
                 " needs a model with classes, and ", settings.model.string(), " has none");
    ENSURE_USAGE(settings.views == 1 || kind_.save != "features",
                 "--views averages the scores of classes; it goes with labels and scores, not ",
                 kind_.save);
    sparseconv::check_views(engine_.model(), settings.views);
    files.signature = signature();
    batch_ = std::make_unique<FileBatch>(std::move(files));
  }

  int run() {
    // A GPU takes several frames at once: copies of one go on beside the network of another.
    const bool runs_ahead =
        !sparseconv::parse_devices(settings_.engine.device)[0].is_cpu() && settings_.batch == 1;
    OrderedLoader<Work> loader(
        batch_->todo().size(), settings_.jobs, [this, runs_ahead](std::size_t i) {
          Work work;
          const std::size_t file = batch_->todo()[i];
          work.input = std::make_shared<RunInput>(read_input(batch_->input(file), reader_));
          if (runs_ahead) work.written = write(file, *work.input, run_one(*work.input));
          return work;
        });
    while (auto loaded = batch_->is_stopped() ? std::nullopt : loader.next()) {
      const std::size_t file = batch_->todo()[loaded->index];
      if (!loaded->value) {
        flush();
        batch_->fail(file, loaded->error);
        continue;
      }
      if (loaded->value->written) {
        note({file, loaded->value->input}, std::move(*loaded->value->written));
        continue;
      }
      waiting_.push_back({file, loaded->value->input});
      const bool is_alone = waiting_.back().input->voxels.has_value();
      if (is_alone || waiting_.size() == settings_.batch) flush();
    }
    flush();
    const int status = batch_->close(settings_.as_json, {{"memory", memory_.json()}});
    if (settings_.reports_memory && !settings_.as_json) print_text(memory_.text());
    return status;
  }

 private:
  struct Waiting {
    std::size_t file;
    std::shared_ptr<RunInput> input;
  };
  // A result that was written, or why it was not.
  struct Written {
    Json entry;
    std::vector<std::string> warnings;
    sparseconv::RunMemory memory;
    std::exception_ptr error;
  };
  // A file that was read, and run and written where the device takes several frames at once.
  struct Work {
    std::shared_ptr<RunInput> input;
    std::optional<Written> written;
  };

  sparseconv::EngineOptions engine_options() const {
    sparseconv::EngineOptions options = settings_.engine;
    options.labels_only = kind_.save == "labels" && settings_.views == 1;
    return options;
  }

  Result run_one(const RunInput& input) const {
    if (input.cloud) return sparseconv::run_views(engine_, input.computed(), settings_.views);
    ENSURE(settings_.views == 1, "--views turns clouds, and this is a voxel file");
    return engine_.run(*input.voxels);
  }

  std::string signature() const {
    return "run " SPARSECONV_VERSION " " + model_digest_ + ' ' + kind_.save + ' ' + kind_.format +
           ' ' + settings_.engine.device + ' ' + settings_.engine.dtype +
           (settings_.views > 1 ? " views " + std::to_string(settings_.views) : "") +
           signature_of(settings_.read) + signature_of(settings_.sweeps);
  }

  // Runs the clouds read so far as one batch. Where the batch fails its files are run alone, so
  // that each failure is named and costs only its file.
  void flush() {
    std::vector<Waiting> group = std::exchange(waiting_, {});
    std::vector<const io::Cloud*> clouds;
    for (const Waiting& one : group) {
      if (one.input->cloud) clouds.push_back(&one.input->computed());
    }
    if (clouds.size() == group.size() && clouds.size() > 1) {
      try {
        std::vector<Result> results = engine_.run(clouds);
        for (std::size_t i = 0; i < group.size(); ++i) store(group[i], std::move(results[i]));
        return;
      } catch (const std::exception&) {
        // Said again, by the file that is to blame.
      }
    }
    for (const Waiting& one : group) run_alone(one);
  }

  void run_alone(const Waiting& one) {
    try {
      store(one, run_one(*one.input));
    } catch (...) {
      batch_->fail(one.file, current_error());
    }
  }

  void store(const Waiting& one, Result&& result) {
    memory_.note(result.memory);
    const auto shared = std::make_shared<Result>(std::move(result));
    batch_->store(one.file, [this, file = one.file, input = one.input, shared] {
      return telling(file, input, write(file, *input, std::move(*shared)));
    });
  }
  void note(const Waiting& one, Written&& written) {
    memory_.note(written.memory);
    batch_->store(one.file,
                  [tell = telling(one.file, one.input, std::move(written))] { return tell; });
  }
  FileBatch::Tell telling(std::size_t file, std::shared_ptr<RunInput> input,
                          Written&& written) const {
    const auto shared = std::make_shared<Written>(std::move(written));
    return [this, file, input, shared] { return told(file, *input, std::move(*shared)); };
  }

  // By any thread.
  Written write(std::size_t file, const RunInput& input, Result&& result) const {
    // Results are for the file's own points, which stand first; the sweeps before it only helped.
    if (input.joined) result.keep_first_points(input.cloud->size());
    const fs::path& output = batch_->output(file);
    Written written;
    written.memory = result.memory;
    try {
      if (output.has_parent_path()) fs::create_directories(output.parent_path());
      write_result(output, kind_, input, result);
    } catch (...) {
      written.error = std::current_exception();
    }
    written.entry = {{"path", text_of(batch_->input(file))},
                     {"points", result.points},
                     {"voxels", result.voxels},
                     {"dropped", result.dropped},
                     {"output", text_of(output)},
                     {"origin", result.origin},
                     {"timing", timing_json(result.timing)}};
    written.warnings = std::move(result.warnings);
    return written;
  }

  // In the order of the inputs.
  Json told(std::size_t file, const RunInput& input, Written&& written) const {
    report_warnings(batch_->input(file),
                    input.cloud ? input.cloud->warnings : std::vector<std::string>{},
                    written.warnings);
    if (written.error) std::rethrow_exception(written.error);
    if (!settings_.as_json) {
      print_text(written.entry["path"].get<std::string>() + " -> " + text_of(batch_->output(file)) +
                 '\n');
    }
    return std::move(written.entry);
  }

  const Settings& settings_;
  const std::string model_digest_;
  ResultKind kind_;
  Engine engine_;
  SweepReader reader_;
  MemoryParts memory_;
  std::vector<Waiting> waiting_;
  std::unique_ptr<FileBatch> batch_;  // last: its writer uses the members above
};

int run_model(const Arguments& arguments) {
  const Settings settings = settings_of(arguments);
  FileBatchOptions files{.command = "run",
                         .inputs = find_inputs(arguments.inputs(), settings.folder),
                         .folder = settings.folder,
                         .resume = settings.resume};
  files.outputs =
      result_paths(files.inputs.files, settings.folder, '.' + settings.format, {settings.model});
  if (!settings.save.empty()) check_result_kind({.save = settings.save, .format = settings.format});
  const MemoryParts memory;
  std::optional<sparseconv::Model> model;
  std::string digest;
  try {
    check_is_file(settings.model);
    Beside beside(settings);
    model = sparseconv::load_model(settings.model);
    digest = beside.digest.get();
  } catch (const std::exception&) {
    BatchReport report("run");
    report.failed(text_of(settings.model), current_error());
    if (settings.as_json) print_json(report.document());
    return report.close();
  }
  return Runner(settings, std::move(*model), std::move(digest), std::move(files), memory).run();
}

}  // namespace

Command run_command() {
  Command command{.name = "run",
                  .summary = "a network on clouds or voxel files: labels, scores or features",
                  .usage = "--model MODEL.h5 IN... -o DIR [options]",
                  .examples =
                      "  sparseconv run --model model.h5 scan.bin -o out/\n"
                      "  sparseconv run --model model.h5 scans/ -o out/ --format label --resume\n"
                      "  sparseconv run --model model.h5 'scans/*.pcd' -o out/ --save scores "
                      "--format npy --json"};
  auto add = command.options.add_options();
  add("model,m", value<std::string>(), "model file");
  add("output,o", value<std::string>(),
      "folder of the results; a/b.pcd gives DIR/b.<format>, sub-folders of a folder are kept");
  add("save", value<std::string>(),
      "labels, scores or features (labels where the model has classes)");
  add("format", value<std::string>(), "h5, npy, ply, pcd or label (h5)");
  add("device", value<std::string>(), "cpu, cuda, cuda:N, or several GPUs: cuda:0,1 (cpu)");
  add("dtype", value<std::string>(), "fp32, tf32, fp16, bf16; fp8, int8 on a GPU (fp32)");
  add("batch", value<std::string>(), "clouds computed together (1)");
  add("views", value<std::string>(),
      "times that each cloud is computed, turned about z, for the mean of its class probabilities; "
      "--save scores then writes the means (1)");
  add("jobs", value<std::string>(), "files read ahead, on a GPU also run ahead (2; 4 on a GPU)");
  add("threads", value<std::string>(), "compute threads (all cores)");
  add("row-bound", value<std::string>(),
      "GPU: voxels (points of clouds) that a frame is captured for; larger frames run uncaptured");
  add("memory-limit", value<std::string>(), "GPU: MiB that may be held of each (all there is)");
  add("memory", "say what memory was needed, in parts");
  add("resume", "skip inputs whose result is complete and made by the same model and options");
  add("json", "one JSON document on stdout, with timing and memory");
  add_read_options(command);
  add_sweep_options(command);
  command.min_inputs = 1;
  command.run = run_model;
  return command;
}

}  // namespace apps
