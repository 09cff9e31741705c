// Training without a framework: a built-in network learns to label one simulated scan.
#include <sparseconv/sparseconv.h>
#include <io/simulator.hpp>
#include <iostream>
#include <sparseconv/training/trainer.hpp>

int main() {
  const io::Cloud scan = io::Simulator({.sensor = "vlp16"}).frame(0);
  const auto classes = io::simulator_class_names();  // class 0 is "ignore"
  auto model = sparseconv::build_architecture("minkunet14", {.classes = classes, .width = 0.25});
  model.input.voxel_size = {0.4, 0.4, 0.4};

  const auto voxels = sparseconv::voxelize(
      scan, {.voxel_size = model.input.voxel_size, .features = model.input.features});
  namespace training = sparseconv::training;
  training::Batch batch{.voxels = voxels.tensor};
  batch.labels.assign(static_cast<std::size_t>(voxels.tensor.rows()), training::kIgnore);
  for (std::int64_t point = 0; point < scan.size(); ++point) {
    const auto voxel = voxels.point_to_voxel[static_cast<std::size_t>(point)];
    const auto label = static_cast<std::int32_t>(scan.get("label").at(point));
    if (voxel >= 0 && label > 0) batch.labels[static_cast<std::size_t>(voxel)] = label;
  }

  training::Trainer trainer(model, {.schedule = {.rate = 1e-2, .steps = 60}});
  training::StepReport report;
  while (trainer.steps_done() < 60) report = trainer.step(batch);
  sparseconv::save_model("10_trained.h5", trainer.model());
  const double accuracy =
      static_cast<double>(report.correct) / static_cast<double>(report.labelled);
  std::cout << "loss " << report.loss << ", " << 100 * accuracy << " % of voxels right\n";
  return accuracy > 0.9 ? 0 : 1;
}
