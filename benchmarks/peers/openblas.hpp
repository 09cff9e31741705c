// OpenBLAS as a peer in benchmarks, loaded at run time where it is installed: no build or link
// dependency.
#pragma once
#include <dlfcn.h>

#include <cstdint>

namespace benchmarks {

class OpenBlas {
 public:
  OpenBlas() {
    for (const char* name : {"libopenblas.so.0", "libopenblas.so"}) {
      if ((library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL)) != nullptr) break;
    }
    if (library_ == nullptr) return;
    sgemm_ = reinterpret_cast<Sgemm>(dlsym(library_, "cblas_sgemm"));
    set_threads_ = reinterpret_cast<SetThreads>(dlsym(library_, "openblas_set_num_threads"));
  }
  ~OpenBlas() {
    if (library_ != nullptr) dlclose(library_);
  }
  OpenBlas(const OpenBlas&) = delete;
  OpenBlas& operator=(const OpenBlas&) = delete;

  bool found() const { return sgemm_ != nullptr && set_threads_ != nullptr; }
  void set_threads(int count) const { set_threads_(count); }

  // d[m][n] = a[m][k] * b[n][k]^T, all row-major and packed.
  void sgemm_nt(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
                float* d) const {
    sgemm_(kRowMajor, kNoTrans, kTrans, static_cast<int>(m), static_cast<int>(n),
           static_cast<int>(k), 1.0f, a, static_cast<int>(k), b, static_cast<int>(k), 0.0f, d,
           static_cast<int>(n));
  }
  // d[m][n] = a[m][k] * b[k][n].
  void sgemm_nn(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
                float* d) const {
    sgemm_(kRowMajor, kNoTrans, kNoTrans, static_cast<int>(m), static_cast<int>(n),
           static_cast<int>(k), 1.0f, a, static_cast<int>(k), b, static_cast<int>(n), 0.0f, d,
           static_cast<int>(n));
  }

 private:
  static constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;  // CBLAS enumerators
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                         float, float*, int);
  using SetThreads = void (*)(int);
  void* library_ = nullptr;
  Sgemm sgemm_ = nullptr;
  SetThreads set_threads_ = nullptr;
};

}  // namespace benchmarks
