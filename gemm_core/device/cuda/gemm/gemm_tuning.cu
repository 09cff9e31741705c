#include "gemm_core/device/cuda/gemm/gemm_tuning.hpp"

#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/device/cuda/mixed/mixed_lowering.hpp"
#include "gemm_core/device/gemm_config.hpp"

namespace gemm_core::cuda {
namespace {

constexpr const char* kStreamK = "+stream_k";

std::string device_name() {
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  return properties.name;
}

}  // namespace

std::string tuning_key(const GemmArguments& g) {
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  thread_local std::pair<int, std::string> last{-1, ""};
  if (last.first != device) last = {device, device_name()};
  return gemm_core::tuning_key(g, last.second);
}

std::string config_name(const std::string& kernel, const GemmArguments& g) {
  return g.schedule.decomposition == kernel::Decomposition::data_parallel ? kernel
                                                                          : kernel + kStreamK;
}

GemmPlan apply_config(const std::string& config, GemmArguments& g) {
  const std::size_t at = config.find(kStreamK);
  g.schedule.decomposition = at == std::string::npos ? kernel::Decomposition::data_parallel
                                                     : kernel::Decomposition::stream_k;
  return {config.substr(0, at), 8};
}

double estimate_ms(const GemmArguments& g, const std::string& kernel) {
  constexpr double kCyclesPerMs = 1.7e6;
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  const int processors = base::cuda::device_info(device).multiprocessors;
  const DenseProduct p = lower_product(g);
  for (const DenseInstance* instance : dense_instances()) {
    if (kernel == instance->name) return estimate_cycles(*instance, p, processors) / kCyclesPerMs;
  }
  for (const MixedInstance* instance : mixed_instances()) {
    if (kernel == instance->name) return estimate_cycles(*instance, p, processors) / kCyclesPerMs;
  }
  return 0;
}

}  // namespace gemm_core::cuda
