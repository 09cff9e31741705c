#include "apps/train/session.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <future>
#include <optional>

#include "apps/batch/interrupt.hpp"
#include "apps/batch/pipeline.hpp"
#include "apps/messages.hpp"
#include "apps/train/start.hpp"
#include "sparseconv/engine.hpp"

namespace apps {
namespace fs = std::filesystem;
using namespace sparseconv::training;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::max(0.0, seconds));
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

// A device waits for the one thread that feeds it: where cores are few, those that make batches
// give way. (On Linux the priority is the thread's own.)
void give_way() {
  static thread_local const int result = setpriority(PRIO_PROCESS, 0, 10);
  (void)result;  // a system that refuses leaves things as they were
}

// Errors of writing begin with the file that was to be written.
void write_named(const fs::path& path, const std::function<void()>& write) {
  try {
    write();
  } catch (const base::Error& error) {
    base::fail(path.string(), ": ", error.what());
  }
}

// Before the first step, not after the first epoch.
void check_is_writable(const fs::path& output) {
  std::error_code error;
  ENSURE(!fs::is_directory(output, error), output.string(), ": is a folder, not a model file");
  const fs::path folder = output.has_parent_path() ? output.parent_path() : ".";
  ENSURE(::access(folder.c_str(), W_OK | X_OK) == 0, output.string(), ": cannot be written to ",
         folder.string(), ": ", std::strerror(errno));
}

}  // namespace

struct TrainSession::Epoch {
  explicit Epoch(std::int64_t classes) : confusion(classes) {}
  std::int64_t number = 0;  // from 1
  std::int64_t steps = 0, voxels = 0, labelled = 0;
  double loss = 0, rate = 0, step_ms = 0;
  Confusion confusion;
  Clock::time_point start = Clock::now();
  std::future<void> counting;

  ~Epoch() {
    if (counting.valid()) counting.wait();
  }
  // Labels are counted, and the batch is let go, while the next step runs.
  void add(Batch batch, StepReport report) {
    ++steps;
    voxels += batch.voxels.rows();
    labelled += report.labelled;
    loss += report.loss;
    rate = report.learning_rate;
    step_ms += report.maps_ms + report.forward_ms + report.backward_ms + report.update_ms;
    settle();
    counting = std::async(std::launch::async, [this, batch = std::move(batch),
                                               predictions = std::move(report.predictions)] {
      confusion.add(batch.labels, predictions);
    });
  }
  // Before `confusion` is read.
  void settle() {
    if (counting.valid()) counting.get();
  }
};

TrainSession::TrainSession(const TrainSettings& settings)
    : settings_(settings), map_(classes_of_training(settings)) {
  check_is_writable(settings_.output);
  sparseconv::Model model = starting_model(settings_, map_);
  const sparseconv::ModelInput input = model.input;
  DataParts parts = find_data(settings_);
  if (!parts.training.empty() && settings_.is_augmented && settings_.augment.paste > 0)
    fill_bank(bank_, parts.training, map_);
  training_ = training_source(settings_, parts, map_, input, &bank_);
  validation_ = validation_source(settings_, parts, map_, input);
  settings_.training.schedule.steps = settings_.epochs * steps_of_epoch();
  settings_.training.loss.class_weights =
      class_weights(settings_.class_weights, *training_, map_.classes().size(), settings_.jobs);
  if (settings_.training.device != "cpu") settings_.training.usual_rows = usual_rows();
  trainer_ = std::make_unique<Trainer>(std::move(model), settings_.training);
}

// Of a batch, from the first samples.
std::int64_t TrainSession::usual_rows() const {
  const std::int64_t samples = std::min<std::int64_t>(4, training_->size());
  std::int64_t rows = 0;
  for (std::int64_t i = 0; i < samples; ++i) rows += training_->sample(0, i).voxels.rows();
  return std::max<std::int64_t>(1, rows / std::max<std::int64_t>(1, samples)) * settings_.batch;
}

std::int64_t TrainSession::steps_of_epoch() const {
  return (training_->size() + settings_.batch - 1) / settings_.batch;
}

