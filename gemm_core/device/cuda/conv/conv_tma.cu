#include "gemm_core/device/cuda/conv/conv_tma.hpp"

#include <algorithm>

#include "gemm_core/device/conv_lowering.hpp"
#include "gemm_core/device/cuda/conv/conv_positions.hpp"
#include "gemm_core/device/cuda/conv/im2col_map.hpp"
#include "gemm_core/device/cuda/gemm/gemm_lowering.hpp"
#include "gemm_core/device/cuda/tensor_map.hpp"

namespace gemm_core::cuda {
namespace {

using base::DType;

std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }
std::int64_t product(const Axes& x) { return x[0] * x[1] * x[2]; }
DType storage(DType compute) { return compute == DType::tf32 ? DType::f32 : compute; }
const char* moved(const ConvTensor& t, std::int64_t elements) {
  return static_cast<const char*>(t.data) + elements * base::bytes(t.dtype);
}

// Positions of a tensor at one step, as a matrix's rows.
bool is_even(const ConvTensor& t, const Axes& extent, std::int64_t batch) {
  const std::int64_t step = t.axis_strides[2];
  const Axes even{extent[1] * extent[2] * step, extent[2] * step, step};
  for (std::size_t i = 0; i < 3; ++i) {
    if (extent[i] > 1 && t.axis_strides[i] != even[i]) return false;
  }
  return batch == 1 || t.outer_stride == product(extent) * step;
}

class Lowering {
 public:
  Lowering(const ConvInstance& instance, const ConvArguments& g, std::uint32_t group,
           int multiprocessors)
      : instance_(instance),
        g_(g),
        p_(g.problem),
        t_(conv_tensors(g)),
        c_(packed_strides(g.c, result_extent(), result_channels())),
        band_(group),
        processors_(multiprocessors) {}

  std::vector<LoweredConv> run() {
    if (!fits()) return {};
    std::vector<LoweredConv> launches;
    for (std::int64_t group = 0; group < p_.groups; ++group) {
      std::vector<LoweredClass> classes;
      for (const ConvPart& part : conv_parts(g_)) {
        if (is_filter()) {
          auto lowered = filter_launch(part, group);
          if (!lowered) return {};
          launches.push_back(*lowered);
          continue;
        }
        LoweredClass one;
        auto lowered = forward_launch(part, group, one);
        if (!lowered) return {};
        one.lowered = *lowered;
        classes.push_back(one);
      }
      if (instance_.kernel == ConvKernel::scatters)
        add_classes(classes, processors_, launches);
      else if (!is_filter())
        launches.push_back(classes.front().lowered);
    }
    return launches;
  }

 private:
  bool is_filter() const { return g_.operation == ConvOperation::filter_gradient; }
  bool is_forward() const { return g_.operation == ConvOperation::forward; }
  Axes result_extent() const {
    return is_forward() ? p_.output() : is_filter() ? p_.kernel : p_.input;
  }
  std::int64_t result_channels() const {
    return is_forward() ? p_.filters : is_filter() ? p_.channels / p_.groups : p_.channels;
  }
  const ConvTensor& result() const {
    return is_forward() ? t_.output : is_filter() ? t_.filter : t_.activation;
  }

  bool fits() const {
    const DType stored = storage(instance_.shape.element);
    if (g_.compute != instance_.shape.element || g_.a.dtype != stored || g_.b.dtype != stored)
      return false;
    if (is_filter() != (instance_.kernel == ConvKernel::filter)) return false;
    // A launch a group: few channels a group are better served by one launch of another kernel.
    constexpr std::int64_t kLeastChannels = 32;
    if (p_.groups > 1 && std::min(p_.channels, p_.filters) / p_.groups < kLeastChannels)
      return false;
    // K-major filters are forward's, others those of the gradient.
    if (!is_filter() && instance_.shape.k_major_b != is_forward()) return false;
    for (const ConvTensor* t : {&t_.activation, &t_.filter, &t_.output}) {
      if (t->channel_stride != 1) return false;
    }
    const Axes& s = t_.filter.axis_strides;
    if ((p_.kernel[1] > 1 && s[1] != s[2] * p_.kernel[2]) ||
        (p_.kernel[0] > 1 && s[0] != s[2] * p_.kernel[1] * p_.kernel[2])) {
      return false;
    }
    constexpr std::int64_t kLimit = (std::int64_t{1} << 31) - 512;
    if (p_.batch * product(p_.output()) >= kLimit || p_.batch * product(p_.input) >= kLimit)
      return false;
    const bool is_plain = result_is_even();
    if (instance_.kernel != ConvKernel::scatters) return is_plain;
    // Scattered rows: 16 bits, 16 bytes at a time, alpha alone.
    const ConvTensor& d = result();
    const auto aligned = [](std::int64_t steps) { return steps % 8 == 0; };
    return !is_plain && g_.beta == 0 && g_.epilogue.nodes.empty() &&
           (d.dtype == DType::f16 || d.dtype == DType::bf16) &&
           reinterpret_cast<std::uintptr_t>(d.data) % 16 == 0 && aligned(d.outer_stride) &&
           std::all_of(d.axis_strides.begin(), d.axis_strides.end(), aligned) &&
           aligned(result_channels() / p_.groups);
  }

