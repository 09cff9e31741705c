// model init and model info.
#include <algorithm>
#include <set>

#include "apps/batch/pipeline.hpp"
#include "apps/batch/report.hpp"
#include "apps/commands.hpp"
#include "apps/info/describe.hpp"
#include "apps/read_options.hpp"
#include "apps/values.hpp"
#include "sparseconv/model.hpp"

namespace apps {
namespace {

std::vector<std::string> class_names(const std::string& text) {
  const bool is_count =
      !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  if (!is_count) {
    std::vector<std::string> names = split_list(text);
    std::set<std::string> seen;
    for (const std::string& name : names) {
      ENSURE_USAGE(!name.empty(), "--classes: \"", text, "\" has an empty name");
      ENSURE_USAGE(seen.insert(name).second, "--classes: ", name, " is there twice");
    }
    return names;
  }
  const std::int64_t count = parse_integer("classes", text);
  ENSURE_USAGE(count >= 1 && count <= 65536, "--classes: ", count, " is not in 1..65536");
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count; ++i) names.push_back("class" + std::to_string(i));
  return names;
}

std::string known_architecture(const std::string& name) {
  const std::vector<std::string> names = sparseconv::architecture_names();
  std::string list;
  for (const std::string& known : names) list += (list.empty() ? "" : ", ") + known;
  ENSURE_USAGE(std::ranges::find(names, name) != names.end(), "no architecture ", name,
               "; there are ", list);
  return name;
}

int init_model(const Arguments& arguments) {
  sparseconv::ArchitectureOptions options;
  options.in_channels = integer_option(arguments, "in-channels", 4, 1, 65536);
  options.classes = class_names(arguments.text("classes"));
  options.width = parse_number("width", arguments.get_or<std::string>("width", "1"));
  ENSURE_USAGE(options.width > 0 && options.width <= 64, "--width: ", options.width,
               " is not in (0, 64]");
  options.seed = static_cast<std::uint64_t>(integer_option(arguments, "seed", 0, 0, INT64_MAX));
  options.voxel_size =
      parse_number("voxel-size", arguments.get_or<std::string>("voxel-size", "0.1"));
  ENSURE_USAGE(options.voxel_size > 0, "--voxel-size: ", options.voxel_size, " is not positive");
  const std::string output = arguments.required("output");
  const std::string name = known_architecture(arguments.inputs()[0]);
  BatchReport report("model init");
  try {
    const sparseconv::Model model = sparseconv::build_architecture(name, options);
    sparseconv::save_model(output, model);
  } catch (...) {
    report.failed(output, current_error());
    return report.close();
  }
  if (arguments.has("json")) {
    report.done(describe_model(output));
    print_json(report.document());
  }
  return kDone;
}

int print_model(const Arguments& arguments) {
  BatchReport report("model info");
  for (const std::string& input : arguments.inputs()) {
    try {
      check_is_file(input);
      Json entry = describe_model(input);
      if (!arguments.has("json")) print_text(text_of_description(entry));
      report.done(std::move(entry));
    } catch (...) {
      report.failed(input, current_error());
    }
  }
  if (arguments.has("json")) print_json(report.document());
  return report.close();
}

}  // namespace

Command model_init_command() {
  Command command{.name = "model init",
                  .summary = "a built-in architecture with seeded weights",
                  .usage = "NAME -o MODEL.h5 [options]",
                  .examples =
                      "  sparseconv model init minkunet18 -o model.h5 --classes 11 --width 0.5\n"
                      "  sparseconv model init second -o bev.h5 --voxel-size 0.05"};
  std::string names;
  for (const std::string& name : sparseconv::architecture_names()) names += " " + name;
  command.examples += "\nArchitectures:" + names;
  auto add = command.options.add_options();
  add("output,o", value<std::string>(), "model file to write");
  add("in-channels", value<std::string>(), "first of x y z intensity r g b (4)");
  add("classes", value<std::string>(), "how many, or names: a,b,c (20)");
  add("width", value<std::string>(), "factor on the channels (1)");
  add("seed", value<std::string>(), "of the weights (0)");
  add("voxel-size", value<std::string>(), "metres (0.1)");
  add("json", "what was written, as one JSON document on stdout");
  command.min_inputs = command.max_inputs = 1;
  command.run = init_model;
  return command;
}

Command model_info_command() {
  Command command{.name = "model info",
                  .summary = "nodes, parameters and multiply-adds of a model file",
                  .usage = "MODEL.h5... [options]",
                  .examples =
                      "  sparseconv model info model.h5\n"
                      "  sparseconv model info model.h5 --json"};
  command.options.add_options()("json", "one JSON document on stdout");
  command.min_inputs = 1;
  command.run = print_model;
  return command;
}

}  // namespace apps
