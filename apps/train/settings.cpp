#include "apps/train/settings.hpp"

#include <algorithm>
#include <cmath>

#include "apps/values.hpp"

namespace apps {

using namespace sparseconv::training;

namespace {

double number_option(const Arguments& arguments, const std::string& option, double otherwise,
                     double low, double high) {
  if (!arguments.has(option)) return otherwise;
  const double number = parse_number(option, arguments.text(option));
  ENSURE_USAGE(number >= low && number <= high, "--", option, ": ", number, " is not in ", low,
               "..", high);
  return number;
}

// "rotation=180,flip=0.5": only what is named differs from the preset.
AugmentOptions augment_options(const std::string& text) {
  struct Knob {
    const char* name;
    double AugmentOptions::*value;
    double most;
  };
  constexpr Knob kKnobs[] = {{"skip-beams", &AugmentOptions::skip_beams, 1},
                             {"skip-azimuths", &AugmentOptions::skip_azimuths, 1},
                             {"drop", &AugmentOptions::drop, 0.95},
                             {"rotation", &AugmentOptions::rotation, 180},
                             {"flip", &AugmentOptions::flip, 1},
                             {"tilt", &AugmentOptions::tilt, 20},
                             {"scale", &AugmentOptions::scale, 0.9},
                             {"shift-z", &AugmentOptions::shift_z, 100},
                             {"jitter", &AugmentOptions::jitter, 10},
                             {"intensity", &AugmentOptions::intensity, 10},
                             {"mute-intensity", &AugmentOptions::mute_intensity, 1}};
  AugmentOptions options = AugmentOptions::street();
  for (const std::string& part : split_list(text)) {
    const std::size_t equals = part.find('=');
    const std::string name = part.substr(0, equals);
    const double number = equals == std::string::npos
                              ? NAN
                              : parse_number("augment " + name, part.substr(equals + 1));
    if (name == "paste") {
      ENSURE_USAGE(number >= 0 && number <= 100, "--augment: paste is not in 0..100");
      options.paste = static_cast<int>(number);
      continue;
    }
    const auto knob = std::ranges::find_if(kKnobs, [&](const Knob& k) { return name == k.name; });
    std::string known;
    for (const Knob& k : kKnobs) known.append(" ").append(k.name);
    ENSURE_USAGE(knob != std::end(kKnobs), "--augment: '", name, "' is none of: paste", known);
    ENSURE_USAGE(number >= 0 && number <= knob->most, "--augment: ", part,
                 " is not NAME=NUMBER with a number in 0..", knob->most);
    options.*(knob->value) = number;
  }
  return options;
}

void read_data(const Arguments& arguments, TrainSettings& settings) {
  settings.data = arguments.required("data");
  settings.classes = arguments.text("classes");
  settings.validation = arguments.text("validation");
  settings.validation_share = number_option(arguments, "validation-share", 0.1, 0, 0.9);
  settings.scans = integer_option(arguments, "scans", 500, 1, 100000000);
  settings.uses = integer_option(arguments, "uses", 1, 1, 1000000);
  settings.validation_scans = integer_option(arguments, "validation-scans", 24, 0, 100000);
  settings.is_augmented = arguments.text("augment") != "none";
  if (settings.is_augmented) settings.augment = augment_options(arguments.text("augment"));
}

void read_network(const Arguments& arguments, TrainSettings& settings) {
  settings.model = arguments.text("model");
  settings.architecture = arguments.text("arch");
  ENSURE_USAGE(settings.model.empty() != settings.architecture.empty(),
               "give either --model FILE or --arch NAME");
  for (const char* drawn : {"width", "voxel-size"}) {
    ENSURE_USAGE(settings.model.empty() || !arguments.has(drawn), "--", drawn,
                 " belongs to --arch; a model file has its own");
  }
  settings.features = split_list(arguments.text("features"));
  if (settings.architecture.empty()) return;
  settings.architecture = choice_option(arguments, "arch", "", sparseconv::architecture_names());
  settings.width = number_option(arguments, "width", 1, 0.01, 64);
  settings.voxel_size = number_option(arguments, "voxel-size", 0.1, 1e-6, 1e6);
  if (settings.features.empty()) settings.features = {"z", "dx", "dy", "dz", "one"};
}

void read_training(const Arguments& arguments, TrainSettings& settings) {
  TrainOptions& training = settings.training;
  training.optimiser.kind =
      choice_option(arguments, "optimiser", "adamw", {"adamw", "sgd"}) == "sgd"
          ? OptimiserOptions::Kind::sgd
          : OptimiserOptions::Kind::adamw;
  const bool is_sgd = training.optimiser.kind == OptimiserOptions::Kind::sgd;
  training.optimiser.nesterov = is_sgd;
  training.optimiser.weight_decay =
      number_option(arguments, "weight-decay", is_sgd ? 1e-4 : 0.01, 0, 10);
  const std::string shape =
      choice_option(arguments, "schedule", "one-cycle", {"one-cycle", "cosine", "constant"});
  training.schedule.kind = shape == "cosine"     ? ScheduleOptions::Kind::cosine
                           : shape == "constant" ? ScheduleOptions::Kind::constant
                                                 : ScheduleOptions::Kind::one_cycle;
  training.schedule.rate = number_option(arguments, "rate", is_sgd ? 0.1 : 0.003, 0, 100);
  training.schedule.warmup_steps = integer_option(arguments, "warmup", 0, 0, 100000000);
  training.schedule.rise = number_option(arguments, "rise", 0.15, 0, 1);
  training.clip_norm = number_option(arguments, "clip", 10, 0, 1e9);
  training.ema_decay = number_option(arguments, "ema", 0, 0, 0.999999);
  training.loss.lovasz_weight = number_option(arguments, "lovasz", 1, 0, 100);
  training.loss.label_smoothing = number_option(arguments, "label-smoothing", 0, 0, 0.9);
  training.loss.focal_gamma = number_option(arguments, "focal", 0, 0, 10);
  training.device = arguments.get_or<std::string>("device", "cpu");
  training.dtype = choice_option(arguments, "dtype", "fp32", {"fp32", "tf32", "fp16", "bf16"});
  training.threads = static_cast<int>(integer_option(arguments, "threads", 0, 1, 4096));
  settings.class_weights =
      choice_option(arguments, "class-weights", "sqrt", {"none", "sqrt", "inverse"});
}

std::string signature_of(const Arguments& arguments) {
  std::string text = "train";
  for (const char* option : {"model",
                             "arch",
                             "width",
                             "voxel-size",
                             "features",
                             "data",
                             "classes",
                             "scans",
                             "uses",
                             "augment",
                             "validation-share",
                             "epochs",
                             "batch",
                             "seed",
                             "optimiser",
                             "weight-decay",
                             "schedule",
                             "rate",
                             "warmup",
                             "rise",
                             "clip",
                             "ema",
                             "lovasz",
                             "label-smoothing",
                             "focal",
                             "class-weights",
                             "dtype"}) {
    if (arguments.has(option)) text += std::string(" --") + option + ' ' + arguments.text(option);
  }
  return text;
}

}  // namespace

void add_train_options(Command& command) {
  auto add = command.options.add_options();
  const auto text = [] { return value<std::string>(); };
  add("model", text(), "model file to go on from");
  add("arch", text(), "built-in architecture to begin from seeded weights");
  add("width", text(), "factor on the channels of --arch (1)");
  add("voxel-size", text(), "metres, with --arch (0.1)");
  add("features", text(),
      "of a voxel (z,dx,dy,dz,one); with --model (its own): new ones begin with weights of 0");
  add("data", text(), "folder of labelled scans, or: simulator");
  add("classes", text(),
      "class map from the numbers in the files to classes (simulator: 1 road ...)");
  add("validation", text(), "folder to validate on (default: a share of --data)");
  add("validation-share", text(), "share of the files that is kept to validate (0.1)");
  add("scans", text(), "simulated scans an epoch (500)");
  add("uses", text(),
      "epochs in a row that a simulated street is used in, augmented anew (1); --scans are kept in "
      "memory where it is more, about 1.5 MB each");
  add("validation-scans", text(), "simulated scans to validate on (24)");
  add("augment", text(), "none, or changes to the preset: rotation=180,scale=0.1,paste=3,...");
  add("epochs", text(), "how often the data is gone through");
  add("output,o", text(), "model file; beside it OUT.log.jsonl, OUT.curves.png, OUT.checkpoint.h5");
  add("weights", text(), "how OUT.h5 stores weights: fp32 or fp16 (fp32)");
  add("batch", text(), "scans a step (2)");
  add("seed", text(), "of weights, order, augmentation and streets (0)");
  add("optimiser", text(), "adamw or sgd (adamw)");
  add("rate", text(), "highest learning rate (0.003; sgd 0.1)");
  add("schedule", text(), "one-cycle, cosine or constant (one-cycle)");
  add("rise", text(), "share of the steps in which one-cycle rises (0.15)");
  add("warmup", text(), "steps of linear warm-up (0)");
  add("weight-decay", text(), "(0.01; sgd 0.0001)");
  add("clip", text(), "largest L2 norm of the gradient; 0: any (10)");
  add("ema", text(), "decay of a moving average of the weights, which OUT.h5 then holds (0: none)");
  add("class-weights", text(), "none, sqrt or inverse: of the classes' frequencies (sqrt)");
  add("lovasz", text(), "weight of the Lovasz-softmax beside cross-entropy (1)");
  add("label-smoothing", text(), "(0)");
  add("focal", text(), "gamma of a focal cross-entropy (0)");
  add("device", text(), "cpu, cuda or cuda:N (cpu)");
  add("dtype", text(), "fp32, tf32, fp16 or bf16 (fp32)");
  add("threads", text(), "compute threads (all cores)");
  add("jobs", text(), "threads that make batches, up to three each ahead (2)");
  add("checkpoint-minutes", text(), "time between checkpoints within an epoch (5)");
  add("stop-after", text(), "steps of this call: then as after Ctrl-C, to share a machine");
  add("resume", "go on from OUT.checkpoint.h5, to the same weights");
  add("json", "one JSON document on stdout: the scores at the end");
}

TrainSettings train_settings(const Arguments& arguments) {
  TrainSettings settings;
  read_network(arguments, settings);
  read_data(arguments, settings);
  read_training(arguments, settings);
  ENSURE_USAGE(arguments.has("epochs"), "--epochs is missing");
  settings.epochs = integer_option(arguments, "epochs", 0, 1, 1000000);
  settings.batch = integer_option(arguments, "batch", 2, 1, 512);
  settings.seed = static_cast<std::uint64_t>(integer_option(arguments, "seed", 0, 0, INT64_MAX));
  settings.jobs = static_cast<int>(integer_option(arguments, "jobs", 2, 1, 256));
  settings.checkpoint_minutes = number_option(arguments, "checkpoint-minutes", 5, 0.01, 1e6);
  settings.stop_after = integer_option(arguments, "stop-after", 0, 1, INT64_MAX);
  settings.output = arguments.required("output");
  settings.is_resumed = arguments.has("resume");
  settings.as_json = arguments.has("json");
  settings.stores_fp16 = choice_option(arguments, "weights", "fp32", {"fp32", "fp16"}) == "fp16";
  settings.signature = signature_of(arguments);
  return settings;
}

}  // namespace apps
