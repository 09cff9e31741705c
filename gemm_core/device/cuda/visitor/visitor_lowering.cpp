#include "gemm_core/device/cuda/visitor/visitor_lowering.hpp"

#include <algorithm>
#include <array>

#include "gemm_core/base/error.hpp"
#include "gemm_core/collective/cpu_element.hpp"

namespace gemm_core::cuda {
namespace {

using base::DType;
using Code = GemmStatus::Code;
using namespace visitor;  // NOLINT: every node is one of its types

bool has_pairs(const VisitorNode& node, std::int64_t n) {
  if (!is_narrow_float(node.type)) return false;
  const std::int64_t bytes = 2 * base::bytes(node.type);
  return node.column_stride == 1 && n % 2 == 0 && node.row_stride % 2 == 0 &&
         node.batch_stride % 2 == 0 &&
         reinterpret_cast<std::uintptr_t>(node.data) % static_cast<std::uintptr_t>(bytes) == 0;
}

VisitorNode matrix_node(VisitorKind kind, const void* data, DType type, std::int64_t row_stride,
                        std::int64_t column_stride, std::int64_t batch_stride, std::int64_t n) {
  VisitorNode node;
  node.kind = kind;
  node.data = const_cast<void*>(data);
  node.type = type;
  node.row_stride = row_stride;
  node.column_stride = column_stride;
  node.batch_stride = batch_stride;
  node.pairs = has_pairs(node, n);
  return node;
}

class Lowering {
 public:
  Lowering(const GemmArguments& arguments, LoweredVisitor& to) : g_(arguments), to_(to) {
    values_ = {};
    accumulator_ = push({}, "accumulator", {});
    if (g_.alpha != 1) {
      VisitorNode product;
      product.kind = VisitorKind::compute;
      product.op = ElementwiseOp::multiplies;
      const int alpha = scalar(Scalar(static_cast<float>(g_.alpha)), "alpha");
      accumulator_ = push(product, "alpha", {alpha, accumulator_});
    }
    if (g_.beta != 0) {
      VisitorNode source =
          matrix_node(VisitorKind::add_source, g_.c.data, g_.c.dtype, g_.c.row_stride,
                      g_.c.column_stride, g_.c.batch_stride, g_.n);
      add_factors(source, Scalar(static_cast<float>(g_.beta)), "C");
      accumulator_ = push(source, "C", {accumulator_});
    }
    result_ = accumulator_;
  }

  template <class Node>
  void operator()(const Node& node, const std::vector<int>& inputs) {
    std::vector<int> from;
    for (const int input : inputs) from.push_back(values_[static_cast<std::size_t>(input)]);
    result_ = lower(node, from);
    values_.push_back(result_);
  }
  GemmStatus status() const { return status_; }
  void finish() {
    to_.program.result = result_;
    to_.program.count = static_cast<int>(to_.names.size());
    mark_kept();
  }

 private:
  // ---- fetch and load ----
  int lower(const Accumulator&, const std::vector<int>&) { return accumulator_; }
  int lower(const MatrixLoad& x, const std::vector<int>&) {
    const std::string name = named(x.name);
    if (x.matrix.data == nullptr) return scalar(Scalar(x.null_default), name);
    check(x);
    if (x.matrix.access != nullptr) refuse(name, "index lists are not supported");
    return push(matrix_node(VisitorKind::matrix, x.matrix.data, x.matrix.dtype, x.matrix.row_stride,
                            x.matrix.column_stride, x.batch_stride, g_.n),
                name, {});
  }
  int vector(VisitorKind kind, const float* data, std::int64_t batch_stride, float null_default,
             const std::string& name) {
    if (data == nullptr) return scalar(Scalar(null_default), name);
    VisitorNode node;
    node.kind = kind;
    node.data = const_cast<float*>(data);
    node.batch_stride = batch_stride;
    return push(node, name, {});
  }
  int lower(const RowLoad& x, const std::vector<int>&) {
    return vector(VisitorKind::row, x.data, x.batch_stride, x.null_default, named("row"));
  }
  int lower(const ColumnLoad& x, const std::vector<int>&) {
    return vector(VisitorKind::column, x.data, x.batch_stride, x.null_default, named("column"));
  }
  int lower(const Scalar& x, const std::vector<int>&) { return scalar(x, named("scalar")); }
  int lower(const MaskLoad& x, const std::vector<int>&) {
    if (x.data == nullptr) return scalar(Scalar(x.null_default), named("mask"));
    VisitorNode node = mask_node(VisitorKind::mask, x.data, x.row_stride, x.batch_stride);
    if (x.row_stride < (g_.n + 7) / 8)
      refuse(named("mask"), base::concat("rows of ", g_.n, " bits need ", (g_.n + 7) / 8,
                                         " bytes, the stride is ", x.row_stride));
    return push(node, named("mask"), {});
  }

