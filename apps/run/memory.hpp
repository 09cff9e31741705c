// Memory of this process, in bytes, as the kernel counts it, and of runs, as engines say it.
#pragma once
#include <cstdint>
#include <string>

#include "apps/results.hpp"
#include "sparseconv/result.hpp"

namespace apps {

std::int64_t resident_bytes();
std::int64_t peak_resident_bytes();

// Largest parts over the files of a batch: what the process must have had room for.
struct MemoryParts {
  std::int64_t start = resident_bytes();  // before the model was loaded
  sparseconv::RunMemory largest;

  void note(const sparseconv::RunMemory& run);
  Json json() const;
  std::string text() const;  // a line each
};

}  // namespace apps
