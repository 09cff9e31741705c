#include "sparseconv/executor.hpp"

namespace sparseconv {

std::unique_ptr<Executor> make_executor(const Plan& plan, const ExecutorOptions& options) {
  using base::DType;
  const DType dtype = options.dtype;
  ENSURE(dtype == DType::f32 || dtype == DType::tf32 || dtype == DType::f16 ||
             dtype == DType::bf16 || dtype == DType::e4m3 || dtype == DType::i8,
         "engine: dtype ", base::name(dtype), " is none of fp32, tf32, fp16, bf16, fp8, int8");
  ENSURE((dtype != DType::e4m3 && dtype != DType::i8) || options.device.is_cuda(),
         "engine: ", base::name(dtype),
         " needs a CUDA device; the CPU runs fp32, tf32, fp16 and bf16");
  return options.device.is_cpu() ? make_cpu_executor(plan, options)
                                 : make_cuda_executor(plan, options);
}

}  // namespace sparseconv
