#include "gemm_core/epilogue/cpu_epilogue.hpp"

#include <algorithm>

#include "gemm_core/base/error.hpp"

namespace gemm_core {
namespace {

// Rows of a block are taken in pieces that stay in L1 over all nodes.
constexpr std::int64_t kPieceFloats = 4096;

template <class View>
auto element(const View& view, std::int64_t m, std::int64_t n) {
  using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(view.data)>>,
                                  const char, char>;
  return static_cast<Byte*>(view.data) + (m * view.stride[0] + n) * base::bytes(view.dtype);
}

// The program as one pass: at most a scale and shift, an addition and a simple activation, in this
// order.
bool as_one_pass(const Epilogue& epilogue, std::int64_t m0, std::int64_t n0, RowFinish& f) {
  using Kind = EpilogueNode::Kind;
  auto node = epilogue.nodes.begin();
  const auto end = epilogue.nodes.end();
  if (node != end && node->kind == Kind::scale_shift) {
    f.scale = node->scale ? node->scale + n0 : nullptr;
    f.shift = node->shift ? node->shift + n0 : nullptr;
    ++node;
  }
  if (node != end && node->kind == Kind::add) {
    f.aux = element(node->aux, m0, n0);
    f.aux_dtype = node->aux.dtype;
    f.aux_pitch = node->aux.stride[0];
    ++node;
  }
  if (node != end && node->kind == Kind::activate) {
    f.activation = node->activation;
    f.slope = node->slope;
    ++node;
  }
  return node == end && (f.activation == Activation::identity || f.activation == Activation::relu ||
                         f.activation == Activation::leaky_relu);
}

}  // namespace

void check_epilogue(const Epilogue& epilogue, std::int64_t m, std::int64_t n,
                    const char* operation) {
  using base::DType;
  for (std::size_t i = 0; i < epilogue.nodes.size(); ++i) {
    const EpilogueNode& node = epilogue.nodes[i];
    if (node.kind != EpilogueNode::Kind::add) continue;
    const auto& aux = node.aux;
    ENSURE(aux.shape.rank() == 2 && aux.shape[0] == m && aux.shape[1] == n, operation,
           ": epilogue node ", i, " (add) has shape ", base::to_string(aux.shape), ", result is [",
           m, ", ", n, "]");
    ENSURE(aux.dtype == DType::f32 || aux.dtype == DType::f16 || aux.dtype == DType::bf16,
           operation, ": epilogue node ", i, " (add) has element type ", base::name(aux.dtype));
    ENSURE(aux.stride.rank() == 2 && (n <= 1 || aux.stride[1] == 1), operation, ": epilogue node ",
           i, " (add) needs unit stride along channels, has strides ", base::to_string(aux.stride));
    ENSURE(aux.data != nullptr || m == 0, operation, ": epilogue node ", i, " (add) has no data");
    ENSURE(aux.device.is_cpu(), operation, ": epilogue node ", i, " (add) is on ",
           base::to_string(aux.device));
  }
}

void run_epilogue_nodes(const CpuAtoms& atoms, const Epilogue& epilogue, const Block& block,
                        std::int64_t m0, std::int64_t n0) {
  for (const EpilogueNode& node : epilogue.nodes) {
    switch (node.kind) {
      case EpilogueNode::Kind::scale_shift:
        atoms.scale_shift(block, node.scale ? node.scale + n0 : nullptr,
                          node.shift ? node.shift + n0 : nullptr);
        break;
      case EpilogueNode::Kind::add:
        atoms.add(block, element(node.aux, m0, n0), node.aux.dtype, node.aux.stride[0]);
        break;
      case EpilogueNode::Kind::activate:
        atoms.activate(block, node.activation, node.slope);
        break;
    }
  }
}

void run_epilogue(const CpuAtoms& atoms, const Epilogue& epilogue, const Block& block,
                  std::int64_t m0, std::int64_t n0, const base::TensorView& output) {
  RowFinish finish{.to = element(output, m0, n0), .dtype = output.dtype, .pitch = output.stride[0]};
  if (as_one_pass(epilogue, m0, n0, finish)) return atoms.finish(block, finish);
  const std::int64_t step =
      std::max<std::int64_t>(1, kPieceFloats / std::max<std::int64_t>(1, block.ld));
  for (std::int64_t i = 0; i < block.rows; i += step) {
    const Block piece{block.values + i * block.ld, block.ld, std::min(step, block.rows - i),
                      block.columns};
    run_epilogue_nodes(atoms, epilogue, piece, m0 + i, n0);
    atoms.store(piece, element(output, m0 + i, n0), output.dtype, output.stride[0]);
  }
}

void ask_for_operands(const Epilogue& epilogue, std::int64_t m0, std::int64_t rows, std::int64_t n0,
                      std::int64_t columns, Ahead& ahead) {
  for (const EpilogueNode& node : epilogue.nodes) {
    if (node.kind != EpilogueNode::Kind::add) continue;
    const std::int64_t size = base::bytes(node.aux.dtype);
    ahead.add({element(node.aux, m0, n0), node.aux.stride[0] * size, rows, columns * size});
  }
}

}  // namespace gemm_core
