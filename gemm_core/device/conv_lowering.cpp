#include "gemm_core/device/conv_lowering.hpp"

#include <algorithm>

namespace gemm_core {
namespace {

using Table = std::vector<std::int64_t>;

std::int64_t dot(const Axes& x, const Axes& y) { return x[0] * y[0] + x[1] * y[1] + x[2] * y[2]; }
std::int64_t product(const Axes& x) { return x[0] * x[1] * x[2]; }

// Offsets and points of the positions of one side of a view.
struct Side {
  Table offsets;
  std::vector<BoxPoint> points;
  void add(std::int64_t offset, const Axes& quotient, std::int64_t remainder) {
    offsets.push_back(offset);
    BoxPoint point;
    for (std::size_t i = 0; i < 3; ++i) point.quotient[i] = static_cast<std::int32_t>(quotient[i]);
    point.remainder = remainder;
    points.push_back(point);
  }
};

class Lowering {
 public:
  explicit Lowering(const ConvArguments& g)
      : g_(g),
        p_(g.problem),
        t_(conv_tensors(g)),
        c_(packed_strides(g.c, d_extent(), d_channels())) {}

  LoweredProducts run() {
    lowered_.epilogues.push_back(g_.epilogue);
    for (std::int64_t group = 0; group < p_.groups; ++group) {
      DenseProblem problem = conv_shape(g_);
      problem.alpha = g_.alpha;
      problem.beta = g_.beta;
      problem.epilogue = &lowered_.epilogues.front();
      problem.batch = group;
      problem.a = at_group(a_, group);
      problem.b = at_group(b_, group);
      const MatrixRef d = at_group(d_, group);
      problem.d = const_cast<void*>(d.data);
      problem.d_row_stride = d.row_stride;
      problem.d_column_stride = d.column_stride;
      problem.d_access = d.access;
      if (g_.beta != 0) problem.c = at_group(c_ref_, group);
      lowered_.problems.push_back(problem);
    }
    lowered_.split = {g_.schedule.decomposition, g_.schedule.splits, g_.schedule.processors,
                      g_.schedule.deterministic};
    return std::move(lowered_);
  }

  void lower() {
    switch (g_.operation) {
      case ConvOperation::forward:
        a_ = {gathered_input(), p_.channels / p_.groups * t_.activation.channel_stride};
        b_ = {
            filter_rows(p_.channels / p_.groups, t_.filter.channel_stride, t_.filter.outer_stride),
            p_.filters / p_.groups * t_.filter.outer_stride};
        d_ = {positions(t_.output, p_.output()), p_.filters / p_.groups * t_.output.channel_stride};
        c_ref_ = {positions(c_, p_.output()), p_.filters / p_.groups * c_.channel_stride};
        break;
      case ConvOperation::activation_gradient:
        a_ = {gathered_output(), p_.filters / p_.groups * t_.output.channel_stride};
        b_ = {filter_rows(p_.filters / p_.groups, t_.filter.outer_stride, t_.filter.channel_stride),
              p_.filters / p_.groups * t_.filter.outer_stride};
        d_ = {positions(t_.activation, p_.input),
              p_.channels / p_.groups * t_.activation.channel_stride};
        c_ref_ = {positions(c_, p_.input), p_.channels / p_.groups * c_.channel_stride};
        break;
      default:
        a_ = {turned(positions(t_.output, p_.output())),
              p_.filters / p_.groups * t_.output.channel_stride};
        b_ = {gathered_input(), p_.channels / p_.groups * t_.activation.channel_stride};
        d_ = {filter_columns(t_.filter), p_.filters / p_.groups * t_.filter.outer_stride};
        c_ref_ = {filter_columns(c_), p_.filters / p_.groups * c_.outer_stride};
        break;
    }
  }

 private:
  struct PerGroup {
    MatrixRef matrix;
    std::int64_t step = 0;  // elements from group to group
  };

  Axes d_extent() const {
    switch (g_.operation) {
      case ConvOperation::forward:
        return p_.output();
      case ConvOperation::activation_gradient:
        return p_.input;
      default:
        return p_.kernel;
    }
  }
  std::int64_t d_channels() const {
    switch (g_.operation) {
      case ConvOperation::forward:
        return p_.filters;
      case ConvOperation::activation_gradient:
        return p_.channels;
      default:
        return p_.channels / p_.groups;
    }
  }

