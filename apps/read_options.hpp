// Options of every command that reads clouds.
#pragma once
#include <filesystem>

#include "apps/command.hpp"
#include "io/io.h"

namespace apps {

void add_read_options(Command& command);  // --from --columns --dataset --transpose
io::ReadOptions read_options(const Arguments& arguments);
std::string signature_of(const io::ReadOptions& options);  // equal for options that read alike

// io::read of a file that exists; the message of a path that is missing or no regular file says so.
io::Cloud read_cloud(const std::filesystem::path& path, const io::ReadOptions& options);

// Error unless `path` is a readable regular file; a FIFO would block, a folder is no cloud.
void check_is_file(const std::filesystem::path& path);

}  // namespace apps
