// Writes small files of every writable format into DIR/<format>/, to start the fuzz targets from.
#include <cstdio>
#include <filesystem>

#include "io/io.h"

namespace {

io::Cloud seed_cloud() {
  io::Cloud cloud;
  const float x[] = {1.5f, 3, -6.5f, 0}, y[] = {-2.25f, 4, 7.75f, 0}, z[] = {0.5f, -5, 8, 0},
              intensity[] = {0.1f, 0.2f, 0.3f, 0};
  const std::uint8_t colour[] = {1, 200, 30, 4};
  const std::uint16_t label[] = {1, 7, 9, 0};
  cloud.add<float>("x", x);
  cloud.add<float>("y", y);
  cloud.add<float>("z", z);
  cloud.add<float>("intensity", intensity);
  for (const char* name : {"r", "g", "b"}) cloud.add<std::uint8_t>(name, colour);
  cloud.add<std::uint16_t>("label", label);
  return cloud;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: io_seeds DIR\n");
    return 2;
  }
  const io::Cloud cloud = seed_cloud();
  for (const io::FormatInfo& format : io::formats()) {
    if (!format.writable) continue;
    const auto folder = std::filesystem::path(argv[1]) / format.name;
    std::filesystem::create_directories(folder);
    int number = 0;
    for (const io::WriteOptions& options : {io::WriteOptions{}, io::WriteOptions{.ascii = true},
                                            io::WriteOptions{.compressed = true}}) {
      try {
        io::write(folder / ("seed" + std::to_string(number++) + format.extensions.front()), cloud,
                  options);
      } catch (const base::Error& error) {  // a build without HDF5
        std::fprintf(stderr, "%s: %s\n", format.name.c_str(), error.what());
      }
    }
  }
  return 0;
}