  static MatrixRef at_group(const PerGroup& o, std::int64_t group) {
    MatrixRef m = o.matrix;
    m.data = static_cast<const char*>(m.data) + group * o.step * base::bytes(m.dtype);
    return m;
  }

  OperandAccess& new_access() { return lowered_.accesses.emplace_back(); }

  // [positions, channels] of a tensor; plain where positions follow each other at one stride.
  MatrixRef positions(const ConvTensor& t, const Axes& extent) {
    const std::int64_t step = t.axis_strides[2];
    const Axes even{extent[1] * extent[2] * step, extent[2] * step, step};
    MatrixRef m{t.data, t.dtype, step, t.channel_stride};
    if (t.axis_strides == even && t.outer_stride == product(extent) * step) return m;
    Table offsets;
    for_each_position(p_.batch, extent, [&](std::int64_t, std::int64_t n, const Axes& at) {
      offsets.push_back(n * t.outer_stride + dot(at, t.axis_strides));
    });
    OperandAccess& access = new_access();
    access.row_offsets = lowered_.keep(std::move(offsets));
    m.access = &access;
    return m;
  }

  MatrixRef turned(MatrixRef m) {
    std::swap(m.row_stride, m.column_stride);
    if (m.access == nullptr) return m;
    OperandAccess& access = new_access();
    access.column_offsets = m.access->row_offsets;
    m.access = &access;
    return m;
  }

  // (tap, channel), channel fastest: the activation at out * stride - lower + tap * dilation.
  MatrixRef gathered_input() {
    const ConvTensor& t = t_.activation;
    Side rows, columns;
    for_each_position(p_.batch, p_.output(), [&](std::int64_t, std::int64_t n, const Axes& out) {
      Axes at;
      for (std::size_t i = 0; i < 3; ++i) at[i] = out[i] * p_.stride[i] - p_.lower[i];
      rows.add(n * t.outer_stride + dot(at, t.axis_strides), at, 0);
    });
    for_each_position(1, p_.kernel, [&](std::int64_t, std::int64_t, const Axes& tap) {
      Axes at;
      for (std::size_t i = 0; i < 3; ++i) at[i] = tap[i] * p_.dilation[i];
      add_channels(columns, p_.channels / p_.groups, dot(at, t.axis_strides), t.channel_stride, at,
                   0);
    });
    return view(t, rows, columns, p_.input, p_.channels / p_.groups);
  }

  // (tap, filter), filter fastest: the output whose tap reads this position, where there is one.
  MatrixRef gathered_output() {
    const ConvTensor& t = t_.output;
    Side rows, columns;
    const auto split = [&](const Axes& x, Axes& quotient) {
      std::int64_t remainder = 0;
      for (std::size_t i = 0; i < 3; ++i) {
        quotient[i] = x[i] / p_.stride[i];
        remainder = remainder * p_.stride[i] + x[i] % p_.stride[i];
      }
      return remainder;
    };
    for_each_position(p_.batch, p_.input, [&](std::int64_t, std::int64_t n, const Axes& in) {
      Axes at, quotient;
      for (std::size_t i = 0; i < 3; ++i) at[i] = in[i] + p_.lower[i];
      const std::int64_t remainder = split(at, quotient);
      rows.add(n * t.outer_stride + dot(quotient, t.axis_strides), quotient, remainder);
    });
    for_each_position(1, p_.kernel, [&](std::int64_t, std::int64_t, const Axes& tap) {
      Axes at, quotient;
      for (std::size_t i = 0; i < 3; ++i) at[i] = tap[i] * p_.dilation[i];
      const std::int64_t remainder = split(at, quotient);
      for (auto& q : quotient) q = -q;
      add_channels(columns, p_.filters / p_.groups, dot(quotient, t.axis_strides), t.channel_stride,
                   quotient, remainder);
    });
    return view(t, rows, columns, p_.output(), p_.filters / p_.groups);
  }

  static void add_channels(Side& side, std::int64_t count, std::int64_t offset, std::int64_t step,
                           const Axes& at, std::int64_t remainder) {
    for (std::int64_t c = 0; c < count; ++c) side.add(offset + c * step, at, remainder);
  }

  MatrixRef view(const ConvTensor& t, Side& rows, Side& columns, const Axes& box,
                 std::int64_t channels) {
    OperandAccess& access = new_access();
    access.row_offsets = lowered_.keep(std::move(rows.offsets));
    access.column_offsets = lowered_.keep(std::move(columns.offsets));
    access.row_points = lowered_.keep(std::move(rows.points));
    access.column_points = lowered_.keep(std::move(columns.points));
    for (std::size_t i = 0; i < 3; ++i) access.box[i] = static_cast<std::int32_t>(box[i]);
    access.run = t.channel_stride == 1 ? channels : 1;
    return {t.data, t.dtype, 0, 0, &access};
  }

