// eval: a model's labels against the truth.
#include <filesystem>
#include <optional>

#include "apps/batch/interrupt.hpp"
#include "apps/batch/pipeline.hpp"
#include "apps/batch/report.hpp"
#include "apps/commands.hpp"
#include "apps/messages.hpp"
#include "apps/train/class_map.hpp"
#include "apps/train/labelled_files.hpp"
#include "apps/train/score_table.hpp"
#include "apps/values.hpp"
#include "sparseconv/engine.hpp"
#include "sparseconv/views.hpp"

namespace apps {
namespace fs = std::filesystem;
using sparseconv::training::Confusion;

namespace {

struct Settings {
  fs::path model;
  std::string classes, merge;  // "": none
  sparseconv::EngineOptions engine;
  int jobs = 2, views = 1;
  bool as_json = false, shows_confusion = false;
};

Settings settings_of(const Arguments& arguments) {
  Settings settings{.model = arguments.required("model"),
                    .classes = arguments.text("classes"),
                    .merge = arguments.text("merge")};
  settings.engine.device = arguments.get_or<std::string>("device", "cpu");
  try {
    base::parse_device(settings.engine.device);
  } catch (const base::Error& error) {
    throw UsageError(std::string("--device: ") + error.what());
  }
  settings.engine.dtype =
      choice_option(arguments, "dtype", "fp32", {"fp32", "tf32", "fp16", "bf16", "fp8", "int8"});
  settings.engine.threads = static_cast<int>(integer_option(arguments, "threads", 0, 1, 4096));
  settings.jobs = static_cast<int>(integer_option(arguments, "jobs", 2, 1, 256));
  settings.views =
      static_cast<int>(integer_option(arguments, "views", 1, 1, sparseconv::kViewsMax));
  settings.as_json = arguments.has("json");
  settings.shows_confusion = arguments.has("confusion");
  return settings;
}

// From labels of files and of the model to the classes that are scored.
class Scoring {
 public:
  Scoring(const sparseconv::Model& model, const Settings& settings)
      : scored_(settings.merge.empty() ? ClassMap::of_model(model)
                                       : ClassMap::read(settings.merge)) {
    if (!settings.classes.empty()) raw_ = ClassMap::read(settings.classes);
  }

  // Every truth must have a class or be ignored.
  std::vector<std::int32_t> truth(const io::Column& labels) const {
    if (!raw_) return scored_.indices(labels);
    std::vector<std::int32_t> indices = raw_->indices(labels);
    for (auto& index : indices) index = of_raw_class(index);
    return indices;
  }
  std::vector<std::int32_t> truth(const std::vector<std::int32_t>& labels) const {
    if (!raw_) return scored_.indices(labels);
    std::vector<std::int32_t> indices = raw_->indices(labels);
    for (auto& index : indices) index = of_raw_class(index);
    return indices;
  }

  // A prediction that is no scored class is none.
  static constexpr std::int32_t kDropped = INT32_MIN;
  std::vector<std::int32_t> prediction(std::vector<std::int32_t> ids) const {
    for (auto& id : ids)
      id = id == kDropped ? -1 : scored_.index_of(id).value_or(ClassMap::kIgnored);
    return ids;
  }
  ScoredClasses classes() const { return {scored_.ids(), scored_.names()}; }

 private:
  std::int32_t of_raw_class(std::int32_t index) const {
    if (index < 0) return index;
    const ClassMap::Class& one = raw_->classes()[static_cast<std::size_t>(index)];
    const auto scored = scored_.index_of(one.id);
    ENSURE(scored, "class id ", one.id, " (", one.name,
           ") of --classes is none of the classes that are scored");
    return *scored;
  }

