// cuBLAS as a peer: loaded when the benchmark runs, where its headers were found when it was built.
// Products are row-major here; cuBLAS computes their transposes.
#pragma once
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include "gemm_core/device/gemm.hpp"

#if __has_include(<cublas_v2.h>) && __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <cublas_v2.h>
#define BENCHMARKS_HAVE_CUBLAS 1
#endif

namespace benchmarks {

#if defined(BENCHMARKS_HAVE_CUBLAS)

class Cublas {
 public:
  using DType = base::DType;
  Cublas() {
    for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so"}) {
      if (blas_ == nullptr) blas_ = dlopen(name, RTLD_NOW);
    }
    for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}) {
      if (lt_ == nullptr) lt_ = dlopen(name, RTLD_NOW);
    }
    if (!found()) return;
    find(blas_, "cublasCreate_v2", create_);
    find(blas_, "cublasSetStream_v2", set_stream_);
    find(blas_, "cublasSetWorkspace_v2", set_workspace_);
    find(blas_, "cublasGemmStridedBatchedEx", gemm_);
    find(lt_, "cublasLtCreate", lt_create_);
    find(lt_, "cublasLtMatmul", lt_matmul_);
    find(lt_, "cublasLtMatmulDescCreate", desc_create_);
    find(lt_, "cublasLtMatmulDescSetAttribute", desc_set_);
    find(lt_, "cublasLtMatrixLayoutCreate", layout_create_);
    find(lt_, "cublasLtMatmulPreferenceCreate", preference_create_);
    find(lt_, "cublasLtMatmulPreferenceSetAttribute", preference_set_);
    find(lt_, "cublasLtMatmulAlgoGetHeuristic", heuristic_);
    if (cudaMalloc(&workspace_, kWorkspace) != cudaSuccess ||
        create_(&handle_) != CUBLAS_STATUS_SUCCESS ||
        set_workspace_(handle_, workspace_, kWorkspace) != CUBLAS_STATUS_SUCCESS ||
        lt_create_(&lt_handle_) != CUBLAS_STATUS_SUCCESS) {
      blas_ = nullptr;
    }
  }
  bool found() const { return blas_ != nullptr && lt_ != nullptr; }

  // alpha 1, beta 0, row-major D. False where cuBLAS does not take it.
  bool run(const gemm_core::GemmArguments& g, cudaStream_t stream) {
    if (g.compute == DType::e4m3 || g.compute == DType::e5m2) return run_fp8(g, stream);
    const bool k_major_a = g.a.column_stride == 1, k_major_b = g.b.row_stride == 1;
    const float one = 1, zero = 0;
    const double one_64 = 1, zero_64 = 0;
    const std::int32_t one_i = 1, zero_i = 0;
    const void *alpha = &one, *beta = &zero;
    cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
    if (g.compute == DType::tf32) compute = CUBLAS_COMPUTE_32F_FAST_TF32;
    if (g.compute == DType::f64) compute = CUBLAS_COMPUTE_64F, alpha = &one_64, beta = &zero_64;
    if (g.compute == DType::i8) compute = CUBLAS_COMPUTE_32I, alpha = &one_i, beta = &zero_i;
    set_stream_(handle_, stream);
    return gemm_(handle_, k_major_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                 k_major_a ? CUBLAS_OP_N : CUBLAS_OP_T, int(g.n), int(g.m), int(g.k), alpha,
                 g.b.data, type(g.b.dtype), int(k_major_b ? g.b.column_stride : g.b.row_stride),
                 g.b.batch_stride, g.a.data, type(g.a.dtype),
                 int(k_major_a ? g.a.row_stride : g.a.column_stride), g.a.batch_stride, beta,
                 g.d.data, type(g.d.dtype), int(g.d.row_stride), g.d.batch_stride, int(g.batch),
                 compute, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS;
  }

 private:
  static constexpr std::size_t kWorkspace = 64 << 20;

  template <class Function>
  static void find(void* library, const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    ENSURE(function != nullptr, "cuBLAS has no ", name);
  }
  static cudaDataType_t type(DType t) {
    switch (t) {
      case DType::f16:
        return CUDA_R_16F;
      case DType::bf16:
        return CUDA_R_16BF;
      case DType::f64:
        return CUDA_R_64F;
      case DType::i8:
        return CUDA_R_8I;
      case DType::i32:
        return CUDA_R_32I;
      case DType::e4m3:
        return CUDA_R_8F_E4M3;
      case DType::e5m2:
        return CUDA_R_8F_E5M2;
      default:
        return CUDA_R_32F;
    }
  }

  bool run_fp8(const gemm_core::GemmArguments& g, cudaStream_t stream) {
    if (g.batch != 1) return false;
    const std::int64_t key[] = {g.m,
                                g.n,
                                g.k,
                                std::int64_t(g.compute),
                                std::int64_t(g.d.dtype),
                                std::int64_t(g.accumulation)};
    if (!std::equal(std::begin(key), std::end(key), std::begin(key_))) {
      const cublasOperation_t transposed = CUBLAS_OP_T;
      const std::int8_t fast = g.accumulation == gemm_core::Accumulation::fast;
      desc_create_(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F);
      desc_set_(desc_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
      desc_set_(desc_, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast);
      const auto k = static_cast<std::uint64_t>(g.k);
      layout_create_(&b_, type(g.b.dtype), k, static_cast<std::uint64_t>(g.n), g.k);
      layout_create_(&a_, type(g.a.dtype), k, static_cast<std::uint64_t>(g.m), g.k);
      layout_create_(&d_, type(g.d.dtype), static_cast<std::uint64_t>(g.n),
                     static_cast<std::uint64_t>(g.m), g.n);
      cublasLtMatmulPreference_t preference{};
      preference_create_(&preference);
      const std::size_t bytes = kWorkspace;
      preference_set_(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
      int count = 0;
      heuristic_(lt_handle_, desc_, b_, a_, d_, d_, preference, 1, &algorithm_, &count);
      if (count == 0) return false;
      std::copy(std::begin(key), std::end(key), std::begin(key_));
    }
    const float one = 1, zero = 0;
    return lt_matmul_(lt_handle_, desc_, &one, g.b.data, b_, g.a.data, a_, &zero, g.d.data, d_,
                      g.d.data, d_, &algorithm_.algo, workspace_, kWorkspace,
                      stream) == CUBLAS_STATUS_SUCCESS;
  }

  void* blas_ = nullptr;
  void* lt_ = nullptr;
  void* workspace_ = nullptr;
  cublasHandle_t handle_{};
  cublasLtHandle_t lt_handle_{};
  std::int64_t key_[6]{};
  cublasLtMatmulDesc_t desc_{};
  cublasLtMatrixLayout_t a_{}, b_{}, d_{};
  cublasLtMatmulHeuristicResult_t algorithm_{};
  decltype(cublasCreate_v2)* create_ = nullptr;
  decltype(cublasSetStream_v2)* set_stream_ = nullptr;
  decltype(cublasSetWorkspace_v2)* set_workspace_ = nullptr;
  decltype(cublasLtCreate)* lt_create_ = nullptr;
  decltype(cublasLtMatmul)* lt_matmul_ = nullptr;
  decltype(cublasLtMatmulDescCreate)* desc_create_ = nullptr;
  decltype(cublasLtMatmulDescSetAttribute)* desc_set_ = nullptr;
  decltype(cublasLtMatrixLayoutCreate)* layout_create_ = nullptr;
  decltype(cublasLtMatmulPreferenceCreate)* preference_create_ = nullptr;
  decltype(cublasLtMatmulPreferenceSetAttribute)* preference_set_ = nullptr;
  decltype(cublasLtMatmulAlgoGetHeuristic)* heuristic_ = nullptr;
  using GemmFunction = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int,
                                      int, int, const void*, const void*, cudaDataType, int,
                                      long long, const void*, cudaDataType, int, long long,
                                      const void*, void*, cudaDataType, int, long long, int,
                                      cublasComputeType_t, cublasGemmAlgo_t);
  GemmFunction* gemm_ = nullptr;
};

#else

class Cublas {
 public:
  bool found() const { return false; }
  bool run(const gemm_core::GemmArguments&, cudaStream_t) { return false; }
};

#endif

}  // namespace benchmarks
