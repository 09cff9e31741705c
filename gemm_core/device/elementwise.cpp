#include "gemm_core/device/elementwise.hpp"

#include <algorithm>

#include "gemm_core/base/error.hpp"
#include "gemm_core/base/parallel.hpp"
#include "gemm_core/collective/aligned_buffer.hpp"
#include "gemm_core/epilogue/cpu_epilogue.hpp"

namespace gemm_core {
namespace {

constexpr std::int64_t kTileFloats = 8192;  // 32 KiB: stays in L1 or L2 on the way

template <class View>
void check_matrix(const View& view, const char* operand, const base::Dims& shape) {
  using base::DType;
  ENSURE(view.shape.rank() == 2 && view.shape == shape, "elementwise: ", operand, " has shape ",
         base::to_string(view.shape), ", expected ", base::to_string(shape));
  ENSURE(view.dtype == DType::f32 || view.dtype == DType::f16 || view.dtype == DType::bf16,
         "elementwise: ", operand, " has element type ", base::name(view.dtype),
         ", expected float32, float16 or bfloat16");
  ENSURE(shape[1] <= 1 || view.stride[1] == 1, "elementwise: ", operand,
         " needs unit stride along channels, has ", view.stride[1]);
  ENSURE(view.device.is_cpu(), "elementwise: ", operand, " is on ", base::to_string(view.device));
  ENSURE(view.data != nullptr || shape[0] * shape[1] == 0, "elementwise: ", operand, " has ",
         shape[0], " rows and no data");
}

}  // namespace

void elementwise(const base::ConstTensorView& input, const Epilogue& epilogue,
                 const base::TensorView& output) {
  check_matrix(input, "input", input.shape);
  check_matrix(output, "output", input.shape);
  const std::int64_t rows = input.shape[0], channels = input.shape[1];
  check_epilogue(epilogue, rows, channels, "elementwise");
  if (rows == 0 || channels == 0) return;
  const CpuAtoms& atoms = cpu_atoms();
  const std::int64_t grain = std::max<std::int64_t>(1, kTileFloats / channels);
  base::parallel_blocks(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    thread_local AlignedBuffer tile;
    float* values = tile.reserve((end - begin) * channels);
    const std::int64_t start = begin * input.stride[0] * base::bytes(input.dtype);
    atoms.convert_rows({.base = static_cast<const char*>(input.data) + start,
                        .dtype = input.dtype,
                        .pitch = input.stride[0],
                        .rows = end - begin,
                        .columns = channels,
                        .to = values,
                        .ldto = channels});
    run_epilogue(atoms, epilogue, {values, channels, end - begin, channels}, begin, 0, output);
  });
}

}  // namespace gemm_core
