// The framework of the command line. One file a command; each gives one function that describes it,
// and commands.cpp lists those functions. What a command prints goes through messages.hpp (stderr)
// and results.hpp (stdout).
//
//   Command info_command() {
//     Command command{.name = "info", .summary = "what files hold", .usage = "FILE...", .examples =
//     "sparseconv info a.pcd"}; command.options.add_options()("json", "one JSON document on
//     stdout"); command.min_inputs = 1; command.run = [](const Arguments& arguments) { return
//     print_info(arguments.inputs()); }; return command;
//   }
#pragma once
#include <boost/program_options.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gemm_core/base/error.hpp"

namespace apps {

// What the process returns.
inline constexpr int kDone = 0, kSomeFailed = 1, kWrongUsage = 2;

// Wrong usage: main prints the message with the command's name and returns kWrongUsage.
class UsageError : public base::Error {
 public:
  using base::Error::Error;
};

// What is wrong with a file that the command cannot do without: main prints it as
// `sparseconv: <file>: <what>` and returns kSomeFailed.
class FileError : public base::Error {
 public:
  FileError(std::string file, const std::string& what)
      : base::Error(what), file_(std::move(file)) {}
  const std::string& file() const { return file_; }

 private:
  std::string file_;
};

#define ENSURE_USAGE(condition, ...)                         \
  do {                                                       \
    if (!(condition)) [[unlikely]]                           \
      throw ::apps::UsageError(::base::concat(__VA_ARGS__)); \
  } while (0)

// The parsed options and inputs of one call.
class Arguments {
 public:
  Arguments(boost::program_options::variables_map values, std::vector<std::string> inputs)
      : values_(std::move(values)), inputs_(std::move(inputs)) {}

  const std::vector<std::string>& inputs() const { return inputs_; }  // what is no option, in order
  bool has(const std::string& option) const { return values_.count(option) != 0; }
  template <class T>
  T get(const std::string& option) const {
    return values_[option].as<T>();
  }
  template <class T>
  T get_or(const std::string& option, T otherwise) const {
    return has(option) ? get<T>(option) : otherwise;
  }
  std::string text(const std::string& option) const { return get_or<std::string>(option, ""); }
  // UsageError naming the option when it was not given.
  std::string required(const std::string& option) const;

 private:
  boost::program_options::variables_map values_;
  std::vector<std::string> inputs_;
};

struct Command {
  std::string name;      // "info", or two words: "model init"
  std::string summary;   // one line of the list of commands
  std::string usage;     // what follows the name: "FILE... [options]"
  std::string examples;  // whole lines for the shell, shown by --help
  boost::program_options::options_description options{"Options"};
  int min_inputs = 0, max_inputs = -1;  // arguments that are no options; -1: any number
  std::function<int(const Arguments&)> run;
};

// Every command, in the order of the help. The one list (commands.cpp).
std::vector<Command> all_commands();

// `sparseconv WORDS...`: finds the command, parses, runs, and turns what is thrown into messages
// and an exit status.
int run_command_line(const std::vector<std::string>& words);

// Short for boost::program_options::value<T>().
template <class T>
auto value() {
  return boost::program_options::value<T>();
}
template <class T>
auto value(T otherwise) {
  return value<T>()->default_value(std::move(otherwise));
}

}  // namespace apps
