// From the arguments of a product to what kernels take: one orientation of D, a choice of
// kernel and its parameters.
#pragma once
#include <optional>
#include <variant>
#include <vector>

#include "gemm_core/device/cuda/gemm/dense_instances.hpp"
#include "gemm_core/device/cuda/gemm/gemm.hpp"
#include "gemm_core/device/cuda/mixed/mixed_instances.hpp"
#include "gemm_core/device/cuda/tensor_map.hpp"
#include "gemm_core/kernel/simt_complex_gemm.cuh"
#include "gemm_core/kernel/simt_gemm.cuh"
#include "gemm_core/kernel/sm80_gemm.cuh"
#include "gemm_core/kernel/sm90_f64_gemm.cuh"
#include "gemm_core/kernel/sm90_gemm.cuh"
#include "gemm_core/kernel/sm90_mixed_gemm.cuh"

namespace gemm_core::cuda {

// The product in one orientation: where D is column-major and nothing but alpha, C and beta is
// asked for, its transpose, so that D's rows are contiguous.
struct DenseProduct {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  base::DType compute = base::DType::f32;
  Accumulation accumulation = Accumulation::blocked;
  DenseOperand a, b;
  DenseEpilogue epilogue;
  GemmSchedule schedule;
};

DenseProduct lower_product(const GemmArguments& arguments);
// What Gemm would need for a product without pointer arrays, lists or nodes; pointers count by
// their alignment alone.
std::size_t workspace_of_product(const GemmArguments& arguments);

struct LoweredGemm {
  const DenseInstance* instance = nullptr;
  const MixedInstance* mixed = nullptr;  // neither: a fallback
  std::string name = "none";
  int blocks = 0;  // or clusters
  DenseWalk walk = DenseWalk::tiles;
  base::DType fallback_type = base::DType::f32;
  std::variant<std::monostate, Sm90GemmParams, Sm90MixedParams, Sm90F64Params, Sm80GemmParams,
               SimtGemmParams, ComplexGemmParams>
      params;

  // Of the partial sums of a stream-K plan; 0 where nothing is split.
  std::size_t flag_bytes = 0, sum_bytes = 0;
  std::size_t workspace_bytes() const { return sum_bytes == 0 ? 0 : flag_bytes + sum_bytes + 256; }
  // Takes the workspace and clears its flags on `stream`.
  void bind(void* workspace, cudaStream_t stream);
};

// Parameters for `instance`; empty where it cannot take the product.
std::optional<LoweredGemm> lower_to(const DenseInstance& instance, const DenseProduct& product,
                                    std::uint32_t group, int multiprocessors);
// The lines of an operand, along k or along its rows, without a box; empty where they are not what
// a bulk copy takes.
std::optional<TensorMapDesc> lines_of(const DenseOperand& operand, std::int64_t k,
                                      std::int64_t batch, bool k_major);
LoweredGemm lower_to_fallback(const DenseProduct& product, std::uint32_t group);
// What lower_to fills in of tiles of one problem or of many.
std::optional<Sm90GemmProblem> problem_for(const DenseInstance& instance,
                                           const DenseProduct& product);
// The epilogue of `problem`, and how its results are stored.
void set_store(Sm90GemmProblem& problem, const DenseProduct& product, bool sums_are_integers);
// Launches what has been lowered; nothing for an empty product.
void launch(const LoweredGemm& lowered, cudaStream_t stream);
// How the sums of tiles are cut; whole tiles where nothing is.
kernel::StreamKPlan plan_for(const DenseInstance& instance, const DenseProduct& product,
                             int multiprocessors);
// Cycles that an instance would take, by a model of the machine.
double estimate_cycles(const DenseInstance& instance, const DenseProduct& product,
                       int multiprocessors);
// Of one tile.
double tile_cycles(const DenseInstance& instance, const DenseProduct& product);
std::int64_t cluster_tiles(const DenseInstance& instance, const DenseProduct& product);

}  // namespace gemm_core::cuda
