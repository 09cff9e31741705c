// What a training starts from: classes, model, data, class weights.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "apps/train/sample_source.hpp"
#include "apps/train/settings.hpp"
#include "sparseconv/model.hpp"

namespace apps {

// --classes; else those of the simulator; else those of --model.
ClassMap classes_of_training(const TrainSettings& settings);

// --model, whose classes must be the map's, or --arch with seeded weights.
sparseconv::Model starting_model(const TrainSettings& settings, const ClassMap& map);

struct DataParts {
  std::vector<LabelledFile> training, validation;  // empty: simulated
};
// Every k-th file is kept to validate, so that the share is as asked for and the same in each run.
DataParts find_data(const TrainSettings& settings);

std::unique_ptr<SampleSource> training_source(const TrainSettings& settings, const DataParts& parts,
                                              const ClassMap& map,
                                              const sparseconv::ModelInput& input,
                                              const sparseconv::training::InstanceBank* bank);
std::unique_ptr<SampleSource> validation_source(const TrainSettings& settings,
                                                const DataParts& parts, const ClassMap& map,
                                                const sparseconv::ModelInput& input);

// Objects of the classes that are rare in the first scans: those with less than 2 % of the points.
void fill_bank(sparseconv::training::InstanceBank& bank, const std::vector<LabelledFile>& files,
               const ClassMap& map);

// Mean 1 over the classes that occur in the first 24 samples: 1, or frequency to the power of -1/2
// (sqrt) or -1 (inverse), within a factor of 8 of the most frequent.
std::vector<float> class_weights(const std::string& kind, const SampleSource& source,
                                 std::size_t classes, int jobs);

}  // namespace apps
