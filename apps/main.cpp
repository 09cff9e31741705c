#include <csignal>
#include <string>
#include <vector>

#include "apps/command.hpp"

int main(int argc, char** argv) {
  // A file size limit then shows as a failed write, which the batch names and survives.
  std::signal(SIGXFSZ, SIG_IGN);
  return apps::run_command_line(std::vector<std::string>(argv + 1, argv + argc));
}
