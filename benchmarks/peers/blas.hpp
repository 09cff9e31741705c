// Other libraries' fp32 products as peers in benchmarks, loaded at run time where they are
// installed: no build or link dependency.
#pragma once
#include <dlfcn.h>

#include <cstdint>
#include <initializer_list>

namespace benchmarks {

// d[m][n] = a[m][k] * b[n][k]^T, all row-major and packed.
class BlasPeer {
 public:
  BlasPeer(const char* name, std::initializer_list<const char*> files) : name_(name) {
    for (const char* file : files) {
      if ((library_ = dlopen(file, RTLD_NOW | RTLD_LOCAL)) != nullptr) break;
    }
  }
  virtual ~BlasPeer() {
    if (library_ != nullptr) dlclose(library_);
  }
  BlasPeer(const BlasPeer&) = delete;
  BlasPeer& operator=(const BlasPeer&) = delete;

  const char* name() const { return name_; }
  virtual bool found() const = 0;
  virtual void set_threads(int count) const = 0;
  virtual void sgemm_nt(std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                        const float* b, float* d) const = 0;

 protected:
  template <class Function>
  Function symbol(const char* name) const {
    return library_ == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library_, name));
  }

 private:
  const char* name_;
  void* library_ = nullptr;
};

// A library with the CBLAS interface.
class Cblas : public BlasPeer {
 public:
  Cblas(const char* name, std::initializer_list<const char*> files, const char* set_threads)
      : BlasPeer(name, files),
        sgemm_(symbol<Sgemm>("cblas_sgemm")),
        set_threads_(symbol<void*>(set_threads)) {}
  bool found() const override { return sgemm_ != nullptr && set_threads_ != nullptr; }

  void sgemm_nt(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
                float* d) const override {
    sgemm(kTrans, m, n, k, a, b, k, d);
  }
  // d[m][n] = a[m][k] * b[k][n].
  void sgemm_nn(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
                float* d) const {
    sgemm(kNoTrans, m, n, k, a, b, n, d);
  }

 protected:
  template <class Int>
  void set_threads_as(Int count) const {
    reinterpret_cast<void (*)(Int)>(set_threads_)(count);
  }

 private:
  static constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;  // CBLAS enumerators
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                         float, float*, int);

  void sgemm(int transposed_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
             const float* b, std::int64_t ldb, float* d) const {
    sgemm_(kRowMajor, kNoTrans, transposed_b, static_cast<int>(m), static_cast<int>(n),
           static_cast<int>(k), 1.0f, a, static_cast<int>(k), b, static_cast<int>(ldb), 0.0f, d,
           static_cast<int>(n));
  }

  Sgemm sgemm_;
  void* set_threads_;
};

struct OpenBlas : Cblas {
  OpenBlas()
      : Cblas("OpenBLAS", {"libopenblas.so.0", "libopenblas.so"}, "openblas_set_num_threads") {}
  void set_threads(int count) const override { set_threads_as<int>(count); }
};

struct Blis : Cblas {
  Blis() : Cblas("BLIS", {"libblis.so.4", "libblis.so"}, "bli_thread_set_num_threads") {}
  void set_threads(int count) const override { set_threads_as<std::int64_t>(count); }
};

// oneDNN takes its threads from OMP_NUM_THREADS.
class OneDnnSgemm : public BlasPeer {
 public:
  OneDnnSgemm()
      : BlasPeer("oneDNN", {"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"}),
        sgemm_(symbol<Sgemm>("dnnl_sgemm")) {}
  bool found() const override { return sgemm_ != nullptr; }
  void set_threads(int) const override {}
  void sgemm_nt(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
                float* d) const override {
    sgemm_('N', 'T', m, n, k, 1.0f, a, k, b, k, 0.0f, d, n);
  }

 private:
  using Sgemm = int (*)(char, char, std::int64_t, std::int64_t, std::int64_t, float, const float*,
                        std::int64_t, const float*, std::int64_t, float, float*, std::int64_t);
  Sgemm sgemm_;
};

}  // namespace benchmarks