  // ---- compute ----
  int lower(const Compute& x, const std::vector<int>& inputs) {
    if (x.op == ElementwiseOp::identity && x.output == DType::f32) return inputs[0];
    VisitorNode node;
    node.kind = VisitorKind::compute;
    node.op = x.op;
    node.parameters = x.parameters;
    node.type = x.output;
    if (!is_narrow_float(x.output) && x.output != DType::tf32)
      refuse(named("compute"), base::concat("results of ", base::name(x.output)));
    return push(node, named("compute"), inputs);
  }
  int lower(const AddScaledSource& x, const std::vector<int>& inputs) {
    const std::string name = named(x.source.name);
    const auto& factors = x.beta.factors;
    const bool is_known = std::all_of(factors.begin(), factors.end(),
                                      [](const auto& f) { return f.pointer == nullptr; });
    if (is_known && x.beta.value(0) == 0) return inputs[0];
    if (x.source.matrix.data == nullptr) {
      refuse(name, is_known ? base::concat("null, but beta is ", x.beta.value(0))
                            : "null, but beta is in device memory");
      return inputs[0];
    }
    check(x.source);
    VisitorNode node = matrix_node(VisitorKind::add_source, x.source.matrix.data,
                                   x.source.matrix.dtype, x.source.matrix.row_stride,
                                   x.source.matrix.column_stride, x.source.batch_stride, g_.n);
    add_factors(node, x.beta, name);
    return push(node, name, inputs);
  }
  int lower(const Quantise& x, const std::vector<int>& inputs) {
    check(x);
    VisitorNode node;
    node.kind = VisitorKind::quantise;
    node.type = x.type;
    add_factors(node, x.scale, named("quantise"));
    return push(node, named("quantise"), inputs);
  }

  // ---- store ----
  int lower(const MatrixStore& x, const std::vector<int>& inputs) {
    if (x.data == nullptr) return inputs[0];
    check(x);
    return push(matrix_node(VisitorKind::store, x.data, x.dtype, x.row_stride, x.column_stride,
                            x.batch_stride, g_.n),
                named(x.name), inputs);
  }
  int lower(const MaskStore& x, const std::vector<int>& inputs) {
    if (x.data == nullptr) return inputs[0];
    check(x);
    return push(mask_node(VisitorKind::store_mask, x.data, x.row_stride, x.batch_stride),
                named(x.name), inputs);
  }
  int lower(const Reduce& x, const std::vector<int>& inputs) {
    if (x.parts != nullptr) {
      refuse(named("reduce"), "partial results are for the CPU");
      return inputs[0];
    }
    if (x.out == nullptr) return inputs[0];
    VisitorProgram& p = to_.program;
    if (p.reductions == VisitorProgram::kMaxReductions) {
      refuse(named("reduce"),
             base::concat("more than ", int{VisitorProgram::kMaxReductions}, " reductions"));
      return inputs[0];
    }
    VisitorNode node;
    node.kind = VisitorKind::reduce;
    node.axis = x.axis;
    node.reduction = x.reduction;
    const int index = push(node, named("reduce"), inputs);
    p.reduction[p.reductions++] = {static_cast<std::int8_t>(index), x.out, x.batch_stride};
    return index;
  }

