#include "gemm_core/device/conv.hpp"

#include <algorithm>
#include <new>

#include "gemm_core/base/error.hpp"
#include "gemm_core/base/parallel.hpp"
#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/device/conv_checks.hpp"
#include "gemm_core/device/conv_lowering.hpp"
#include "gemm_core/device/gather_conv.hpp"
#include "gemm_core/epilogue/cpu_epilogue.hpp"

namespace gemm_core {
namespace {

using Code = GemmStatus::Code;

template <class... Parts>
GemmStatus refuse(Code code, const Parts&... parts) {
  return {code, base::concat("conv: ", parts...)};
}

std::int64_t product(const Axes& x) { return x[0] * x[1] * x[2]; }

// Elements of the tensors, as far as extents alone say.
GemmStatus check_sizes(const ConvProblem& p, double positions) {
  constexpr double kMost = 0x1p50;
  const auto number = [](std::int64_t x) { return static_cast<double>(x); };
  const double taps = number(p.kernel[0]) * number(p.kernel[1]) * number(p.kernel[2]);
  const double filter = taps * number(p.filters) * number(p.channels / p.groups);
  const std::pair<const char*, double> tensors[] = {
      {"the activation", positions * number(p.channels)},
      {"the output", positions * number(p.filters)},
      {"the filter", filter}};
  for (const auto& [name, elements] : tensors) {
    if (elements > kMost)
      return refuse(Code::invalid_extent, name, " has up to ", elements,
                    " elements, the limit is 2^50");
  }
  return {};
}

GemmStatus check_problem(const ConvProblem& p) {
  constexpr std::int64_t kMost = 1 << 29, kMostStride = 1 << 16;
  if (p.axes < 1 || p.axes > 3)
    return refuse(Code::invalid_extent, p.axes, " axes, expected 1 to 3");
  const std::pair<const char*, std::int64_t> counts[] = {
      {"channels", p.channels}, {"filters", p.filters}, {"groups", p.groups}};
  if (p.batch < 0 || p.batch > kMost)
    return refuse(Code::invalid_extent, "batch ", p.batch, " is not in 0..2^29");
  for (const auto& [name, count] : counts) {
    if (count < 1 || count > kMost)
      return refuse(Code::invalid_extent, name, " ", count, " is not in 1..2^29");
  }
  if (p.channels % p.groups != 0 || p.filters % p.groups != 0) {
    return refuse(Code::invalid_extent, p.channels, " channels and ", p.filters,
                  " filters are no multiples of ", p.groups, " groups");
  }
  double positions = static_cast<double>(p.batch);
  for (std::size_t i = 0; i < 3; ++i) {
    const bool unused = i + static_cast<std::size_t>(p.axes) < 3;
    // A span past the limit stands for what numbers past theirs would give; those are refused
    // first.
    const bool fits =
        p.kernel[i] >= 1 && p.kernel[i] <= kMost && p.dilation[i] >= 1 && p.dilation[i] <= kMost;
    const std::int64_t span = fits ? (p.kernel[i] - 1) * p.dilation[i] + 1 : kMost + 1;
    if (p.input[i] < 1 || p.kernel[i] < 1 || p.dilation[i] < 1 || p.stride[i] < 1 ||
        p.lower[i] < 0 || p.upper[i] < 0 || p.input[i] > kMost || p.kernel[i] > kMost ||
        p.dilation[i] > kMost || p.stride[i] > kMostStride || p.lower[i] > kMost ||
        p.upper[i] > kMost || span > kMost || p.input[i] + p.lower[i] + p.upper[i] > kMost) {
      return refuse(Code::invalid_extent, "axis ", i, ": extent ", p.input[i], ", kernel ",
                    p.kernel[i], ", padding ", p.lower[i], " and ", p.upper[i], ", stride ",
                    p.stride[i], ", dilation ", p.dilation[i],
                    ", expected at least 1 (padding 0), at most 2^29 with padding (stride 2^16)");
    }
    if (unused && (p.input[i] != 1 || p.kernel[i] != 1 || p.lower[i] != 0 || p.upper[i] != 0))
      return refuse(Code::invalid_extent, "axis ", i, " is not used by ", p.axes, " axes: extent ",
                    p.input[i]);
    if (span > p.input[i] + p.lower[i] + p.upper[i]) {
      return refuse(Code::invalid_extent, "axis ", i, ": a kernel of ", p.kernel[i],
                    " with dilation ", p.dilation[i], " spans ", span, ", the padded input ",
                    p.input[i] + p.lower[i] + p.upper[i]);
    }
    positions *= static_cast<double>(p.input[i] + p.lower[i] + p.upper[i]);
  }
  if (positions > 1e12)
    return refuse(Code::invalid_extent, positions, " padded positions, the limit is 10^12");
  return check_sizes(p, positions);
}

GemmStatus check_types(const ConvArguments& g) {
  GemmArguments types = product_types(g);
  types.epilogue = g.epilogue;
  return check_product("conv", types);
}

// What the gathered path needs: float types, packed NHWC rows, alpha 1 and beta 0.
bool is_gatherable(const ConvArguments& g) {
  const ConvProblem& p = g.problem;
  if (g.operation == ConvOperation::filter_gradient || g.alpha != 1 || g.beta != 0) return false;
  const bool types = is_narrow_float(g.a.dtype) && is_narrow_float(g.d.dtype) &&
                     (is_narrow_float(g.b.dtype) || is_fp8(g.b.dtype)) &&
                     (is_narrow_float(g.compute) || g.compute == base::DType::tf32);
  if (!types) return false;
  const ConvTensors t = conv_tensors(g);
  const auto rows = [&](const ConvTensor& x, const Axes& e) {
    const std::int64_t step = x.axis_strides[2];
    return x.channel_stride == 1 && x.axis_strides == Axes{e[1] * e[2] * step, e[2] * step, step} &&
           x.outer_stride == product(e) * step;
  };
  constexpr std::int64_t kMostRows = std::int64_t{1} << 31;
  return rows(t.activation, p.input) && rows(t.output, p.output()) &&
         std::max(p.batch * product(p.input), p.batch * product(p.output())) < kMostRows;
}

bool uses_gather(const ConvArguments& g) {
  return g.path != ConvArguments::Path::general && is_gatherable(g);
}

// [taps][rows]: the row of A that each tap reads, or -1.
std::vector<std::int32_t> neighbour_table(const ConvArguments& g) {
  const ConvProblem& p = g.problem;
  const bool forward = g.operation == ConvOperation::forward;
  const Axes to = forward ? p.output() : p.input, from = forward ? p.input : p.output();
  const std::int64_t rows = p.batch * product(to);
  std::vector<std::int32_t> table(static_cast<std::size_t>(p.taps() * rows));
  for_each_position(1, p.kernel, [&](std::int64_t tap_index, std::int64_t, const Axes& tap) {
    std::int32_t* column = table.data() + tap_index * rows;
    for_each_position(p.batch, to, [&](std::int64_t row, std::int64_t n, const Axes& at) {
      std::int64_t index = n;
      for (std::size_t i = 0; i < 3; ++i) {
        std::int64_t x = forward ? at[i] * p.stride[i] - p.lower[i] + tap[i] * p.dilation[i]
                                 : at[i] + p.lower[i] - tap[i] * p.dilation[i];
        if (!forward) x = x % p.stride[i] == 0 ? x / p.stride[i] : -1;
        index = x < 0 || x >= from[i] || index < 0 ? -1 : index * from[i] + x;
      }
      column[row] = static_cast<std::int32_t>(index);
    });
  });
  return table;
}

}  // namespace

Axes ConvProblem::output() const {
  Axes out;
  for (std::size_t i = 0; i < 3; ++i)
    out[i] = 1 + (input[i] + lower[i] + upper[i] - ((kernel[i] - 1) * dilation[i] + 1)) / stride[i];
  return out;
}

struct Conv::Gathered {
  ConvArguments arguments;
  std::vector<std::int32_t> neighbours;
  std::vector<float> filter;
  PackedConvWeights weights;

