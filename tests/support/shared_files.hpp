// Where shared case files are when a test runs: $SPARSECONV_SHARED, else ../shared beside the tree.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

namespace test_support {

inline std::filesystem::path shared_folder() {
  if (const char* folder = std::getenv("SPARSECONV_SHARED")) return folder;
  return std::filesystem::path(SPARSECONV_SOURCE_DIR).parent_path() / "shared";
}

}  // namespace test_support

// First line of a test that needs a shared file or folder: skips the test where it is missing.
#define REQUIRE_SHARED(variable, relative)                                           \
  const std::filesystem::path variable = test_support::shared_folder() / (relative); \
  if (!std::filesystem::exists(variable)) GTEST_SKIP() << "no shared file " << (variable)
