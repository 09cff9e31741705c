// The one list of commands, in the order of the help.
#include "apps/commands.hpp"

namespace apps {

std::vector<Command> all_commands() {
  return {
      info_command(),        convert_command(),       simulate_command(),   voxelize_command(),
      model_init_command(),  model_info_command(),    model_edit_command(), run_command(),
      bench_layer_command(), bench_network_command(), bench_map_command(),  bench_gemm_command(),
      render_command(),      eval_command(),          train_command(),      layout_command()};
}

}  // namespace apps
