// The one list of commands, in the order of the help.
#include "apps/commands.hpp"

namespace apps {

std::vector<Command> all_commands() {
  return {info_command(),       convert_command(),    voxelize_command(),
          model_init_command(), model_info_command(), run_command()};
}

}  // namespace apps
