#include "apps/train/start.hpp"

#include <algorithm>
#include <cmath>

#include "apps/batch/pipeline.hpp"
#include "apps/messages.hpp"
#include "apps/model_features.hpp"
#include "sparseconv/initialise.hpp"

namespace apps {

using namespace sparseconv::training;

namespace {

std::string list_of(const ClassMap& map) {
  std::string text;
  for (const auto& one : map.classes())
    text.append(text.empty() ? "" : ", ")
        .append(std::to_string(one.id))
        .append(" ")
        .append(one.name);
  return text;
}

sparseconv::Model read_model(const std::filesystem::path& path) {
  try {
    return sparseconv::load_model(path);
  } catch (const base::Error& error) {
    base::fail(path.string(), ": ", error.what());
  }
}

SampleOptions sample_options(const TrainSettings& settings, const sparseconv::ModelInput& input) {
  SampleOptions options{.input = input, .seed = settings.seed};
  options.is_augmented = settings.is_augmented;
  options.augment = settings.augment;
  return options;
}

std::vector<LabelledFile> files_below(const std::string& folder) {
  LabelledFiles found = find_labelled(folder);
  ENSURE(found.failures.empty(), found.failures[0].path, ": ", found.failures[0].message);
  if (found.unlabelled > 0)
    report_warning(folder, base::concat(found.unlabelled, " scans without labels are left out"));
  return std::move(found.files);
}

}  // namespace

ClassMap classes_of_training(const TrainSettings& settings) {
  if (!settings.classes.empty()) return ClassMap::read(settings.classes);
  if (settings.is_simulated()) return simulator_classes();
  ENSURE_USAGE(!settings.model.empty(),
               "--classes MAP.json is missing: it says which numbers in the files are which class");
  return ClassMap::of_model(read_model(settings.model));
}

sparseconv::Model starting_model(const TrainSettings& settings, const ClassMap& map) {
  if (!settings.model.empty()) {
    sparseconv::Model model = read_model(settings.model);
    ENSURE(model.class_ids == map.ids(), settings.model.string(),
           ": the classes of the model are not those of the class map (", list_of(map), ")");
    if (!settings.features.empty()) set_features(model, settings.features);
    return model;
  }
  sparseconv::ArchitectureOptions options{
      .in_channels = static_cast<std::int64_t>(settings.features.size()),
      .classes = map.names(),
      .width = settings.width,
      .seed = settings.seed,
      .voxel_size = settings.voxel_size};
  sparseconv::Model model = sparseconv::build_architecture(settings.architecture, options);
  ENSURE(!model.classes.empty(), settings.architecture,
         " gives no class a voxel; train takes the encoder-decoder networks");
  model.class_ids = map.ids();
  model.input.features = settings.features;
  sparseconv::initialise_weights(model, settings.seed);
  return model;
}

DataParts find_data(const TrainSettings& settings) {
  DataParts parts;
  if (!settings.is_simulated()) {
    std::vector<LabelledFile> files = files_below(settings.data);
    const double share = settings.validation.empty() ? settings.validation_share : 0;
    const auto stride =
        share > 0 ? std::max<std::size_t>(2, static_cast<std::size_t>(std::lround(1 / share)))
                  : SIZE_MAX;
    for (std::size_t i = 0; i < files.size(); ++i)
      ((i + 1) % stride == 0 ? parts.validation : parts.training).push_back(files[i]);
  }
  if (!settings.validation.empty()) parts.validation = files_below(settings.validation);
  return parts;
}

std::unique_ptr<SampleSource> training_source(const TrainSettings& settings, const DataParts& parts,
                                              const ClassMap& map,
                                              const sparseconv::ModelInput& input,
                                              const InstanceBank* bank) {
  SampleOptions options = sample_options(settings, input);
  options.bank = bank;
  if (settings.is_simulated())
    return make_simulator_source(settings.scans, settings.uses, map, options);
  return make_file_source(parts.training, map, options);
}

std::unique_ptr<SampleSource> validation_source(const TrainSettings& settings,
                                                const DataParts& parts, const ClassMap& map,
                                                const sparseconv::ModelInput& input) {
  SampleOptions options = sample_options(settings, input);
  options.is_augmented = false;
  if (!settings.is_simulated() || !settings.validation.empty())
    return make_file_source(parts.validation, map, options);
  options.seed = ~settings.seed;  // streets that training never sees
  return make_simulator_source(settings.validation_scans, 1, map, options);
}

void fill_bank(InstanceBank& bank, const std::vector<LabelledFile>& files, const ClassMap& map) {
  constexpr std::int64_t kScans = 100;
  const auto source = make_file_source(files, map, {.is_augmented = false});
  const std::int64_t scans = std::min(kScans, source->size());
  std::vector<std::int64_t> counts(map.classes().size(), 0);
  std::vector<LabelledCloud> read;
  for (std::int64_t i = 0; i < scans; ++i) {
    auto scan = source->scan(i);
    if (!scan) continue;
    for (const std::int32_t label : scan->labels)
      if (label >= 0) ++counts[static_cast<std::size_t>(label)];
    read.push_back(std::move(*scan));
  }
  std::int64_t total = 0;
  for (const std::int64_t n : counts) total += n;
  std::vector<std::int32_t> rare;
  for (std::size_t c = 0; c < counts.size(); ++c)
    if (counts[c] * 50 < total) rare.push_back(static_cast<std::int32_t>(c));
  for (const LabelledCloud& scan : read) bank.add(scan, rare);
}

std::vector<float> class_weights(const std::string& kind, const SampleSource& source,
                                 std::size_t classes, int jobs) {
  if (kind == "none") return {};
  constexpr std::int64_t kSamples = 24;
  std::vector<double> counts(classes, 0);
  OrderedLoader<Batch> loader(
      static_cast<std::size_t>(std::min(kSamples, source.size())), jobs,
      [&](std::size_t i) { return source.sample(0, static_cast<std::int64_t>(i)); });
  while (auto loaded = loader.next()) {
    ENSURE(loaded->value, loaded->error);
    for (const std::int32_t label : loaded->value->labels)
      if (label >= 0) ++counts[static_cast<std::size_t>(label)];
  }
  const double most = *std::ranges::max_element(counts);
  if (most == 0) return {};
  const double power = kind == "inverse" ? 1 : 0.5;
  std::vector<float> weights(classes, 1);
  double sum = 0, occurring = 0;
  for (std::size_t c = 0; c < classes; ++c) {
    if (counts[c] == 0) continue;
    weights[c] = static_cast<float>(std::min(8.0, std::pow(most / counts[c], power)));
    sum += weights[c];
    ++occurring;
  }
  for (std::size_t c = 0; c < classes; ++c)
    weights[c] = counts[c] == 0 ? 1.0f : static_cast<float>(weights[c] * occurring / sum);
  return weights;
}

}  // namespace apps