  static VisitorNode mask_node(VisitorKind kind, const void* data, std::int64_t row_stride,
                               std::int64_t batch_stride) {
    VisitorNode node;
    node.kind = kind;
    node.data = const_cast<void*>(data);
    node.row_stride = row_stride;
    node.batch_stride = batch_stride;
    return node;
  }
  int scalar(const Scalar& x, const std::string& name) {
    VisitorNode node;
    node.kind = VisitorKind::scalar;
    add_factors(node, x, name);
    return push(node, name, {});
  }
  void add_factors(VisitorNode& node, const Scalar& x, const std::string& name) {
    VisitorProgram& p = to_.program;
    const auto count = static_cast<int>(x.factors.size());
    if (p.factors + count > VisitorProgram::kMaxFactors) {
      refuse(name,
             base::concat("more than ", int{VisitorProgram::kMaxFactors}, " scalars in one graph"));
      return;
    }
    node.first_factor = static_cast<std::uint8_t>(p.factors);
    node.factor_count = static_cast<std::uint8_t>(count);
    for (const auto& f : x.factors) p.factor[p.factors++] = {f.value, f.pointer, f.batch_stride};
  }

  // Values that are read later than by the next step, and a result that is not the last step.
  void mark_kept() {
    VisitorProgram& p = to_.program;
    int previous = -1;
    for (int i = 0; i < p.count; ++i) {
      const VisitorNode& node = p.nodes[i];
      if (node.kind < VisitorKind::compute) continue;
      const int inputs = node.kind == VisitorKind::compute ? arity(node.op) : 1;
      for (int j = 0; j < inputs; ++j)
        if (node.inputs[j] != previous) p.nodes[node.inputs[j]].keeps = true;
      previous = i;
    }
    if (result_ != previous) p.nodes[result_].keeps = true;
  }

  // The name of a node says where in the graph it is, too.
  std::string named(const std::string& name) const {
    return base::concat(name, " (", values_.size(), ")");
  }
  int push(VisitorNode node, const std::string& name, const std::vector<int>& inputs) {
    const auto index = to_.names.size();
    if (index == VisitorProgram::kMaxNodes) {
      refuse(name,
             base::concat("the graph has more than ", int{VisitorProgram::kMaxNodes}, " nodes"));
      return 0;
    }
    for (std::size_t i = 0; i < inputs.size(); ++i)
      node.inputs[i] = static_cast<std::int8_t>(inputs[i]);
    to_.program.nodes[index] = node;
    to_.names.push_back(name);
    return static_cast<int>(index);
  }
  template <class Node>
  void check(const Node& node) {
    try {
      node.check({g_.m, g_.n, g_.batch});
    } catch (const base::Error& error) {
      if (status_.ok()) status_ = {Code::unsupported, base::concat("gemm on CUDA: ", error.what())};
    }
  }
  void refuse(const std::string& name, const std::string& why) {
    if (status_.ok())
      status_ = {Code::unsupported, base::concat("gemm on CUDA: epilogue node ", name, ": ", why)};
  }

  const GemmArguments& g_;
  LoweredVisitor& to_;
  GemmStatus status_;
  std::vector<int> values_;  // of the graph's vertices, as nodes of the program
  int accumulator_ = 0, result_ = 0;
};

// Takes a program apart from its end.
class CommonForm {
 public:
  CommonForm(const VisitorProgram& program, std::int64_t batch) : p_(program), batch_(batch) {}

