#include "sparseconv/training/checkpoint.hpp"

#include "sparseconv/model_file.hpp"

namespace sparseconv::training {
namespace {

constexpr const char* kGroup = "/training";
constexpr std::int64_t kVersion = 1;

std::int64_t integer(const io::Hdf5Reader& file, const char* name) {
  const auto values = file.attribute_numbers(kGroup, name);
  ENSURE(values.size() == 1 && values[0] >= 0, "checkpoint: attribute ", name, " of ", kGroup,
         " is no count");
  return static_cast<std::int64_t>(values[0]);
}

std::string dataset(const char* name) {
  std::string path = kGroup;
  path += '/';
  path += name;
  return path;
}

}  // namespace

void write_checkpoint(const std::filesystem::path& path, const Checkpoint& c) {
  io::Hdf5Writer file(path);
  write_model(file, c.model, base::DType::f32);
  file.create_group(kGroup);
  file.set_attribute(kGroup, "version", kVersion);
  file.set_attribute(kGroup, "optimiser", c.optimiser);
  file.set_attribute(kGroup, "steps", c.steps);
  file.set_attribute(kGroup, "updates", c.updates);
  file.write_text(dataset("note"), c.note);
  const auto write = [&](const char* name, const std::vector<float>& values) {
    file.write<float>(dataset(name), values, {static_cast<std::int64_t>(values.size())});
  };
  write("first", c.first);
  write("second", c.second);
  write("average", c.average);
  file.commit(io::Hdf5Writer::Commit::synced);
}

Checkpoint read_checkpoint(const std::filesystem::path& path) {
  Checkpoint c;
  c.model = load_model(path);
  const io::Hdf5Reader file(path);
  ENSURE(file.is_group(kGroup), "the model file has no group ", kGroup,
         ": it is no checkpoint of a training run");
  const auto version = integer(file, "version");
  ENSURE(version == kVersion, "checkpoint: version ", version, ", this library reads ", kVersion);
  c.optimiser = file.attribute_text(kGroup, "optimiser");
  c.steps = integer(file, "steps");
  c.updates = integer(file, "updates");
  c.note = file.read_text(dataset("note"));
  c.first = file.read<float>(dataset("first"));
  c.second = file.read<float>(dataset("second"));
  c.average = file.read<float>(dataset("average"));
  return c;
}

}  // namespace sparseconv::training
