// oneDNN as a peer in benchmarks, where its header and library were found when this was configured.
// It takes its threads from OMP_NUM_THREADS. Its filter is put into the order that it likes best
// before it is timed.
#pragma once
#include <cstdint>

#ifdef BENCHMARKS_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#endif

namespace benchmarks {

// 3 x 3, padding 1, NHWC, as many filters [K][3][3][C] as channels.
class OneDnnConv {
 public:
#ifdef BENCHMARKS_HAVE_ONEDNN
  OneDnnConv(std::int64_t side, std::int64_t channels, float* x, float* w, float* y)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using dnnl::memory;
    const memory::dims map{1, channels, side, side}, taps{channels, channels, 3, 3}, one{1, 1};
    const memory::desc nhwc(map, memory::data_type::f32, memory::format_tag::nhwc);
    const memory::desc any(taps, memory::data_type::f32, memory::format_tag::any);
    const memory::desc ohwi(taps, memory::data_type::f32, memory::format_tag::ohwi);
    const dnnl::convolution_forward::desc what(dnnl::prop_kind::forward_inference,
                                               dnnl::algorithm::convolution_direct, nhwc, any, nhwc,
                                               one, one, one);
    const dnnl::convolution_forward::primitive_desc how(what, engine_);
    memory given(ohwi, engine_, w), liked(how.weights_desc(), engine_);
    dnnl::reorder(given, liked).execute(stream_, given, liked);
    stream_.wait();
    conv_ = dnnl::convolution_forward(how);
    arguments_ = {{DNNL_ARG_SRC, memory(nhwc, engine_, x)},
                  {DNNL_ARG_WEIGHTS, liked},
                  {DNNL_ARG_DST, memory(nhwc, engine_, y)}};
  }
  bool found() const { return true; }
  void run() const {
    conv_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  dnnl::engine engine_;
  mutable dnnl::stream stream_;
  dnnl::convolution_forward conv_;
  std::unordered_map<int, dnnl::memory> arguments_;
#else
  OneDnnConv(std::int64_t, std::int64_t, float*, float*, float*) {}
  bool found() const { return false; }
  void run() const {}
#endif
};

}  // namespace benchmarks