  // Offset of each (tap, channel) of a filter-like tensor, `count` channels of stride `step`.
  Table tap_offsets(const ConvTensor& t, std::int64_t count, std::int64_t step) const {
    Table offsets;
    for_each_position(1, p_.kernel, [&](std::int64_t, std::int64_t, const Axes& tap) {
      Axes at;
      for (std::size_t i = 0; i < 3; ++i) at[i] = p_.flip ? p_.kernel[i] - 1 - tap[i] : tap[i];
      for (std::int64_t c = 0; c < count; ++c)
        offsets.push_back(dot(at, t.axis_strides) + c * step);
    });
    return offsets;
  }

  static bool is_even(const Table& offsets, std::int64_t step) {
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      if (offsets[i] != static_cast<std::int64_t>(i) * step) return false;
    }
    return true;
  }

  MatrixRef filter_rows(std::int64_t count, std::int64_t row_step, std::int64_t column_stride) {
    Table offsets = tap_offsets(t_.filter, count, row_step);
    MatrixRef m{t_.filter.data, t_.filter.dtype, row_step, column_stride};
    if (is_even(offsets, row_step)) return m;
    OperandAccess& access = new_access();
    access.row_offsets = lowered_.keep(std::move(offsets));
    m.access = &access;
    return m;
  }

  MatrixRef filter_columns(const ConvTensor& t) {
    Table offsets = tap_offsets(t, p_.channels / p_.groups, t.channel_stride);
    MatrixRef m{t.data, t.dtype, t.outer_stride, t.channel_stride};
    if (is_even(offsets, t.channel_stride)) return m;
    OperandAccess& access = new_access();
    access.column_offsets = lowered_.keep(std::move(offsets));
    access.run = t.channel_stride == 1 ? p_.channels / p_.groups : 1;
    m.access = &access;
    return m;
  }

  const ConvArguments& g_;
  const ConvProblem& p_;
  ConvTensors t_;
  ConvTensor c_;
  LoweredProducts lowered_;
  PerGroup a_, b_, c_ref_, d_;
};

}  // namespace

ConvTensor packed_strides(const ConvTensor& tensor, const Axes& extent, std::int64_t channels) {
  ConvTensor t = tensor;
  if (t.outer_stride != 0 || t.channel_stride != 0 || t.axis_strides != Axes{0, 0, 0}) return t;
  t.channel_stride = 1;
  t.axis_strides = {extent[1] * extent[2] * channels, extent[2] * channels, channels};
  t.outer_stride = product(extent) * channels;
  return t;
}

ConvTensors conv_tensors(const ConvArguments& g) {
  const ConvProblem& p = g.problem;
  const bool forward = g.operation == ConvOperation::forward,
             filter = g.operation == ConvOperation::filter_gradient;
  ConvTensors t;
  t.activation = packed_strides(forward ? g.a : filter ? g.b : g.d, p.input, p.channels);
  t.filter = packed_strides(filter ? g.d : g.b, p.kernel, p.channels / p.groups);
  t.output = packed_strides(forward ? g.d : g.a, p.output(), p.filters);
  return t;
}

DenseProblem conv_shape(const ConvArguments& g) {
  const ConvProblem& p = g.problem;
  const std::int64_t channels = p.channels / p.groups, filters = p.filters / p.groups;
  const std::int64_t outputs = p.batch * product(p.output()), inputs = p.batch * product(p.input);
  DenseProblem shape;
  switch (g.operation) {
    case ConvOperation::forward:
      shape = {.m = outputs, .n = filters, .k = channels * p.taps()};
      break;
    case ConvOperation::activation_gradient:
      shape = {.m = inputs, .n = channels, .k = filters * p.taps()};
      break;
    default:
      shape = {.m = filters, .n = channels * p.taps(), .k = outputs};
      break;
  }
  shape.a.dtype = g.a.dtype;
  shape.b.dtype = g.b.dtype;
  shape.d_dtype = g.d.dtype;
  shape.compute = g.compute;
  return shape;
}

LoweredProducts lower_conv(const ConvArguments& arguments) {
  Lowering lowering(arguments);
  lowering.lower();
  return lowering.run();
}

}  // namespace gemm_core
