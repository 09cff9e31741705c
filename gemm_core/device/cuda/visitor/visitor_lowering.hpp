// From the CPU's description of an epilogue graph to the program that kernels run.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "gemm_core/device/gemm.hpp"
#include "gemm_core/epilogue/cuda/visitor_program.hpp"
#include "gemm_core/epilogue/visitor_graph.hpp"

namespace gemm_core::cuda {

struct LoweredVisitor {
  VisitorProgram program;
  std::vector<std::string> names;  // of the program's nodes
};

// alpha * accumulator + beta * C of the arguments, then the graph. Loads without data become their
// default, stores and reductions without data nothing. A status that names the node where one does
// not fit. Pointers are not followed.
GemmStatus lower_visitor(const GemmArguments& arguments, const visitor::RuntimeGraph& graph,
                         LoweredVisitor& lowered);

// How the program stores to D at its end, as a node of its own.
VisitorNode store_of(const GemmArguments& arguments);

// amax(activation(scale[n] * alpha * accumulator + shift[n]) + residual), each part optional: what
// has a kernel of its own. Empty for other programs.
struct CommonEpilogue {
  VisitorFactor alpha;
  const VisitorNode *scale = nullptr, *shift = nullptr, *residual = nullptr;  // of the program
  ElementwiseOp activation = ElementwiseOp::identity;
  OpParameters parameters;
  float* amax = nullptr;
};
std::optional<CommonEpilogue> common_epilogue_of(const VisitorProgram& program, std::int64_t batch);

}  // namespace gemm_core::cuda