  ClassMap scored_;
  std::optional<ClassMap> raw_;
};

Confusion score(const LabelledInput& input, const sparseconv::Engine& engine,
                const Scoring& scoring, int views) {
  Confusion confusion(static_cast<std::int64_t>(scoring.classes().ids.size()));
  if (input.voxels) {
    ENSURE(views == 1, "--views turns clouds, and this is a voxel file");
    const auto result = engine.run(*input.voxels);
    confusion.add(scoring.truth(input.voxels->labels),
                  scoring.prediction(result.labels(Scoring::kDropped)));
  } else if (input.cloud->size() > 0) {
    const auto truth = scoring.truth(input.cloud->get("label"));
    const auto result = sparseconv::run_views(engine, *input.cloud, views);
    confusion.add(truth, scoring.prediction(result.labels(Scoring::kDropped)));
  }
  return confusion;
}

Json entry_of(const fs::path& path, const Confusion& confusion) {
  return {{"path", text_of(path)},
          {"points", confusion.scored() + confusion.ignored()},
          {"scored", confusion.scored()},
          {"miou", confusion.mean_iou()},
          {"accuracy", confusion.accuracy()}};
}

int evaluate(const Arguments& arguments) {
  const Settings settings = settings_of(arguments);
  LabelledFiles found = find_labelled(arguments.inputs()[0]);
  sparseconv::Model model;
  try {
    model = sparseconv::load_model(settings.model);
  } catch (const base::Error& error) {
    report_error(settings.model.string(), error.what());
    return kSomeFailed;
  }
  ENSURE(!model.classes.empty(), settings.model.string(),
         ": the model has no classes, so it gives no labels to score");
  sparseconv::check_views(model, settings.views);
  const Scoring scoring(model, settings);
  const sparseconv::Engine engine(std::move(model), settings.engine);
  const ScoredClasses classes = scoring.classes();
  Confusion total(static_cast<std::int64_t>(classes.ids.size()));

  watch_interrupts();
  BatchReport report("eval");
  report.failed(found.failures);
  if (found.unlabelled > 0 && !found.files.empty()) {
    report_warning(arguments.inputs()[0],
                   base::concat(found.unlabelled, " scans without labels are left out"));
  }
  {
    Progress progress("eval", static_cast<std::int64_t>(found.files.size()));
    OrderedLoader<LabelledInput> loader(found.files.size(), settings.jobs, [&](std::size_t i) {
      return read_labelled(found.files[i]);
    });
    while (auto loaded = loader.next()) {
      const fs::path& path = found.files[loaded->index].path;
      try {
        if (!loaded->value) base::fail(loaded->error);
        const Confusion confusion = score(*loaded->value, engine, scoring, settings.views);
        total.add(confusion);
        report.done(entry_of(path, confusion));
      } catch (...) {
        report.failed(path.string(), current_error());
      }
      progress.advance();
      if (is_interrupted()) {
        report.stopped("interrupted",
                       static_cast<std::int64_t>(found.files.size() - loaded->index - 1));
        break;
      }
    }
  }
  if (total.scored() == 0 && report.document()["errors"].empty() && !is_interrupted())
    report.failed(arguments.inputs()[0], "no point has a class that is scored");
  if (settings.as_json) {
    Json document = report.document();
    document.update(score_json(total, classes));
    print_json(document);
  } else {
    print_text(score_table(total, classes));
    if (settings.shows_confusion) print_text("\n" + confusion_table(total, classes));
  }
  return report.close();
}

}  // namespace

Command eval_command() {
  Command command{
      .name = "eval",
      .summary = "scores a model on labelled scans: IoU a class, mIoU, accuracy",
      .usage = "--model M.h5 DIR [options]",
      .examples =
          "  sparseconv eval --model models/street.h5 street/\n"
          "  sparseconv eval --model m.h5 sequences/08 --merge seven.json --json\n"
          "  sparseconv eval --model m.h5 kitti/ --classes kitti.json   raw labels to ids\n"
          "\n"
          "DIR holds velodyne/a.bin with labels/a.label, a.bin with a.label beside it,\n"
          "clouds with a field 'label', or voxel files with labels, at any depth.\n"
          "MAP.json: {\"classes\": [{\"id\", \"name\", \"from\": [ids]}], \"ignore\": [ids]}\n"};
  auto add = command.options.add_options();
  add("model", value<std::string>(), "model file with classes");
  add("classes", value<std::string>(),
      "class map from the numbers in the files to class ids (default: they are class ids, 0 is "
      "ignored)");
  add("merge", value<std::string>(), "class map from class ids to the classes to score");
  add("confusion", "print the confusion matrix too");
  add("device", value<std::string>(), "cpu, cuda or cuda:N (cpu)");
  add("dtype", value<std::string>(), "fp32, tf32, fp16, bf16; fp8, int8 on a GPU (fp32)");
  add("views", value<std::string>(),
      "times that each cloud is computed, turned about z, for the mean of its class probabilities "
      "(1)");
  add("jobs", value<std::string>(), "files read ahead (2)");
  add("threads", value<std::string>(), "compute threads (all cores)");
  add("json", "one JSON document on stdout");
  command.min_inputs = command.max_inputs = 1;
  command.run = evaluate;
  return command;
}

}  // namespace apps
