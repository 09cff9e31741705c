// Times training steps on CUDA beside the forward pass of inference in the same run: voxels and
// labels on the host in, maps built in every step.
//   training_step_bench [--arch minkunet42] [--cells FILE] [--dtype fp16] [--batch 4] [--steps 20]
//   [--profile 1]
// --profile: what each kind of launch takes, one by one with a synchronisation after each, so with
// launch costs. Without a file: procedural surfaces. Medians.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>

#include "sparseconv/architectures.hpp"
#include "sparseconv/cuda/training/device_tape.hpp"
#include "sparseconv/executor.hpp"
#include "sparseconv/training/trainer.hpp"
#include "tests/cuda/host_map.hpp"

namespace {

using namespace sparseconv;
using Clock = std::chrono::steady_clock;

struct Settings {
  std::string arch = "minkunet42", cells, dtype = "fp16";
  int batch = 4, steps = 20;
  bool profiles = false;
};

Settings parse(int argc, char** argv) {
  Settings s;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--arch")
      s.arch = value;
    else if (name == "--cells")
      s.cells = value;
    else if (name == "--dtype")
      s.dtype = value;
    else if (name == "--batch")
      s.batch = std::stoi(value);
    else if (name == "--steps")
      s.steps = std::stoi(value);
    else if (name == "--profile")
      s.profiles = value != "0";
    else
      base::fail("option ", name, " is not known");
  }
  return s;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

training::Batch make_batch(const Settings& s, std::int64_t classes) {
  const auto cells =
      s.cells.empty() ? cuda_tests::surface_cells(96000, 1) : cuda_tests::read_cells(s.cells);
  std::vector<Coord> coords;
  for (int b = 0; b < s.batch; ++b) {
    for (const auto& c : cells) coords.push_back({b, c.x + b, c.y, c.z});
  }
  std::sort(coords.begin(), coords.end(),
            [](const Coord& a, const Coord& b) { return pack(a) < pack(b); });
  training::Batch batch;
  for (const Coord& c : coords)
    batch.labels.push_back(static_cast<std::int32_t>(std::abs(c.z / 8 + c.x / 64) % classes));
  const auto rows = static_cast<std::int64_t>(coords.size());
  batch.voxels.coordinates = Coordinates::create(
      std::move(coords), {.batch_size = s.batch, .spatial_shape = std::nullopt});
  batch.voxels.features = base::Tensor::empty({rows, 4}, base::DType::f32);
  for (std::int64_t i = 0; i < rows * 4; ++i)
    batch.voxels.features.data<float>()[i] = static_cast<float>(i * 7919 % 1000) / 500 - 1;
  return batch;
}

// Each kind of launch of a forward and a backward pass.
void profile(const Model& model, const Settings& s, const training::Batch& batch) {
  cuda::DeviceTape tape(
      model, {.dtype = base::parse_dtype(s.dtype), .usual_rows = batch.voxels.rows()}, 0);
  const auto pass = [&] {
    do {
      tape.begin({.voxels = batch.voxels});
      tape.backward();
    } while (!tape.finish());
  };
  for (int i = 0; i < 3; ++i) pass();
  std::map<std::string, std::vector<double>> times;
  std::map<std::string, double> once;
  for (int i = 0; i < 10; ++i) {
    once.clear();
    Clock::time_point last = Clock::now();
    tape.after_launch = [&](const char* what, const std::string& node) {
      const double time = std::chrono::duration<double, std::micro>(Clock::now() - last).count();
      once[what] += time;
      once[base::concat("  ", what, " of ", node)] += time;
      last = Clock::now();
    };
    pass();
    for (const auto& [name, time] : once) times[name].push_back(time);
  }
  for (const auto& [name, values] : times)
    std::printf("%10.1f us  %s\n", median(values), name.c_str());
}

void run(const Settings& s) {
  Model model = build_architecture(
      s.arch, {.in_channels = 4, .classes = {}, .width = 1, .seed = 1, .voxel_size = 0.05});
  validate(model);
  const training::Batch batch = make_batch(s, static_cast<std::int64_t>(model.classes.size()));
  if (s.profiles) profile(model, s, batch);
  const Plan plan = make_plan(model);
  const auto executor = make_cuda_executor(plan, {.device = {base::Device::Kind::cuda, 0},
                                                  .dtype = base::parse_dtype(s.dtype),
                                                  .cache_maps = false});
  std::vector<double> inference;
  for (int i = 0; i < 3 + s.steps; ++i) {
    FrameOutput output;
    executor->run({.voxels = batch.voxels}, output);
    if (i >= 3) inference.push_back(output.timing.network);
  }
  training::TrainOptions options;
  options.schedule.rate = 1e-3;
  options.clip_norm = 10;
  options.device = "cuda";
  options.dtype = s.dtype;
  options.usual_rows = batch.voxels.rows();
  training::Trainer trainer(model, options);
  std::vector<double> maps, forward, backward, wall, device;
  double first_loss = 0, last_loss = 0;
  for (int i = 0; i < 5 + s.steps; ++i) {
    const auto start = Clock::now();
    const training::StepReport report = trainer.step(batch);
    const double time = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    if (i == 0) first_loss = report.loss;
    last_loss = report.loss;
    if (i < 5) continue;
    maps.push_back(report.maps_ms);
    forward.push_back(report.forward_ms);
    backward.push_back(report.backward_ms);
    device.push_back(report.maps_ms + report.forward_ms + report.backward_ms);
    wall.push_back(time);
  }
  std::printf(
      "%s %s batch %d, %lld voxels: inference %.3f ms (network); training: maps %.3f, forward "
      "%.3f, backward with loss and norm %.3f ms, together %.3f ms, without maps %.2f x inference; "
      "a step on the host's clock %.3f ms; loss %.4f -> %.4f\n",
      s.arch.c_str(), s.dtype.c_str(), s.batch, static_cast<long long>(batch.voxels.rows()),
      median(inference), median(maps), median(forward), median(backward), median(device),
      (median(forward) + median(backward)) / median(inference), median(wall), first_loss,
      last_loss);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "training_step_bench: %s\n", error.what());
    return 1;
  }
}
