// The device that engine tests run on: SPARSECONV_TEST_DEVICE, else the CPU. ctest runs the same
// tests once a device.
#pragma once
#include <cstdlib>
#include <string>

#include "sparseconv/engine.hpp"

namespace test_support {

inline std::string test_device() {
  const char* const device = std::getenv("SPARSECONV_TEST_DEVICE");
  return device == nullptr ? "cpu" : device;
}
inline bool is_on_cpu() { return test_device() == "cpu"; }

inline sparseconv::EngineOptions on_device(sparseconv::EngineOptions options = {}) {
  options.device = test_device();
  return options;
}

}  // namespace test_support
