#include <io/io.h>
#include <sparseconv/sparseconv.h>
int main(int, char** argv) {
  const auto cloud = io::read(argv[2]);
  const sparseconv::Engine engine(sparseconv::load_model(argv[1]),
                                  {.device = "cpu", .dtype = "fp32"});
  const auto result = engine.run(cloud);
  io::write("labelled.ply", cloud.with("label", result.labels()));
  return result.labels().size() == static_cast<std::size_t>(cloud.size()) ? 0 : 1;
}
