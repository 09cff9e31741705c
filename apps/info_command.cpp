#include <optional>

#include "apps/batch/inputs.hpp"
#include "apps/batch/pipeline.hpp"
#include "apps/batch/report.hpp"
#include "apps/commands.hpp"
#include "apps/info/describe.hpp"
#include "apps/messages.hpp"
#include "apps/read_options.hpp"

namespace apps {
namespace {

int print_info(const Arguments& arguments) {
  const io::ReadOptions options = read_options(arguments);
  const bool as_json = arguments.has("json");
  const Inputs inputs = find_inputs(arguments.inputs());
  BatchReport report("info");
  report.failed(inputs.failures);
  std::optional<Progress> progress;  // text output is its own progress
  if (as_json) progress.emplace("info", static_cast<std::int64_t>(inputs.files.size()));
  for (const InputFile& file : inputs.files) {
    std::optional<Description> description;
    try {
      description = describe_file(file.path, options);
    } catch (...) {
      report.failed(text_of(file.path), current_error());
      continue;
    }
    report_warnings(file.path, description->warnings);
    if (!as_json) print_text(text_of_description(description->json));
    report.done(std::move(description->json));
    if (progress) progress->advance();
  }
  if (as_json) print_json(report.document());
  return report.close();
}

}  // namespace

Command info_command() {
  Command command{.name = "info",
                  .summary = "what files hold: points, fields, bounds; voxels; models",
                  .usage = "FILE... [options]",
                  .examples =
                      "  sparseconv info scan.pcd\n"
                      "  sparseconv info scans/ --json\n"
                      "  sparseconv info model.h5"};
  command.options.add_options()("json", "one JSON document on stdout");
  add_read_options(command);
  command.min_inputs = 1;
  command.run = print_info;
  return command;
}

}  // namespace apps
