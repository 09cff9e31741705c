#include "gemm_core/device/conv_checks.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "gemm_core/base/error.hpp"
#include "gemm_core/device/conv_lowering.hpp"

namespace gemm_core {
namespace {

using Code = GemmStatus::Code;

template <class... Parts>
GemmStatus refuse(Code code, const Parts&... parts) {
  return {code, base::concat("conv: ", parts...)};
}

struct Span {
  std::intptr_t from = 0, to = 0;
};
// Empty where strides reach past 2^62 bytes.
std::optional<Span> span_of(const ConvTensor& t, std::int64_t outer, const Axes& extent,
                            std::int64_t channels) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;
  const std::int64_t most = kMostBytes / base::bytes(t.dtype);
  std::int64_t low = 0, high = 0;
  const auto reach = [&](std::int64_t count, std::int64_t stride) {
    std::int64_t step = 0;
    if (count <= 0) return true;
    if (__builtin_mul_overflow(count - 1, stride, &step)) return false;
    std::int64_t& side = stride < 0 ? low : high;
    return !__builtin_add_overflow(side, step, &side) && high < most && low > -most;
  };
  if (!reach(outer, t.outer_stride) || !reach(channels, t.channel_stride)) return std::nullopt;
  for (std::size_t i = 0; i < 3; ++i) {
    if (!reach(extent[i], t.axis_strides[i])) return std::nullopt;
  }
  const auto base = reinterpret_cast<std::intptr_t>(t.data);
  return Span{base + low * base::bytes(t.dtype), base + (high + 1) * base::bytes(t.dtype)};
}

GemmStatus check_tensor(const char* name, const ConvTensor& t) {
  if (t.data == nullptr) return refuse(Code::null_operand, "operand ", name, " is null");
  if (base::bits(t.dtype) < 8)
    return refuse(Code::unsupported, "operand ", name, ": packed ", base::name(t.dtype),
                  " elements");
  const auto size = static_cast<std::uintptr_t>(base::bytes(t.dtype));
  if (reinterpret_cast<std::uintptr_t>(t.data) % size != 0)
    return refuse(Code::misaligned, "operand ", name, " is not aligned to its element of ", size,
                  " bytes");
  for (const std::int64_t stride : {t.outer_stride, t.axis_strides[0], t.axis_strides[1],
                                    t.axis_strides[2], t.channel_stride}) {
    if (stride > std::int64_t{1} << 40 || stride < -(std::int64_t{1} << 40))
      return refuse(Code::invalid_extent, "operand ", name, " has stride ", stride,
                    ", the limit is 2^40");
  }
  return {};
}

bool meet(const Span& x, const Span& y) { return x.from < y.to && y.from < x.to; }

// No two elements of D at one address: from the smallest stride on, each steps over all before it.
GemmStatus check_own_elements(const ConvTensor& d, std::int64_t outer, const Axes& extent,
                              std::int64_t channels) {
  std::array<std::pair<std::int64_t, std::int64_t>, 5> modes{
      // stride, extent
      {{std::abs(d.outer_stride), outer},
       {std::abs(d.axis_strides[0]), extent[0]},
       {std::abs(d.axis_strides[1]), extent[1]},
       {std::abs(d.axis_strides[2]), extent[2]},
       {std::abs(d.channel_stride), channels}}};
  std::sort(modes.begin(), modes.end());
  std::int64_t reach = 0;
  for (const auto& [stride, count] : modes) {
    if (count <= 1) continue;
    if (stride <= reach)
      return refuse(Code::unsupported, "operand D overlaps itself: an axis of extent ", count,
                    " has stride ", stride, ", smaller ones reach ", reach);
    reach += (count - 1) * stride;
  }
  return {};
}

// What nodes read, against D; their shapes are checked later. A residual may be D itself.
GemmStatus check_nodes(const ConvArguments& g, const ConvTensor& result, const Axes& extent,
                       const Span& d) {
  const DenseProblem shape = conv_shape(g);
  for (std::size_t i = 0; i < g.epilogue.nodes.size(); ++i) {
    const EpilogueNode& node = g.epilogue.nodes[i];
    const std::string name = base::concat("epilogue node ", i);
    const auto check = [&](const void* data, base::DType dtype, std::int64_t elements) {
      const auto from = reinterpret_cast<std::intptr_t>(data);
      if (data == nullptr) return GemmStatus{};
      if (from % base::bytes(dtype) != 0)
        return refuse(Code::misaligned, name, " is not aligned to its element of ",
                      base::bytes(dtype), " bytes");
      if (meet(d, {from, from + elements * base::bytes(dtype)}))
        return refuse(Code::overlap, "operand D overlaps ", name);
      return GemmStatus{};
    };
    if (node.kind == EpilogueNode::Kind::scale_shift) {
      for (const float* vector : {node.scale, node.shift}) {
        if (auto s = check(vector, base::DType::f32, shape.n); !s.ok()) return s;
      }
    } else if (node.kind == EpilogueNode::Kind::add) {
      const auto& aux = node.aux;
      if (aux.stride.rank() != 2) continue;  // refused with its shape
      const std::int64_t pitch = aux.stride[0];
      const Axes packed{pitch * extent[1] * extent[2], pitch * extent[2], pitch};
      const bool in_place = aux.data == result.data && aux.dtype == result.dtype &&
                            result.channel_stride == 1 && result.axis_strides == packed &&
                            result.outer_stride == packed[0] * extent[0];
      if (in_place) continue;
      constexpr std::int64_t kMost = std::int64_t{1} << 59;
      std::int64_t elements = 0;
      if (__builtin_mul_overflow(std::max<std::int64_t>(0, shape.m - 1), pitch, &elements) ||
          elements > kMost || elements < -kMost)
        return refuse(Code::invalid_extent, name, " with row stride ", pitch,
                      " spans more than 2^59 elements");
      elements += shape.n;
      if (auto s = check(aux.data, aux.dtype, elements); !s.ok()) return s;
    }
  }
  return {};
}

}  // namespace