  bool result_is_even() const {
    if (is_filter()) return is_even(t_.output, p_.output(), p_.batch);  // operand A
    const bool is_strided =
        !is_forward() && (p_.stride[0] > 1 || p_.stride[1] > 1 || p_.stride[2] > 1);
    const Axes extent = result_extent();
    return !is_strided && is_even(result(), extent, p_.batch) &&
           (g_.beta == 0 || (c_.channel_stride == 1 && is_even(c_, extent, p_.batch)));
  }

  Im2colMapDesc view_of(const ConvTensor& t, const Axes& extent, const ConvPart& part,
                        std::int64_t first_channel, std::int64_t channels) const {
    Im2colMapDesc desc;
    const std::int64_t bytes = base::bytes(t.dtype);
    desc.data = moved(t, first_channel);
    desc.element = t.dtype;
    desc.axes = p_.axes;
    desc.batch = p_.batch;
    desc.channels = channels;
    desc.extent = extent;
    desc.batch_stride = p_.batch > 1 ? t.outer_stride * bytes : 16;
    for (std::size_t i = 0; i < 3; ++i) {
      desc.axis_stride[i] = extent[i] > 1 ? t.axis_strides[i] * bytes : 16;
      desc.corner[i] = part[i].corner;
      desc.step[i] = part[i].step;
      desc.positions[i] = part[i].positions;
      desc.most_offset[i] = part[i].most_offset;
    }
    desc.box_channels = static_cast<int>(128 / bytes);
    desc.box_pixels = is_filter() ? instance_.shape.stage_k : instance_.shape.tile_m;
    return desc;
  }

  ConvAddress address_of(const ConvPart& part) const {
    ConvAddress a;
    a.axes = p_.axes;
    a.tap_count = 1;
    for (std::size_t i = 0; i < 3; ++i) {
      a.taps[i] = part[i].taps;
      a.corner[i] = static_cast<int>(part[i].corner);
      a.stride[i] = static_cast<int>(part[i].step);
      a.by_axis[i] = base::FastDivMod(static_cast<std::uint32_t>(part[i].positions));
      a.tap_count *= part[i].taps.count;
      a.taps[i].count = std::max(1, part[i].taps.count);  // divided by, though there is no stage
    }
    return a;
  }

  // Tiles, plan and store of a product.
  std::optional<LoweredConv> finish(LoweredConv lowered, const DenseProduct& p) const {
    const DenseInstance& shape = instance_.shape;
    lowered.instance = &instance_;
    Sm90GemmParams& gemm = lowered.params.gemm;
    set_store(gemm.problem, p, false);
    gemm.problem.k_stages = static_cast<int>(ceil_div(p.k, shape.stage_k));
    gemm.order = kernel::TileOrder(
        {ceil_div(p.m, shape.tile_m * shape.cluster), ceil_div(p.n, shape.tile_n), p.batch},
        kernel::Raster::heuristic, band_);
    gemm.plan = plan_for(shape, p, processors_);
    lowered.cycles = estimate_cycles(shape, p, processors_);
    if (gemm.plan.stream_units() > 0) {
      const auto slots = static_cast<std::size_t>(gemm.plan.stream_units() * shape.cluster);
      lowered.flag_bytes = static_cast<std::size_t>(
          ceil_div(static_cast<std::int64_t>(slots) * shape.tile_m / 64 * 4, 256) * 256);
      lowered.sum_bytes = slots * static_cast<std::size_t>(shape.tile_m * shape.tile_n) * 4;
    }
    const bool by_plan = gemm.plan.stream_units() > 0;
    lowered.walk = by_plan ? DenseWalk::splits : DenseWalk::tiles;
    lowered.clusters = static_cast<int>(
        by_plan ? gemm.plan.workers()
                : std::min<std::int64_t>(gemm.order.count(), processors_ / shape.cluster));
    return lowered;
  }

  GemmArguments product_of(std::int64_t m, std::int64_t n, std::int64_t k) const {
    GemmArguments g;
    g.a.dtype = g_.a.dtype;
    g.b.dtype = g_.b.dtype;
    g.c.dtype = g_.c.dtype;
    g.d.dtype = g_.d.dtype;
    g.compute = g_.compute;
    g.alpha = g_.alpha;
    g.beta = g_.beta;
    g.m = m;
    g.n = n;
    g.k = k;
    g.epilogue = g_.epilogue;
    g.schedule = g_.schedule;
    // Sums over channels are short: not cut unless that is asked for. Filter gradients are cut into
    // parts.
    if (is_filter() || g.schedule.decomposition == kernel::Decomposition::heuristic)
      g.schedule.decomposition = kernel::Decomposition::data_parallel;
    return g;
  }