  explicit Gathered(const ConvArguments& g) : arguments(g), neighbours(neighbour_table(g)) {}

  // The filter as it lies, where its weights are [filters][taps][channels / groups] in fp32.
  const float* plain_filter() const {
    const ConvProblem& p = arguments.problem;
    const ConvTensor f = conv_tensors(arguments).filter;
    const std::int64_t c = p.channels / p.groups;
    const Axes steps{p.kernel[1] * p.kernel[2] * c, p.kernel[2] * c, c};
    for (std::size_t i = 0; i < 3; ++i) {
      if (p.kernel[i] > 1 && f.axis_strides[i] != steps[i]) return nullptr;
    }
    const bool is_plain = f.dtype == base::DType::f32 && (c == 1 || f.channel_stride == 1) &&
                          (p.filters == 1 || f.outer_stride == p.taps() * c);
    return is_plain ? static_cast<const float*>(f.data) : nullptr;
  }

  void pack_filter() {
    const ConvProblem& p = arguments.problem;
    const bool forward = arguments.operation == ConvOperation::forward;
    const float* plain = plain_filter();
    if (plain == nullptr) copy_filter();
    pack_conv_weights({.weight = plain ? plain : filter.data(),
                       .cout = forward ? p.filters : p.channels,
                       .taps = p.taps(),
                       .cin = forward ? p.channels : p.filters,
                       .groups = p.groups,
                       .compute = arguments.compute,
                       .is_transposed = plain != nullptr && !forward,
                       .has_reversed_taps = plain != nullptr && p.flip},
                      weights);
  }