GemmStatus check_conv_tensors(const ConvArguments& g) {
  const ConvProblem& p = g.problem;
  const ConvTensors t = conv_tensors(g);
  const bool forward = g.operation == ConvOperation::forward,
             filter = g.operation == ConvOperation::filter_gradient;
  const auto activation = span_of(t.activation, p.batch, p.input, p.channels),
             filters = span_of(t.filter, p.filters, p.kernel, p.channels / p.groups),
             output = span_of(t.output, p.batch, p.output(), p.filters);
  const bool has_terms = p.batch > 0;  // else A and B are not read
  const struct {
    const char* name;
    const ConvTensor& tensor;
    const std::optional<Span>& span;
    bool is_used;
  } operands[] = {{"A", g.a, forward ? activation : output, has_terms},
                  {"B", g.b, filter ? activation : filters, has_terms},
                  {"D", g.d,
                   forward  ? output
                   : filter ? filters
                            : activation,
                   true}};
  for (const auto& [name, tensor, span, is_used] : operands) {
    if (!is_used) continue;
    if (auto s = check_tensor(name, tensor); !s.ok()) return s;
    if (!span) return refuse(Code::invalid_extent, "operand ", name, " spans more than 2^62 bytes");
  }
  const Span d = *operands[2].span;
  for (std::size_t i = 0; i < 2 && has_terms; ++i) {
    if (meet(d, *operands[i].span))
      return refuse(Code::overlap, "operand D overlaps operand ", operands[i].name);
  }
  const ConvTensor& result = forward ? t.output : filter ? t.filter : t.activation;
  const std::int64_t outer = filter ? p.filters : p.batch, channels = forward ? p.filters
                                                                      : filter
                                                                          ? p.channels / p.groups
                                                                          : p.channels;
  const Axes extent = forward ? p.output() : filter ? p.kernel : p.input;
  if (auto s = check_own_elements(result, outer, extent, channels); !s.ok()) return s;
  if (auto s = check_nodes(g, result, extent, d); !s.ok()) return s;
  if (g.beta == 0) return {};
  if (auto s = check_tensor("C", g.c); !s.ok()) {
    if (s.code == Code::null_operand) s.message += base::concat(", beta is ", g.beta);
    return s;
  }
  const ConvTensor before = packed_strides(g.c, extent, channels);
  const bool in_place = before.data == result.data && before.dtype == result.dtype &&
                        before.outer_stride == result.outer_stride &&
                        before.axis_strides == result.axis_strides &&
                        before.channel_stride == result.channel_stride;
  const auto c = span_of(before, outer, extent, channels);
  if (!c) return refuse(Code::invalid_extent, "operand C spans more than 2^62 bytes");
  if (!in_place && meet(d, *c))
    return refuse(Code::overlap, "operand D overlaps operand C without being the same tensor");
  return {};
}

}  // namespace gemm_core
