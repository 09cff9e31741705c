#include "apps/train/sample_source.hpp"

#include <algorithm>
#include <mutex>
#include <numeric>

#include "apps/batch/pipeline.hpp"
#include "gemm_core/base/parallel.hpp"
#include "io/simulator.hpp"
#include "sparseconv/training/random.hpp"

namespace apps {

using namespace sparseconv::training;

namespace {

// What each seed is for; at the end of the list, so that old seeds keep their samples.
enum class Purpose : std::uint64_t { order, augment, street };

std::uint64_t seed_for(const SampleOptions& options, Purpose purpose, std::int64_t epoch,
                       std::int64_t number) {
  return stream_of(options.seed, static_cast<std::uint64_t>(purpose), epoch, number);
}

std::vector<std::int32_t> instances_of(const io::Cloud& cloud) {
  const io::Column* column = cloud.find("instance");
  if (column == nullptr || column->field.count != 1) return {};
  std::vector<std::int32_t> instances(static_cast<std::size_t>(cloud.size()));
  for (std::size_t i = 0; i < instances.size(); ++i)
    instances[i] = static_cast<std::int32_t>(column->at(static_cast<std::int64_t>(i)));
  return instances;
}

LabelledCloud labelled(io::Cloud cloud, const ClassMap& map) {
  LabelledCloud scan;
  if (cloud.size() > 0) scan.labels = map.indices(cloud.get("label"));
  scan.instances = instances_of(cloud);
  scan.cloud = std::move(cloud);
  return scan;
}

Batch finished(const LabelledCloud& scan, const SampleOptions& options, std::int64_t epoch,
               std::int64_t number) {
  if (!options.is_augmented) return make_batch(scan, options.input);
  const std::uint64_t seed = seed_for(options, Purpose::augment, epoch, number);
  return make_batch(augment(scan, options.augment, seed, options.bank), options.input);
}

// Several samples are made at a time, and a step of the network beside them.
template <class Work>
auto on_this_thread_alone(const Work& work) {
  std::optional<decltype(work())> result;
  const base::Threads alone(1);
  alone.run([&] { result.emplace(work()); });
  return std::move(*result);
}

class FileSource final : public SampleSource {
 public:
  FileSource(std::vector<LabelledFile> files, ClassMap map, SampleOptions options)
      : files_(std::move(files)), map_(std::move(map)), options_(std::move(options)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }

  Batch sample(std::int64_t epoch, std::int64_t position) const override {
    const std::int64_t number = file_of(epoch, position);
    const LabelledFile& file = files_[static_cast<std::size_t>(number)];
    try {
      LabelledInput input = read_labelled(file);
      if (input.voxels) return of_voxels(std::move(*input.voxels));
      return on_this_thread_alone([&] {
        return finished(labelled(std::move(*input.cloud), map_), options_, epoch, number);
      });
    } catch (...) {
      base::fail(file.path.string(), ": ", current_error());
    }
  }

  std::optional<LabelledCloud> scan(std::int64_t position) const override {
    const LabelledFile& file = files_[static_cast<std::size_t>(position)];
    try {
      LabelledInput input = read_labelled(file);
      if (!input.cloud) return std::nullopt;
      return labelled(std::move(*input.cloud), map_);
    } catch (...) {
      base::fail(file.path.string(), ": ", current_error());
    }
  }

 private:
  // A permutation of the files by sorting hashes: any position can be asked for at any time.
  std::int64_t file_of(std::int64_t epoch, std::int64_t position) const {
    if (!options_.is_augmented) return position;
    std::vector<std::pair<std::uint64_t, std::int64_t>> order;
    for (std::int64_t i = 0; i < size(); ++i)
      order.emplace_back(seed_for(options_, Purpose::order, epoch, i), i);
    const auto at = order.begin() + position;
    std::nth_element(order.begin(), at, order.end());
    return at->second;
  }

