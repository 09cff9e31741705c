// Where training samples come from: labelled files, or the simulator. A sample depends on seed,
// epoch and position alone, so threads may ask for them in any order.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/train/class_map.hpp"
#include "apps/train/labelled_files.hpp"
#include "sparseconv/training/augment.hpp"

namespace apps {

struct SampleOptions {
  sparseconv::ModelInput input;
  std::uint64_t seed = 0;
  bool is_augmented = true;
  sparseconv::training::AugmentOptions augment;
  const sparseconv::training::InstanceBank* bank = nullptr;  // outlives the source
};

class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual std::int64_t size() const = 0;  // samples an epoch
  // One scan, voxelised. Thread-safe. Error begins with the name of the file that is to blame.
  virtual sparseconv::training::Batch sample(std::int64_t epoch, std::int64_t position) const = 0;
  // The scan behind a sample of epoch 0, before augmentation; nothing for voxel files.
  virtual std::optional<sparseconv::training::LabelledCloud> scan(std::int64_t position) const = 0;
};

// Every file once an epoch, in an order drawn anew for each (in the order given where not
// augmented).
std::unique_ptr<SampleSource> make_file_source(std::vector<LabelledFile> files, ClassMap map,
                                               SampleOptions options);
// `scans` streets an epoch, each from another seed: sensor, weather and layout drawn at random. A
// street is simulated once, kept in memory and used in `uses` epochs in a row, augmented anew in
// each; a share of 1 / uses of the positions gets a new one in every epoch. With one use no epoch
// has a street that another has. Not augmented: the same streets in every epoch.
std::unique_ptr<SampleSource> make_simulator_source(std::int64_t scans, std::int64_t uses,
                                                    ClassMap map, SampleOptions options);

// Labels of the simulator as classes: 1 road ... 10 pole; 0 is ignored.
ClassMap simulator_classes();

}  // namespace apps
