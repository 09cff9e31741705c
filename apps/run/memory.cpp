#include "apps/run/memory.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace apps {

std::int64_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (!file) return 0;
  long long size = 0, resident = 0;
  const int read = std::fscanf(file, "%lld %lld", &size, &resident);
  std::fclose(file);
  return read == 2 ? resident * sysconf(_SC_PAGESIZE) : 0;
}

std::int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

void MemoryParts::note(const sparseconv::RunMemory& run) {
  largest.weights = std::max(largest.weights, run.weights);
  largest.maps = std::max(largest.maps, run.maps);
  largest.activations = std::max(largest.activations, run.activations);
  largest.largest_two_tensors = std::max(largest.largest_two_tensors, run.largest_two_tensors);
  largest.device = std::max(largest.device, run.device);
}

Json MemoryParts::json() const {
  return {{"peak", peak_resident_bytes()},
          {"start", start},
          {"weights", largest.weights},
          {"maps", largest.maps},
          {"activations", largest.activations},
          {"largest_two_tensors", largest.largest_two_tensors},
          {"device", largest.device}};
}

std::string MemoryParts::text() const {
  std::string lines;
  const Json parts = json();
  for (const auto& [part, bytes] : parts.items()) {
    char line[80];
    std::snprintf(line, sizeof line, "memory: %-20s %10.1f MiB\n", part.c_str(),
                  bytes.get<double>() / (1 << 20));
    lines += line;
  }
  return lines;
}

}  // namespace apps
