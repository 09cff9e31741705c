// Labels a scan with a model: the whole library in ten lines.
//   03_run_model model.h5 scan.pcd
#include <io/io.h>
#include <sparseconv/sparseconv.h>

int main(int, char** argv) {
  const auto cloud = io::read(argv[2]);  // any format
  const sparseconv::Engine engine(sparseconv::load_model(argv[1]),
                                  {.device = "cpu", .dtype = "fp32"});
  const auto result = engine.run(cloud);                            // voxelise, maps, network
  io::write("labelled.ply", cloud.with("label", result.labels()));  // one label a point
}
