// Several clouds in one pass: they share the kernels' launches but never mix, and results come back
// one a cloud.
#include <sparseconv/sparseconv.h>
#include <io/simulator.hpp>
#include <iostream>

int main() {
  const io::Simulator street({.sensor = "vlp16"});
  const io::Cloud first = street.frame(0), second = street.frame(1);
  const auto model =
      sparseconv::build_architecture("minkunet14", {.classes = {"a", "b", "c"}, .width = 0.25});
  const sparseconv::Engine engine(model, {.threads = 2});

  const io::Cloud empty = [] {
    io::Cloud cloud(0);
    for (const char* field : {"x", "y", "z", "intensity"})
      cloud.add(field, std::span<const float>());
    return cloud;
  }();
  const std::vector<const io::Cloud*> batch{&first, &empty, &second};
  const auto together = engine.run(batch);
  for (const sparseconv::Result& result : together) {
    std::cout << result.points << " points, " << result.voxels << " voxels, "
              << result.timing.network << " ms\n";
  }
  return together[0].labels() == engine.run(first).labels() && together[1].labels().empty() &&
                 together[2].labels() == engine.run(second).labels()
             ? 0
             : 1;
}
