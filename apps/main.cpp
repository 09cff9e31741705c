#include <string>
#include <vector>

#include "apps/command.hpp"

int main(int argc, char** argv) {
  return apps::run_command_line(std::vector<std::string>(argv + 1, argv + argc));
}