fs::path TrainSession::checkpoint_path() const {
  fs::path path = settings_.output;
  if (path.extension() == ".h5" || path.extension() == ".hdf5") path.replace_extension();
  path += ".checkpoint.h5";
  return path;
}

// The samples of a step; the last one of an epoch may have fewer.
Batch TrainSession::load_batch(std::int64_t step) const {
  const std::int64_t epoch = step / steps_of_epoch();
  const std::int64_t first = step % steps_of_epoch() * settings_.batch;
  const std::int64_t last = std::min(first + settings_.batch, training_->size());
  std::vector<Batch> samples;
  for (std::int64_t i = first; i < last; ++i) samples.push_back(training_->sample(epoch, i));
  return joined(samples);
}

void TrainSession::save_checkpoint() {
  const Json note{{"signature", settings_.signature}, {"steps", steps_done_}};
  write_named(checkpoint_path(),
              [&] { trainer_->save_checkpoint(checkpoint_path(), note.dump()); });
}

void TrainSession::resume() {
  const fs::path path = checkpoint_path();
  std::error_code error;
  ENSURE(fs::is_regular_file(path, error), path.string(),
         ": no checkpoint to resume from; leave --resume out to begin");
  Json note;
  try {
    note = Json::parse(trainer_->resume(path), nullptr, false);
  } catch (const base::Error& failure) {
    base::fail(path.string(), ": ", failure.what());
  }
  ENSURE(note.is_object() && note.contains("signature") && note.contains("steps"), path.string(),
         ": is no checkpoint of this command");
  const std::string signature = note["signature"].get<std::string>();
  ENSURE(signature == settings_.signature, path.string(), ": was made by '", signature,
         "', not by '", settings_.signature, "'");
  steps_done_ = note["steps"].get<std::int64_t>();
}

void TrainSession::report_progress(const Epoch& epoch, double loss) const {
  const std::int64_t all = settings_.training.schedule.steps;
  const double seconds = seconds_since(epoch.start);
  const double left = static_cast<double>(all - steps_done_) * seconds /
                      static_cast<double>(std::max<std::int64_t>(1, epoch.steps));
  report_note(fmt::format(
      "epoch {}/{} step {}/{} loss {:.4f} mIoU {:.3f} accuracy {:.3f} rate {:.2e} {:.0f}k voxels/s "
      "busy {:.0f}% left {}",
      epoch.number, settings_.epochs, steps_done_, all, loss, epoch.confusion.mean_iou(),
      epoch.confusion.accuracy(), epoch.rate, static_cast<double>(epoch.voxels) / seconds / 1000,
      epoch.step_ms / 10 / seconds, clock_text(left)));
}

// Voxels of the validation scans, through the engine that users run.
Confusion TrainSession::validate() const {
  Confusion confusion(static_cast<std::int64_t>(map_.classes().size()));
  if (!validation_ || validation_->size() == 0) return confusion;
  sparseconv::Model model = trainer_->model();
  for (std::size_t c = 0; c < model.class_ids.size(); ++c)
    model.class_ids[c] = static_cast<std::int64_t>(c);
  const sparseconv::Engine engine(std::move(model), {.device = settings_.training.device,
                                                     .dtype = settings_.training.dtype,
                                                     .threads = settings_.training.threads});
  OrderedLoader<Batch> loader(
      static_cast<std::size_t>(validation_->size()), settings_.jobs,
      [&](std::size_t i) { return validation_->sample(0, static_cast<std::int64_t>(i)); });
  while (auto loaded = loader.next()) {
    if (!loaded->value) base::fail(loaded->error);
    confusion.add(loaded->value->labels, engine.run(loaded->value->voxels).labels(-1));
  }
  return confusion;
}

