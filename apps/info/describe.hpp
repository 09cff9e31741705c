// What one file holds, as the JSON of `info`; the text output prints the same entries.
#pragma once
#include <filesystem>
#include <string>

#include "apps/results.hpp"
#include "io/io.h"

namespace apps {

struct Description {
  Json json;
  std::vector<std::string> warnings;
};

// Cloud, labels of a scan, voxel file or model, told apart by content. Error as io::read.
Description describe_file(const std::filesystem::path& path, const io::ReadOptions& options);

Json describe_model(const std::filesystem::path& path);
Json describe_voxels(const std::filesystem::path& path);
Json describe_cloud(const std::filesystem::path& path, const io::Cloud& cloud);
Json describe_labels(const std::filesystem::path& path, const io::Cloud& cloud);

bool is_model_file(const std::filesystem::path& path);

std::string text_of_description(const Json& entry);

}  // namespace apps
