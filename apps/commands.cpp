// The one list of commands, in the order of the help.
#include "apps/commands.hpp"

namespace apps {

std::vector<Command> all_commands() {
  std::vector<Command> commands;
  return commands;
}

}  // namespace apps