  std::optional<CommonEpilogue> match() {
    int at = p_.result;
    if (const VisitorNode& x = take(at); x.kind == VisitorKind::reduce) {
      if (x.reduction != Reduction::amax || x.axis != ReductionAxis::all || p_.reductions != 1 ||
          (p_.reduction[0].batch_stride != 0 && batch_ > 1))
        return std::nullopt;
      c_.amax = p_.reduction[0].out;
      at = x.inputs[0];
    }
    if (const VisitorNode& x = take(at); is(x, ElementwiseOp::plus)) {
      for (int side = 0; side < 2 && c_.residual == nullptr; ++side) {
        if (p_.nodes[x.inputs[1 - side]].kind != VisitorKind::matrix) continue;
        c_.residual = &take(x.inputs[1 - side]);
        at = x.inputs[side];
      }
    }
    if (const VisitorNode& x = take(at);
        x.kind == VisitorKind::compute && x.type == DType::f32 && arity(x.op) == 1) {
      c_.activation = x.op;
      c_.parameters = x.parameters;
      at = x.inputs[0];
    }
    if (!take_scale_shift(take(at))) return std::nullopt;
    // Nodes that were not taken have effects of their own.
    for (int i = 0; i < p_.count; ++i)
      if (!taken_[static_cast<std::size_t>(i)]) return std::nullopt;
    return c_;
  }

 private:
  const VisitorNode& take(int index) {
    taken_[static_cast<std::size_t>(index)] = true;
    return p_.nodes[index];
  }
  static bool is(const VisitorNode& x, ElementwiseOp op) {
    return x.kind == VisitorKind::compute && x.op == op && x.type == DType::f32;
  }
  // The accumulator times a vector or a number, plus a vector.
  bool take_scale_shift(const VisitorNode& x) {
    if (x.kind == VisitorKind::accumulator) return true;
    if (is(x, ElementwiseOp::multiplies)) return take_factor(x);
    if (is(x, ElementwiseOp::multiply_add)) {
      const VisitorNode& shift = take(x.inputs[2]);
      c_.shift = &shift;
      return shift.kind == VisitorKind::row && take_factor(x);
    }
    if (!is(x, ElementwiseOp::plus)) return false;
    for (int side = 0; side < 2; ++side) {
      if (p_.nodes[x.inputs[side]].kind != VisitorKind::accumulator) continue;
      take(x.inputs[side]);
      c_.shift = &take(x.inputs[1 - side]);
      return c_.shift->kind == VisitorKind::row;
    }
    return false;
  }
  bool take_factor(const VisitorNode& x) {
    for (int side = 0; side < 2; ++side) {
      if (p_.nodes[x.inputs[side]].kind != VisitorKind::accumulator) continue;
      take(x.inputs[side]);
      const VisitorNode& factor = take(x.inputs[1 - side]);
      if (factor.kind == VisitorKind::row) {
        c_.scale = &factor;
        return true;
      }
      if (factor.kind != VisitorKind::scalar || factor.factor_count != 1) return false;
      c_.alpha = p_.factor[factor.first_factor];
      return true;
    }
    return false;
  }

  const VisitorProgram& p_;
  std::int64_t batch_;
  CommonEpilogue c_;
  std::array<bool, VisitorProgram::kMaxNodes> taken_{};
};

}  // namespace

GemmStatus lower_visitor(const GemmArguments& g, const RuntimeGraph& graph,
                         LoweredVisitor& lowered) {
  lowered = {};
  if (graph.size() == 0)
    return {Code::unsupported, "gemm on CUDA: the epilogue graph has no nodes"};
  Lowering lowering(g, lowered);
  graph.for_each_vertex(
      [&](const auto& node, const std::vector<int>& inputs) { lowering(node, inputs); });
  lowering.finish();
  return lowering.status();
}

VisitorNode store_of(const GemmArguments& g) {
  return matrix_node(VisitorKind::store, g.d.data, g.d.dtype, g.d.row_stride, g.d.column_stride,
                     g.d.batch_stride, g.n);
}

std::optional<CommonEpilogue> common_epilogue_of(const VisitorProgram& program,
                                                 std::int64_t batch) {
  return CommonForm(program, batch).match();
}

}  // namespace gemm_core::cuda
