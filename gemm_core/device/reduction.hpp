// Reductions of tensors of any strides over any of their modes, in fp32 (fp64 for doubles, wrapping
// int32).
//
//   ReductionArguments args{.modes = {{.extent = rows, .in = pitch}, {.extent = columns, .in = 1,
//   .out = 1, .kept = true}}}; args.input = {x, DType::f16};  args.output = {sums};        //
//   column sums Reduction op; op.initialize(args); op.run();
#pragma once
#include <vector>

#include "gemm_core/device/gemm.hpp"
#include "gemm_core/epilogue/visitor_nodes.hpp"

namespace gemm_core {

struct ReductionMode {
  std::int64_t extent = 1, in = 0, out = 0;  // steps in elements
  bool kept = false;                         // else summed over; `out` is then 0
};

struct ReductionOperand {
  void* data = nullptr;  // written only in the output
  base::DType dtype = base::DType::f32;
};

// out = scale * reduction of in; the identity of the reduction where there is nothing to reduce.
struct ReductionArguments {
  std::vector<ReductionMode> modes;
  ReductionOperand input;   // f32, f16, bf16, e4m3, e5m2, i8; f64; i32
  ReductionOperand output;  // f32, f16, bf16; f64 of f64; i32 of i32
  visitor::Reduction reduction = visitor::Reduction::sum;
  double scale = 1;  // 1 for int32
};

class Reduction {
 public:
  static GemmStatus can_implement(const ReductionArguments& arguments);
  GemmStatus initialize(const ReductionArguments& arguments);
  // In the caller's task arena. Terms are added in chunks of a fixed size, so that bits do not
  // depend on threads.
  GemmStatus run();

 private:
  ReductionArguments arguments_;
  bool initialized_ = false;
};

}  // namespace gemm_core