  Batch of_voxels(sparseconv::VoxelFile file) const {
    ENSURE(file.tensor.channels() == static_cast<std::int64_t>(options_.input.features.size()),
           "voxels have ", file.tensor.channels(), " channels, the model takes ",
           options_.input.features.size());
    Batch batch;
    batch.labels = map_.indices(file.labels);
    batch.voxels = std::move(file.tensor);
    if (batch.voxels.features.dtype() != base::DType::f32)
      batch.voxels.features = batch.voxels.features.to(base::DType::f32);
    return batch;
  }

  std::vector<LabelledFile> files_;
  ClassMap map_;
  SampleOptions options_;
};

// What augmentation and voxels ask for: a tenth of gigabyte less for each thousand scans kept.
io::Cloud without_extras(const io::Cloud& cloud) {
  io::Cloud kept(cloud.size());
  for (const char* name : {"x", "y", "z", "intensity", "ring"}) {
    const io::Column& column = cloud.get(name);
    kept.add(column.field, column.values);
  }
  kept.width = cloud.width;
  kept.format = cloud.format;
  return kept;
}

class SimulatorSource final : public SampleSource {
 public:
  SimulatorSource(std::int64_t scans, std::int64_t uses, ClassMap map, SampleOptions options)
      : scans_(scans), uses_(uses), map_(std::move(map)), options_(std::move(options)) {
    if (options_.is_augmented && uses_ > 1)
      kept_ = std::vector<Kept>(static_cast<std::size_t>(scans));
  }

  std::int64_t size() const override { return scans_; }

  Batch sample(std::int64_t epoch, std::int64_t position) const override {
    return on_this_thread_alone([&] {
      if (!kept_.empty()) return finished(*kept(epoch, position), options_, epoch, position);
      const std::int64_t street = options_.is_augmented ? epoch : 0;
      return finished(simulated(street, position), options_, epoch, position);
    });
  }

  std::optional<LabelledCloud> scan(std::int64_t position) const override {
    return simulated(0, position);
  }

 private:
  struct Kept {
    std::mutex mutex;
    std::int64_t street = -1;
    std::shared_ptr<const LabelledCloud> scan;
  };

  LabelledCloud simulated(std::int64_t street, std::int64_t position) const {
    const io::Simulator simulator(
        io::SimulatorOptions::randomised(seed_for(options_, Purpose::street, street, position)));
    return labelled(simulator.frame(0), map_);
  }

  // Positions change their streets in turn, so that each epoch simulates as many.
  std::shared_ptr<const LabelledCloud> kept(std::int64_t epoch, std::int64_t position) const {
    const std::int64_t street = (epoch + position % uses_) / uses_;
    Kept& place = kept_[static_cast<std::size_t>(position)];
    const std::lock_guard lock(place.mutex);
    if (place.street != street) {
      place.scan.reset();
      LabelledCloud scan = simulated(street, position);
      scan.cloud = without_extras(scan.cloud);
      scan.instances.clear();
      place.scan = std::make_shared<const LabelledCloud>(std::move(scan));
      place.street = street;
    }
    return place.scan;
  }

  std::int64_t scans_, uses_;
  ClassMap map_;
  SampleOptions options_;
  mutable std::vector<Kept> kept_;  // of a position; empty where each street is used once
};

}  // namespace

std::unique_ptr<SampleSource> make_file_source(std::vector<LabelledFile> files, ClassMap map,
                                               SampleOptions options) {
  return std::make_unique<FileSource>(std::move(files), std::move(map), std::move(options));
}

std::unique_ptr<SampleSource> make_simulator_source(std::int64_t scans, std::int64_t uses,
                                                    ClassMap map, SampleOptions options) {
  return std::make_unique<SimulatorSource>(scans, uses, std::move(map), std::move(options));
}

ClassMap simulator_classes() {
  const std::vector<std::string> names = io::simulator_class_names();
  std::vector<ClassMap::Class> classes;
  for (std::size_t id = 1; id < names.size(); ++id) {
    const auto number = static_cast<std::int64_t>(id);
    classes.push_back({number, names[id], {number}});
  }
  return {std::move(classes), {0}};
}

}  // namespace apps
