#include "apps/command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "apps/messages.hpp"
#include "apps/results.hpp"

namespace apps {
namespace po = boost::program_options;

namespace {

// A name that no one can type as an option, nor a command take for one of its own.
constexpr const char* kInputs = "what is no option";

std::string list_of_commands(const std::vector<Command>& commands, std::string_view prefix) {
  std::string text;
  for (const Command& command : commands) {
    if (!command.name.starts_with(prefix)) continue;
    text += fmt::format("  {:<14} {}\n", command.name, command.summary);
  }
  return text;
}

// The first example of each.
std::string examples_of(const std::vector<Command>& commands, std::string_view prefix) {
  std::string text;
  for (const Command& command : commands) {
    if (!command.name.starts_with(prefix)) continue;
    text += command.examples.substr(0, command.examples.find('\n')) + '\n';
  }
  return text;
}

std::string general_help(const std::vector<Command>& commands) {
  return fmt::format(
      "Sparse convolution on point clouds: from scans to voxels, labels and pictures.\n\n"
      "usage: sparseconv COMMAND ... [options]\n"
      "       sparseconv COMMAND --help      options and examples of a command\n"
      "       sparseconv --version\n\n"
      "Commands:\n{}\n"
      "Results go to stdout, messages and progress to stderr. Exit status: 0 all done, 1 some "
      "inputs\n"
      "failed (each named with the reason), 2 wrong usage.\n",
      list_of_commands(commands, ""));
}

std::string help(const Command& command) {
  std::ostringstream options;
  options.imbue(std::locale::classic());
  options << command.options;
  return fmt::format("{}\n\nusage: sparseconv {} {}\n\n{}\nExamples:\n{}\n", command.summary,
                     command.name, command.usage, options.str(), command.examples);
}

// Positional arguments are gathered under a hidden option, so that they may stand anywhere between
// the others.
Arguments parse(const Command& command, const std::vector<std::string>& words) {
  po::options_description all;
  all.add(command.options);
  all.add_options()(kInputs, value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add(kInputs, -1);
  const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  po::variables_map values;
  try {
    po::store(po::command_line_parser(words).options(all).positional(positional).style(style).run(),
              values);
    po::notify(values);
  } catch (const po::error& error) {
    throw UsageError(error.what());
  }
  const auto inputs = values.count(kInputs) ? values[kInputs].as<std::vector<std::string>>()
                                            : std::vector<std::string>{};
  return {std::move(values), inputs};
}

void check_inputs(const Command& command, const Arguments& arguments) {
  const auto given = static_cast<int>(arguments.inputs().size());
  ENSURE_USAGE(given >= command.min_inputs, "expected ", command.usage, ", got ", given,
               " argument(s)");
  ENSURE_USAGE(command.max_inputs < 0 || given <= command.max_inputs, "unexpected argument ",
               given > command.max_inputs && command.max_inputs >= 0
                   ? arguments.inputs()[static_cast<std::size_t>(command.max_inputs)]
                   : "");
}

int run(Command command, const std::vector<std::string>& words) {
  command.options.add_options()("help,h", "show this help");
  const Arguments arguments = parse(command, words);
  if (arguments.has("help")) {
    print_text(help(command));
    return kDone;
  }
  check_inputs(command, arguments);
  return command.run(arguments);
}

// The longest name that the words begin with: "model init" before "model".
const Command* find_command(const std::vector<Command>& commands,
                            const std::vector<std::string>& words) {
  const std::string two = words.size() > 1 ? words[0] + ' ' + words[1] : "";
  for (const std::string& name : {two, words[0]}) {
    const auto found = std::ranges::find(commands, name, &Command::name);
    if (found != commands.end()) return &*found;
  }
  return nullptr;
}

int unknown_command(const std::vector<Command>& commands, const std::vector<std::string>& words) {
  const std::string group = words[0] + ' ';
  const std::string members = list_of_commands(commands, group);
  const bool asks_help = words.size() > 1 && (words[1] == "--help" || words[1] == "-h");
  if (!members.empty() && asks_help) {
    print_text("usage: sparseconv " + group + "WHAT ... [options]\n\n" + members + "\nExamples:\n" +
               examples_of(commands, group));
    return kDone;
  }
  if (!members.empty()) {
    report_error(words[0] + (words.size() > 1 ? ": no such command: " + words[1]
                                              : ": what is missing; one of these:"));
    report_note(members.substr(0, members.size() - 1));
  } else {
    report_error("no such command: " + words[0] + " (sparseconv --help lists them)");
  }
  return kWrongUsage;
}

}  // namespace

std::string Arguments::required(const std::string& option) const {
  ENSURE_USAGE(has(option), "--", option, " is missing");
  return get<std::string>(option);
}

int run_command_line(const std::vector<std::string>& words) {
  const std::vector<Command> commands = all_commands();
  if (words.empty()) {
    report_note(general_help(commands));
    return kWrongUsage;
  }
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    print_text(general_help(commands));
    return kDone;
  }
  if (words[0] == "--version") {
    print_text("sparseconv " SPARSECONV_VERSION "\n");
    return kDone;
  }
  const Command* command = find_command(commands, words);
  if (!command) return unknown_command(commands, words);
  const auto parts = 1 + std::ranges::count(command->name, ' ');
  try {
    return run(*command, {words.begin() + parts, words.end()});
  } catch (const UsageError& error) {
    report_error(command->name, error.what());
    report_note("Try: sparseconv " + command->name + " --help");
    return kWrongUsage;
  } catch (const FileError& error) {
    report_error(error.file(), error.what());
  } catch (const std::bad_alloc&) {
    report_error(command->name, "out of memory");
  } catch (const std::exception& error) {
    report_error(command->name, error.what());
  }
  return kSomeFailed;
}

}  // namespace apps
