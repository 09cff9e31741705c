// Stands in for cuda/ in a build without CUDA.
#include "sparseconv/executor.hpp"

namespace sparseconv {

std::unique_ptr<Executor> make_cuda_executor(const Plan&, const ExecutorOptions& options) {
  base::fail("device ", base::to_string(options.device), ": sparseconv was built without CUDA");
}

}  // namespace sparseconv
