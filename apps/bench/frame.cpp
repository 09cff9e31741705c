#include <algorithm>
#include <filesystem>

#include "apps/batch/inputs.hpp"
#include "apps/bench/bench.hpp"
#include "apps/read_options.hpp"
#include "apps/results.hpp"
#include "apps/values.hpp"
#include "io/simulator.hpp"
#include "sparseconv/voxel_file.hpp"
#include "sparseconv/voxelize.hpp"

namespace apps {
namespace {

std::vector<io::Cloud> street(std::uint64_t seed, int frames) {
  const io::Simulator simulator({.sensor = "hdl64", .seed = seed});
  std::vector<io::Cloud> clouds;
  for (int i = 0; i < frames; ++i) clouds.push_back(simulator.frame(i));
  return clouds;
}

std::vector<std::filesystem::path> repeated(std::vector<std::filesystem::path> files, int count) {
  const std::size_t given = files.size();
  while (given > 0 && files.size() < static_cast<std::size_t>(count)) {
    files.push_back(files[files.size() - given]);
  }
  return files;
}

// read(path); what it throws names the file.
template <class Read>
auto of_file(const std::filesystem::path& path, const Read& read) {
  try {
    return read(path);
  } catch (const std::exception& error) {
    throw FileError(text_of(path), error.what());
  }
}

}  // namespace

void add_frame_options(Command& command) {
  auto add = command.options.add_options();
  add("input", value<std::vector<std::string>>()->multitoken(),
      "clouds or one voxel file (a simulated street)");
  add("voxel-size", value<std::string>(), "v or vx,vy,vz in metres (0.1)");
  add("batch", value<std::string>(), "frames in one tensor (1)");
  add("seed", value<std::string>(), "of the simulated street (1)");
}

FrameOptions frame_options(const Arguments& arguments) {
  FrameOptions options;
  options.inputs = arguments.get_or<std::vector<std::string>>("input", {});
  options.voxelize.voxel_size =
      parse_voxel_size("voxel-size", arguments.get_or<std::string>("voxel-size", "0.1"));
  options.batch = static_cast<int>(integer_option(arguments, "batch", 1, 1, 1024));
  options.seed = static_cast<std::uint64_t>(integer_option(arguments, "seed", 1, 0, INT64_MAX));
  return options;
}

BenchFrame load_frame(const FrameOptions& options) {
  BenchFrame frame;
  const Inputs inputs = find_inputs(options.inputs);
  for (const InputFailure& failure : inputs.failures)
    throw FileError(failure.path, failure.message);
  if (inputs.files.size() == 1 && sparseconv::is_voxel_file(inputs.files[0].path)) {
    frame.voxels = of_file(inputs.files[0].path, sparseconv::read_voxel_file).tensor;
    frame.voxels.features = frame.voxels.features.to(base::DType::f32);
    return frame;
  }
  for (const InputFile& file : inputs.files) frame.files.push_back(file.path);
  frame.files = repeated(std::move(frame.files), options.batch);
  for (const auto& file : frame.files) {
    frame.clouds.push_back(of_file(file, [](const auto& path) { return read_cloud(path, {}); }));
  }
  if (frame.clouds.empty()) frame.clouds = street(options.seed, options.batch);
  std::vector<const io::Cloud*> clouds;
  for (const io::Cloud& cloud : frame.clouds) clouds.push_back(&cloud);
  sparseconv::VoxelizeOptions how = options.voxelize;
  for (const std::string& feature : how.features) how.defaults.emplace(feature, 0);
  frame.voxels = sparseconv::voxelize(clouds, how).tensor;
  return frame;
}

}  // namespace apps