  std::optional<LoweredConv> forward_launch(const ConvPart& part, std::int64_t group,
                                            LoweredClass& one) const {
    const std::int64_t inner = (is_forward() ? p_.channels : p_.filters) / p_.groups,
                       outer = (is_forward() ? p_.filters : p_.channels) / p_.groups;
    const std::int64_t filter_at = group * (p_.filters / p_.groups) * t_.filter.outer_stride;
    LoweredConv lowered;
    lowered.params.address = address_of(part);
    lowered.params.address.channel_stages =
        static_cast<int>(ceil_div(inner, instance_.shape.stage_k));
    const auto a =
        make_im2col_map(view_of(is_forward() ? t_.activation : t_.output,
                                is_forward() ? p_.input : p_.output(), part, group * inner, inner));
    TensorMapDesc filter;
    const std::int64_t bytes = base::bytes(t_.filter.dtype);
    filter.data = moved(t_.filter, filter_at);
    filter.element = t_.filter.dtype;
    filter.inner = p_.channels / p_.groups;
    filter.rows = p_.filters / p_.groups;
    filter.batch = p_.taps();
    filter.row_stride = filter.rows > 1 ? t_.filter.outer_stride * bytes : 16;
    filter.batch_stride = filter.batch > 1 ? t_.filter.axis_strides[2] * bytes : 16;
    filter.box_inner = static_cast<int>(128 / bytes);
    filter.box_rows =
        instance_.shape.k_major_b ? instance_.shape.box_rows_b : instance_.shape.stage_k;
    const auto b = make_tensor_map(filter);
    if (!a || !b) return std::nullopt;
    lowered.params.gemm.problem.a = *a;
    lowered.params.gemm.problem.b = *b;

    const std::int64_t rows = p_.batch * part[0].positions * part[1].positions * part[2].positions;
    GemmArguments g =
        product_of(rows, outer,
                   std::int64_t{lowered.params.address.tap_count} *
                       lowered.params.address.channel_stages * instance_.shape.stage_k);
    const ConvTensor& d = result();
    g.d.data = const_cast<char*>(moved(d, group * outer));
    g.d.row_stride = d.axis_strides[2];
    if (g_.beta != 0) {
      g.c.data = moved(c_, group * outer);
      g.c.row_stride = c_.axis_strides[2];
    }
    if (instance_.kernel == ConvKernel::scatters) set_rows(one.rows, part, d, g.d.data);
    one.m = rows;
    return finish(lowered, lower_product(g));
  }

  static void set_rows(ScatteredRows& rows, const ConvPart& part, const ConvTensor& d, void* data) {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      rows.by_axis[i] = base::FastDivMod(static_cast<std::uint32_t>(part[i].positions));
      rows.step[i] = part[i].stride * d.axis_strides[i];
      first += part[i].first * d.axis_strides[i];
    }
    rows.batch_step = d.outer_stride;
    rows.data = static_cast<char*>(data) + first * base::bytes(d.dtype);
  }

  std::optional<LoweredConv> filter_launch(const ConvPart& part, std::int64_t group) const {
    const std::int64_t channels = p_.channels / p_.groups, filters = p_.filters / p_.groups;
    const std::int64_t taps = p_.taps(), positions = p_.batch * product(p_.output());
    const ConvTensor& f = t_.filter;
    // Channels of all taps side by side where blocks of 64 do not cross from one tap to the next.
    const bool merged = channels % 64 == 0 && (taps == 1 || f.axis_strides[2] == channels) &&
                        (g_.beta == 0 || taps == 1 || c_.axis_strides[2] == channels);
    LoweredConv lowered;
    lowered.params.address = address_of(part);
    lowered.params.address.blocks_per_tap = merged ? static_cast<int>(channels / 64) : 1 << 24;
    // Taps are counted as they lie in the filter.
    if (p_.flip) {
      for (std::size_t i = 0; i < 3; ++i) {
        ConvTapAxis& axis = lowered.params.address.taps[i];
        axis.offset += (axis.count - 1) * axis.offset_step;
        axis.offset_step = -axis.offset_step;
      }
    }
    TensorMapDesc a;
    const std::int64_t bytes = base::bytes(t_.output.dtype);
    a.data = moved(t_.output, group * filters);
    a.element = t_.output.dtype;
    a.inner = filters;
    a.rows = positions;
    a.row_stride = positions > 1 ? t_.output.axis_strides[2] * bytes : 16;
    a.batch_stride = 16;
    a.box_inner = static_cast<int>(128 / bytes);
    a.box_rows = instance_.shape.stage_k;
    const auto map_a = make_tensor_map(a);
    const auto map_b =
        make_im2col_map(view_of(t_.activation, p_.input, part, group * channels, channels));
    if (!map_a || !map_b) return std::nullopt;
    lowered.params.gemm.problem.a = *map_a;
    lowered.params.gemm.problem.b = *map_b;

    GemmArguments g = product_of(filters, merged ? channels * taps : channels, positions);
    g.batch = merged ? 1 : taps;
    const std::int64_t group_at = group * filters;
    g.d.data = const_cast<char*>(moved(f, group_at * f.outer_stride));
    g.d.row_stride = f.outer_stride;
    g.d.batch_stride = f.axis_strides[2];
    if (g_.beta != 0) {
      if (c_.channel_stride != 1 || !taps_are_even(c_)) return std::nullopt;
      g.c.data = moved(c_, group_at * c_.outer_stride);
      g.c.row_stride = c_.outer_stride;
      g.c.batch_stride = c_.axis_strides[2];
    }
    lowered.params.address.tap_batches = static_cast<int>(g.batch);
    return in_parts(*finish(lowered, lower_product(g)), g);
  }