  // To [cout][taps][cin / groups], whose roles dgrad swaps.
  void copy_filter() {
    const ConvProblem& p = arguments.problem;
    const bool forward = arguments.operation == ConvOperation::forward;
    const ConvTensor f = conv_tensors(arguments).filter;
    const std::int64_t k_group = p.filters / p.groups, c_group = p.channels / p.groups,
                       taps = p.taps();
    filter.resize(static_cast<std::size_t>(p.filters * taps * c_group));
    base::parallel_blocks(p.filters, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k) {
        for_each_position(1, p.kernel, [&](std::int64_t tap, std::int64_t, const Axes& at) {
          std::int64_t offset = k * f.outer_stride;
          for (std::size_t i = 0; i < 3; ++i)
            offset += (p.flip ? p.kernel[i] - 1 - at[i] : at[i]) * f.axis_strides[i];
          const std::int64_t group = k / k_group;
          for (std::int64_t c = 0; c < c_group; ++c) {
            const std::int64_t to =
                forward ? (k * taps + tap) * c_group + c
                        : ((group * c_group + c) * taps + tap) * k_group + k % k_group;
            filter[static_cast<std::size_t>(to)] =
                float_element(f.data, f.dtype, offset + c * f.channel_stride);
          }
        });
      }
    });
  }

  void run() {
    pack_filter();
    const ConvProblem& p = arguments.problem;
    const bool forward = arguments.operation == ConvOperation::forward;
    const ConvTensors t = conv_tensors(arguments);
    const ConvTensor &from = forward ? t.activation : t.output,
                     &to = forward ? t.output : t.activation;
    const std::int64_t in_rows = p.batch * product(forward ? p.input : p.output()),
                       out_rows = p.batch * product(forward ? p.output() : p.input);
    gather_conv(
        {.input = {from.data, from.dtype, {}, {in_rows, weights.cin}, {from.axis_strides[2], 1}},
         .neighbours = neighbours.data(),
         .rows = out_rows,
         .weights = &weights,
         .epilogue = arguments.epilogue,
         .output = {to.data, to.dtype, {}, {out_rows, weights.cout}, {to.axis_strides[2], 1}}});
  }
};

Conv::Conv() = default;
Conv::~Conv() = default;
Conv::Conv(Conv&&) noexcept = default;
Conv& Conv::operator=(Conv&&) noexcept = default;

GemmStatus Conv::can_implement(const ConvArguments& g) {
  if (auto s = check_problem(g.problem); !s.ok()) return s;
  if (auto s = check_types(g); !s.ok()) return s;
  if (g.problem.batch == 0 && g.operation != ConvOperation::filter_gradient) return {};
  if (auto s = check_conv_tensors(g); !s.ok()) return s;
  if (!g.epilogue.nodes.empty() &&
      (g.operation == ConvOperation::filter_gradient || g.problem.groups != 1))
    return refuse(Code::unsupported, "epilogue nodes on a filter gradient or on ", g.problem.groups,
                  " groups");
  const DenseProblem shape = conv_shape(g);
  if (!packs_within_limit(shape.n, shape.k, g.problem.groups))
    return refuse(Code::invalid_extent, "a product of n ", shape.n, " and k ", shape.k, " in ",
                  g.problem.groups, " groups, packed, exceeds 2^62 bytes");
  try {
    check_epilogue(g.epilogue, shape.m, shape.n, "conv");
  } catch (const base::Error& error) {
    return {Code::unsupported, error.what()};
  }
  if (g.path == ConvArguments::Path::gathered && !is_gatherable(g))
    return refuse(
        Code::unsupported,
        "the gathered path takes float types, packed rows, alpha 1, beta 0, no filter gradient");
  return {};
}

std::size_t Conv::workspace_size(const ConvArguments& g) {
  if (!can_implement(g).ok() || uses_gather(g)) return 0;
  const CpuSplit split{g.schedule.decomposition, g.schedule.splits, g.schedule.processors,
                       g.schedule.deterministic};
  return products_workspace(conv_shape(g), g.problem.groups, split);
}

GemmStatus Conv::initialize(const ConvArguments& g, void* workspace, std::size_t bytes) {
  initialized_ = false;
  gathered_.reset();
  lowered_ = {};
  if (auto s = can_implement(g); !s.ok()) return s;
  if (auto s = check_workspace("conv", workspace, bytes, workspace_size(g)); !s.ok()) return s;
  if (g.problem.batch > 0 || g.operation == ConvOperation::filter_gradient) {
    try {
      if (uses_gather(g)) {
        gathered_ = std::make_unique<Gathered>(g);
      } else {
        lowered_ = lower_conv(g);
      }
    } catch (const std::bad_alloc&) {
      const DenseProblem shape = conv_shape(g);
      return refuse(Code::unsupported, "no memory for tables of ", shape.m, " x ", shape.k,
                    " positions");
    }
  }
  workspace_ = workspace;
  initialized_ = true;
  return {};
}

GemmStatus Conv::run() {
  if (!initialized_) return {Code::not_initialized, "conv: run before initialize"};
  return run_within_memory("conv", [&] {
    if (gathered_) {
      gathered_->run();
    } else {
      run_products(lowered_, workspace_);
    }
  });
}

}  // namespace gemm_core
