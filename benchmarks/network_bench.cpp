// Times whole frames of a network on CUDA: voxels on the host in, values on the host out, maps
// built in every frame.
//   network_bench [--arch minkunet42] [--cells FILE] [--dtype fp16] [--batch 1] [--frames 50]
//   [--profile 1]
// --profile: time of each step, one by one with a synchronisation after each, so with launch costs.
// Without a file: procedural surfaces. Medians; "gpu" is from the first copy in to the last copy
// out.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "sparseconv/executor.hpp"
#include "tests/cuda/host_map.hpp"

namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void run(int argc, char** argv) {
  std::string arch = "minkunet42", cells_path;
  base::DType dtype = base::DType::f16;
  int batch = 1, frames = 50;
  bool profiles = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--arch")
      arch = value;
    else if (name == "--cells")
      cells_path = value;
    else if (name == "--dtype")
      dtype = base::parse_dtype(value);
    else if (name == "--batch")
      batch = std::stoi(value);
    else if (name == "--profile")
      profiles = value != "0";
    else if (name == "--frames")
      frames = std::stoi(value);
    else
      base::fail("option ", name, " is not known");
  }
  using namespace sparseconv;
  const auto cells =
      cells_path.empty() ? cuda_tests::surface_cells(96000, 1) : cuda_tests::read_cells(cells_path);
  std::vector<Coord> coords;
  for (int b = 0; b < batch; ++b) {
    for (const auto& c : cells) coords.push_back({b, c.x + b, c.y, c.z});
  }
  std::sort(coords.begin(), coords.end(),
            [](const Coord& a, const Coord& b) { return pack(a) < pack(b); });
  Model model = build_architecture(
      arch, {.in_channels = 4, .classes = {}, .width = 1, .seed = 1, .voxel_size = 0.05});
  validate(model);
  const Plan plan = make_plan(model);
  SparseTensor input;
  const auto rows = static_cast<std::int64_t>(coords.size());
  input.coordinates =
      Coordinates::create(std::move(coords), {.batch_size = batch, .spatial_shape = std::nullopt});
  input.features = base::Tensor::empty({rows, 4}, base::DType::f32);
  for (std::int64_t i = 0; i < rows * 4; ++i)
    input.features.data<float>()[i] = static_cast<float>(i * 7919 % 1000) / 500 - 1;

  const auto executor = make_cuda_executor(
      plan, {.device = {base::Device::Kind::cuda, 0}, .dtype = dtype, .cache_maps = false});
  FrameOutput output;
  for (int i = 0; i < 5; ++i) executor->run({.voxels = input}, output);
  if (profiles) {
    using Clock = std::chrono::steady_clock;
    std::vector<std::vector<double>> times(plan.steps.size());
    for (int i = 0; i < frames; ++i) {
      Clock::time_point last;
      FrameOutput profiled;
      profiled.after_step = [&](std::size_t step) {
        const auto now = Clock::now();
        if (step > 0)
          times[step].push_back(std::chrono::duration<double, std::micro>(now - last).count());
        last = Clock::now();
      };
      executor->run({.voxels = input}, profiled);
    }
    for (std::size_t s = 1; s < times.size(); ++s) {
      std::printf("%8.1f us  %s\n", median(times[s]), plan.steps[s].node.c_str());
    }
  }
  std::vector<double> total, maps, network, both;
  for (int i = 0; i < frames; ++i) {
    const auto start = std::chrono::steady_clock::now();
    executor->run({.voxels = input}, output);
    total.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
            .count());
    maps.push_back(output.timing.maps);
    network.push_back(output.timing.network);
    both.push_back(output.timing.maps + output.timing.network);
  }
  std::printf(
      "%s %s batch %d, %lld voxels: host to host %.3f ms; on the GPU: maps %.3f ms, network %.3f "
      "ms, "
      "together %.3f ms\n",
      arch.c_str(), std::string(base::name(dtype)).c_str(), batch, static_cast<long long>(rows),
      median(total), median(maps), median(network), median(both));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "network_bench: %s\n", error.what());
    return 1;
  }
}
