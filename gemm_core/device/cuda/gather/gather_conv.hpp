// The gathered convolution on CUDA. Prepared once a layer (weights, pointers and capacities fixed),
// run many times; a run only launches: it allocates nothing, synchronises nothing, and may be
// captured in a graph.
//
//   auto weights = cuda::upload_conv_weights({.weight = w, .cout = 64, .taps = 27, .cin = 64,
//   .compute = DType::f16}); cuda::GatherConv conv(cuda::GatherConvArguments{...});
//   conv.run(stream);
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/collective/gather_table.hpp"
#include "gemm_core/device/cuda/gather/sm90_instances.hpp"
#include "gemm_core/device/gather_conv.hpp"

namespace gemm_core::cuda {

// [cout][taps][pitch] in the compute type; channels padded with zeros so that rows are multiples of
// 16 bytes.
struct ConvWeights {
  base::cuda::Buffer<std::uint8_t> data;
  std::int64_t cout = 0, taps = 1, cin = 0, groups = 1, pitch = 0;
  base::DType compute = base::DType::f32;
  // e4m3, int8: of each output channel; `data` times it are the weights, and the epilogue has to
  // bring it in. Empty in other types.
  std::vector<float> scale;
};
// The smallest power of two with `largest` / scale <= 448; 1 for zero and for what is not finite.
float e4m3_scale(float largest);
// By which values up to `largest` are divided to be stored in `type`: e4m3 as above (powers of two
// cost no precision, and equal weights have equal bits whatever stands beside them), int8 largest /
// 127, which is 1 for zero and for what is not finite.
float narrow_scale(base::DType type, float largest);
constexpr bool is_eight_bit(base::DType type) {
  return type == base::DType::e4m3 || type == base::DType::i8;
}
// `scale`: of each output channel, instead of that which suits the weights (8-bit types).
ConvWeights upload_conv_weights(const ConvWeightsDesc& desc, std::span<const float> scale = {});

struct GatherConvArguments {
  base::ConstTensorView input;  // [rows, cin], unit stride along channels; element type =
                                // weights.compute (f32 for tf32)
  const ConvWeights* weights = nullptr;
  // Device pointers; aux in the input's type. Of f16 products both results and aux may be f16 or
  // one 8-bit type, of 8-bit products f16 or the input's type, each as it likes; results saturate.
  Epilogue epilogue;
  std::vector<float>
      aux_factors;          // of the epilogue's additions, in order; empty: 1 all; f16, 8 bits
  base::TensorView output;  // [row capacity, cout], any row stride; the input's type, but see above
  // One more tap (matrix-core path, where the instance takes it): each output row's own row of
  // own_input [rows, cin'], the input's type, times own_weights [cout, 1, cin'], the weights' type
  // and, of 8 bits, their scale. For tables in which every row has some tap of the centre plane.
  base::ConstTensorView own_input;
  const ConvWeights* own_weights = nullptr;  // null: none

  const std::int32_t* row_count =
      nullptr;  // output rows on the device; null: output.shape[0] of them
  // By output row, for the SIMT kernel; without it that kernel takes a table of one order:
  // [taps][canonical_pitch]. Null: one tap, identity.
  const std::int32_t* canonical = nullptr;
  std::int64_t canonical_pitch = 0;

  // Matrix-core path: table and schedules of the tile size that `instance` has. `centre` holds all
  // rows; with `outer`, the table has planes and `partials` is scratch of partial_floats() floats.
  const Sm90Instance* instance = nullptr;  // null: the SIMT kernel
  GatherTable table;
  TileSchedule centre, outer;
  float* partials = nullptr;
  bool overlap =
      false;  // start while the predecessor on the stream drains (see base/cuda/launch.cuh)
};

// Null where the arguments suit the matrix-core kernel `instance`, else the reason.
const char* why_not(const Sm90Instance& instance, const GatherConvArguments& arguments);
std::int64_t partial_floats(const Sm90Instance& instance, std::int64_t row_capacity,
                            std::int64_t cout);
// What suits these shapes on a Hopper GPU. `instance` is null where none fits: then the SIMT kernel
// runs. `planes`: a table in planes is faster, where the map has 27 taps.
struct LayerChoice {
  const Sm90Instance* instance = nullptr;
  bool planes = false;
};
struct LayerShape {
  base::DType compute = base::DType::f16;
  std::int64_t cin = 0, cout = 0;
  std::int64_t rows = 0;  // of the output
  std::int64_t taps = 1;
};
LayerChoice choose_instance(const LayerShape& layer);
// Thread blocks in flight = lists of a schedule for this instance.
int lists_for(const Sm90Instance& instance, std::int64_t cout,
              const base::cuda::DeviceInfo& device);

class GatherConv {
 public:
  explicit GatherConv(
      const GatherConvArguments& arguments);  // throws where the arguments do not fit together
  ~GatherConv();
  GatherConv(GatherConv&&) noexcept;
  GatherConv& operator=(GatherConv&&) noexcept;
  void run(cudaStream_t stream) const;
  std::string kernel_name() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gemm_core::cuda
