#include "apps/read_options.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "apps/values.hpp"

namespace apps {
namespace fs = std::filesystem;

void add_read_options(Command& command) {
  auto add = command.options.add_options();
  add("from", value<std::string>(), "format of the input (default: by content, then by extension)");
  add("columns", value<std::string>(),
      "names of the columns of a file without a header: x,y,z,intensity,... (empty: skip one)");
  add("dataset", value<std::string>(), "array to read from an HDF5 or NPZ file with several");
  add("transpose", "read an array stored as [k, N]");
}

io::ReadOptions read_options(const Arguments& arguments) {
  return {.format = arguments.text("from"),
          .columns = split_list(arguments.text("columns")),
          .dataset = arguments.text("dataset"),
          .transpose = arguments.has("transpose")};
}

std::string signature_of(const io::ReadOptions& options) {
  std::string text = " from " + options.format + " dataset " + options.dataset + " columns";
  for (const std::string& column : options.columns) text += ' ' + column + ',';
  return text + (options.transpose ? " transposed" : "");
}

void check_is_file(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  ENSURE(status.type() != fs::file_type::not_found, "no such file");
  ENSURE(!error, "cannot be opened: ", error.message());
  ENSURE(status.type() != fs::file_type::directory, "is a folder, not a file");
  ENSURE(status.type() == fs::file_type::regular, "is not a regular file");
  ENSURE(access(path.c_str(), R_OK) == 0, "cannot be opened: ", std::strerror(errno));
}

io::Cloud read_cloud(const fs::path& path, const io::ReadOptions& options) {
  check_is_file(path);
  return io::read(path, options);
}

}  // namespace apps
