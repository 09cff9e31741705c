// Dense convolution over 1 to 3 spatial axes: forward, gradient of the activation (strided too),
// gradient of the filter; groups and depthwise. Activations are [N, D, H, W, C], filters [K, T, R,
// S, C / groups], outputs [N, Z, P, Q, K]; axes beyond `axes` are 1 and stand first (2-D uses H,
// W). Per axis
//     in = out * stride - lower + tap * dilation, read as 0 outside [0, in extent);
//     out extent = 1 + floor((in + lower + upper - ((taps - 1) * dilation + 1)) / stride).
//
//   ConvArguments args{.operation = ConvOperation::forward,
//                      .problem = {.axes = 2, .batch = 1, .channels = 64, .filters = 64, .input =
//                      {1, 56, 56},
//                                  .kernel = {1, 3, 3}, .lower = {0, 1, 1}, .upper = {0, 1, 1}}};
//   args.a = {activation}; args.b = {filter}; args.d = {output};
#pragma once
#include <array>
#include <memory>

#include "gemm_core/device/dense_operation.hpp"

namespace gemm_core {

enum class ConvOperation : std::uint8_t {
  forward,              // A activation, B filter, D output
  activation_gradient,  // A output gradient, B filter, D activation gradient
  filter_gradient,      // A output gradient, B activation, D filter gradient
};

using Axes = std::array<std::int64_t, 3>;

struct ConvProblem {
  int axes = 3;
  std::int64_t batch = 1, channels = 1, filters = 1, groups = 1;
  Axes input{1, 1, 1}, kernel{1, 1, 1};
  Axes lower{0, 0, 0}, upper{0, 0, 0}, stride{1, 1, 1}, dilation{1, 1, 1};
  bool flip = false;  // convolution in the sense of mathematics: tap t is the filter's last but t
  Axes output() const;
  std::int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
};

// Strides in elements; all 0: packed in the order above. Filters: outer [K], axes [T, R, S],
// channel.
struct ConvTensor {
  void* data = nullptr;  // written only in D
  base::DType dtype = base::DType::f32;
  std::int64_t outer_stride = 0;
  Axes axis_strides{0, 0, 0};
  std::int64_t channel_stride = 0;
};

struct ConvArguments {
  ConvOperation operation = ConvOperation::forward;
  ConvProblem problem;
  ConvTensor a, b, c, d;                   // c has the shape of d
  base::DType compute = base::DType::f32;  // and element types: as in GemmArguments
  double alpha = 1, beta = 0;
  // On the result as a matrix [positions, channels]; aux matrices have that shape; groups 1 where
  // there are nodes. Not for filter gradients.
  Epilogue epilogue;
  GemmSchedule schedule{.decomposition = kernel::Decomposition::heuristic};
  // The paths are equal up to rounding. `gathered` multiplies rows where they lie, through a table
  // of neighbours; `general` reads any types and strides through the im2col view; `automatic`
  // gathers where that is possible.
  enum class Path : std::uint8_t { automatic, general, gathered } path = Path::automatic;
};

class Conv {
 public:
  Conv();
  ~Conv();
  Conv(Conv&&) noexcept;
  Conv& operator=(Conv&&) noexcept;
  static GemmStatus can_implement(const ConvArguments& arguments);
  static std::size_t workspace_size(const ConvArguments& arguments);
  // Tables of offsets (or of neighbours) are made here, a few words a position; operands are read
  // in every run.
  GemmStatus initialize(const ConvArguments& arguments, void* workspace, std::size_t bytes);
  GemmStatus run();

 private:
  struct Gathered;
  LoweredProducts lowered_;
  std::unique_ptr<Gathered> gathered_;
  void* workspace_ = nullptr;
  bool initialized_ = false;
};

}  // namespace gemm_core