  // Parts of the positions, where tiles are too few for the processors: their fp32 sums go to the
  // workspace, [part][tap batch][filter][column].
  LoweredConv in_parts(LoweredConv lowered, const GemmArguments& g) const {
    const DenseInstance& shape = instance_.shape;
    Sm90GemmParams& gemm = lowered.params.gemm;
    const std::int64_t stages = gemm.problem.k_stages;
    const std::int64_t tiles = gemm.order.count();
    std::int64_t parts = 1;
    switch (g_.schedule.decomposition) {
      case kernel::Decomposition::data_parallel:
        break;
      case kernel::Decomposition::split_k:
        parts = g_.schedule.splits;
        break;
      default:
        // One tile a processor; more parts of few tiles would be too short to pay.
        parts = processors_ / tiles;
        break;
    }
    constexpr std::int64_t kLeastStages = 8, kMostParts = 256;
    parts = std::clamp<std::int64_t>(std::min(parts, stages / kLeastStages), 1, kMostParts);
    const std::int64_t each = ceil_div(stages, parts);
    parts = ceil_div(stages, each);
    lowered.cycles = static_cast<double>(ceil_div(tiles * parts, processors_)) *
                     tile_cycles(shape, part_product(g, each * shape.stage_k));
    if (parts == 1 || g.n % 4 != 0) return lowered;

    FilterPartsParams& add = lowered.parts.emplace();
    add.parts = static_cast<int>(parts);
    add.count = g.batch * g.m * g.n;
    add.by_columns = base::FastDivMod(static_cast<std::uint32_t>(g.n / 4));
    add.by_rows = base::FastDivMod(static_cast<std::uint32_t>(g.m));
    add.c = gemm.problem.epilogue.c;
    add.d = gemm.problem.epilogue.d;
    add.alpha = static_cast<float>(g.alpha);
    add.beta = static_cast<float>(g.beta);
    lowered.sum_bytes = static_cast<std::size_t>(parts * add.count) * sizeof(float);
    // A launch, and sums that are written and read once.
    lowered.cycles += 3000 + static_cast<double>(lowered.sum_bytes) * 2 / 1500;

    gemm.problem.k_stages = static_cast<int>(each);
    gemm.order = kernel::TileOrder(
        {ceil_div(g.m, shape.tile_m), ceil_div(g.n, shape.tile_n), g.batch * parts},
        kernel::Raster::heuristic, band_);
    lowered.clusters =
        static_cast<int>(std::min<std::int64_t>(gemm.order.count(), processors_ / shape.cluster));
    return lowered;
  }

  DenseProduct part_product(const GemmArguments& g, std::int64_t k) const {
    GemmArguments part = g;
    part.k = k;
    return lower_product(part);
  }

  bool taps_are_even(const ConvTensor& t) const {
    return (p_.kernel[1] == 1 || t.axis_strides[1] == t.axis_strides[2] * p_.kernel[2]) &&
           (p_.kernel[0] == 1 ||
            t.axis_strides[0] == t.axis_strides[2] * p_.kernel[1] * p_.kernel[2]);
  }

  const ConvInstance& instance_;
  const ConvArguments& g_;
  const ConvProblem& p_;
  ConvTensors t_;
  ConvTensor c_;
  std::uint32_t band_;
  int processors_;
};

}  // namespace

std::vector<LoweredConv> lower_conv_to(const ConvInstance& instance, const ConvArguments& arguments,
                                       std::uint32_t group, int multiprocessors) {
  return Lowering(instance, arguments, group, multiprocessors).run();
}

}  // namespace gemm_core::cuda
