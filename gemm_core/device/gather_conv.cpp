#include "gemm_core/device/gather_conv.hpp"

#include "gemm_core/base/error.hpp"
#include "gemm_core/base/parallel.hpp"
#include "gemm_core/collective/cpu_gather_mainloop.hpp"
#include "gemm_core/collective/cpu_packed_weights.hpp"
#include "gemm_core/epilogue/cpu_epilogue.hpp"

namespace gemm_core {
namespace {

template <class View>
void check_matrix(const View& view, const char* operand, std::int64_t columns) {
  using base::DType;
  ENSURE(view.shape.rank() == 2 && view.stride.rank() == 2, "gather_conv: ", operand, " has shape ",
         base::to_string(view.shape), ", expected [rows, ", columns, "]");
  ENSURE(view.shape[1] == columns, "gather_conv: ", operand, " has ", view.shape[1],
         " channels, weights have ", columns);
  ENSURE(view.dtype == DType::f32 || view.dtype == DType::f16 || view.dtype == DType::bf16,
         "gather_conv: ", operand, " has element type ", base::name(view.dtype),
         ", expected float32, float16 or bfloat16");
  ENSURE(columns <= 1 || view.stride[1] == 1, "gather_conv: ", operand,
         " needs unit stride along channels, has ", view.stride[1]);
  ENSURE(view.device.is_cpu(), "gather_conv: ", operand, " is on ", base::to_string(view.device));
  ENSURE(view.data != nullptr || view.shape[0] == 0, "gather_conv: ", operand, " has ",
         view.shape[0], " rows and no data");
}

void check(const GatherConvArguments& a) {
  ENSURE(a.weights != nullptr && a.weights->data != nullptr, "gather_conv: weights are not packed");
  ENSURE(a.rows >= 0, "gather_conv: rows ", a.rows, " is negative");
  check_matrix(a.input, "input", a.weights->cin);
  check_matrix(a.output, "output", a.weights->cout);
  ENSURE(a.output.shape[0] == a.rows, "gather_conv: output has ", a.output.shape[0],
         " rows, expected ", a.rows);
  ENSURE(a.rows <= 1 || a.output.stride[0] >= a.weights->cout ||
             a.output.stride[0] <= -a.weights->cout,
         "gather_conv: output row stride ", a.output.stride[0], " makes rows of ", a.weights->cout,
         " channels overlap");
  if (a.neighbours == nullptr && a.rows > 0) {
    ENSURE(a.weights->taps == 1, "gather_conv: weights have ", a.weights->taps,
           " taps and there is no neighbour table");
    ENSURE(a.input.shape[0] == a.rows, "gather_conv: input has ", a.input.shape[0],
           " rows, expected ", a.rows);
  }
  check_epilogue(a.epilogue, a.rows, a.weights->cout, "gather_conv");
  if (a.visitor) {
    ENSURE(a.epilogue.nodes.empty(), "gather_conv: a visitor takes no further epilogue nodes, got ",
           a.epilogue.nodes.size());
    const TileGrid grid = gather_grid(a);
    ENSURE(a.weights->groups == 1 || a.weights->data->group_n <= grid.tile_n,
           "gather_conv: a visitor takes groups of at most ", grid.tile_n, " output channels, got ",
           a.weights->data->group_n);
    a.visitor->check(a.rows, a.weights->cout, 1);
  }
}

void run_tiles(const GatherConvArguments& arguments) {
  const std::int64_t tile = gather_tile_rows(arguments, base::current_threads());
  base::parallel_blocks(arguments.rows, tile, [&](std::int64_t begin, std::int64_t end) {
    run_gather_tile(arguments, begin, end);
  });
}

}  // namespace

void gather_conv(const GatherConvArguments& arguments) {
  check(arguments);
  if (arguments.visitor) arguments.visitor->begin(gather_grid(arguments));
  if (arguments.rows > 0) run_tiles(arguments);
  if (arguments.visitor) arguments.visitor->finish();
}
}  // namespace gemm_core