void TrainSession::finish_epoch(const Epoch& epoch) {
  ENSURE(epoch.labelled > 0, settings_.data,
         ": no voxel of an epoch has a label: every point is ignored");
  const double seconds = seconds_since(epoch.start);
  const bool has_validation = validation_ && validation_->size() > 0;
  last_scores_ = has_validation ? validate() : epoch.confusion;
  Json ious = Json::array();
  for (std::int64_t c = 0; c < last_scores_.classes(); ++c) {
    const auto iou = last_scores_.iou(c);
    ious.push_back(iou ? Json(*iou) : Json(nullptr));
  }
  const double loss = epoch.loss / static_cast<double>(std::max<std::int64_t>(1, epoch.steps));
  write_named(settings_.output, [&] {
    sparseconv::save_model(settings_.output, trainer_->model(),
                           settings_.stores_fp16 ? base::DType::f16 : base::DType::f32);
  });
  save_checkpoint();
  log_->add({{"epoch", epoch.number},
             {"loss", loss},
             {"miou", last_scores_.mean_iou()},
             {"accuracy", last_scores_.accuracy()},
             {"seconds", seconds},
             {"train_miou", epoch.confusion.mean_iou()},
             {"train_accuracy", epoch.confusion.accuracy()},
             {"rate", epoch.rate},
             {"steps", steps_done_},
             {"voxels_per_second", static_cast<double>(epoch.voxels) / std::max(1e-9, seconds)},
             {"busy", epoch.step_ms / 1000 / std::max(1e-9, seconds)},
             {"iou", std::move(ious)}});
  report_note(fmt::format("epoch {}/{} done in {}: loss {:.4f}, {} mIoU {:.3f}, accuracy {:.3f}",
                          epoch.number, settings_.epochs, clock_text(seconds), loss,
                          has_validation ? "validation" : "training", last_scores_.mean_iou(),
                          last_scores_.accuracy()));
}

int TrainSession::run() {
  if (settings_.is_resumed) resume();
  const std::int64_t an_epoch = steps_of_epoch(), all = settings_.training.schedule.steps;
  log_ = std::make_unique<TrainLog>(settings_.output, steps_done_ / an_epoch);
  watch_interrupts();
  const std::int64_t first = steps_done_;
  // A batch of streets that are simulated anew takes several times as long as one of kept streets.
  OrderedLoader<Batch> loader(
      static_cast<std::size_t>(all - first), settings_.jobs,
      [&](std::size_t i) {
        if (settings_.training.device != "cpu") give_way();
        return load_batch(first + static_cast<std::int64_t>(i));
      },
      3 * settings_.jobs);
  const auto class_count = static_cast<std::int64_t>(map_.classes().size());
  std::optional<Epoch> epoch;
  auto last_note = Clock::now(), last_checkpoint = Clock::now();
  while (auto loaded = loader.next()) {
    if (!loaded->value) {  // a bad file: what was learnt before it is kept
      if (steps_done_ > first) save_checkpoint();
      base::fail(loaded->error);
    }
    if (!epoch) epoch.emplace(class_count);
    epoch->number = steps_done_ / an_epoch + 1;
    StepReport report = trainer_->step(*loaded->value);
    ++steps_done_;
    epoch->add(std::move(*loaded->value), std::move(report));
    if (steps_done_ == first + 1 || seconds_since(last_note) > 10) {
      epoch->settle();
      report_progress(*epoch, epoch->loss / static_cast<double>(epoch->steps));
      last_note = Clock::now();
    }
    if (steps_done_ % an_epoch == 0) {
      epoch->settle();
      finish_epoch(*epoch);
      epoch.reset();
      last_checkpoint = Clock::now();
    } else if (seconds_since(last_checkpoint) > 60 * settings_.checkpoint_minutes) {
      save_checkpoint();
      last_checkpoint = Clock::now();
    }
    const bool is_enough = settings_.stop_after > 0 && steps_done_ - first >= settings_.stop_after;
    if ((is_interrupted() || is_enough) && steps_done_ < all) {
      save_checkpoint();
      report_error("train", fmt::format("stopped after step {} of {}; --resume goes on from {}",
                                        steps_done_, all, checkpoint_path().string()));
      return kSomeFailed;
    }
  }
  if (last_scores_.classes() == 0) last_scores_ = validate();  // resumed at the end
  if (settings_.as_json) {
    Json document{{"model", text_of(settings_.output)},
                  {"log", text_of(log_->path())},
                  {"epochs", settings_.epochs},
                  {"steps", steps_done_}};
    document.update(score_json(last_scores_, classes()));
    print_json(document);
  } else {
    print_text(score_table(last_scores_, classes()) + "\n" +
               confusion_table(last_scores_, classes()));
  }
  return kDone;
}

}  // namespace apps
