// The functions that describe each command; commands.cpp lists them.
#pragma once
#include "apps/command.hpp"

namespace apps {

Command info_command();
Command convert_command();
Command simulate_command();
Command voxelize_command();
Command model_init_command();
Command model_info_command();
Command model_edit_command();
Command run_command();
Command bench_layer_command();
Command bench_network_command();
Command bench_map_command();
Command bench_gemm_command();
Command render_command();
Command layout_command();
Command eval_command();
Command train_command();

}  // namespace apps
