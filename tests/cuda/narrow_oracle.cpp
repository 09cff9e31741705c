#include "tests/cuda/narrow_oracle.hpp"

#include <algorithm>
#include <cmath>

#include "gemm_core/atom/activation.hpp"
#include "gemm_core/base/convert.hpp"
#include "gemm_core/device/cuda/gather/gather_conv.hpp"
#include "sparseconv/cpu/frame.hpp"
#include "sparseconv/cuda/shortcut_plan.hpp"

namespace cuda_tests {
namespace {

using base::DType;
using namespace sparseconv;
using NodeKind = gemm_core::EpilogueNode::Kind;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

float rounded(float value, DType type) {
  switch (type) {
    case DType::f16:
      return static_cast<float>(base::half_t(value));
    case DType::e4m3:
      return static_cast<float>(base::convert<base::e4m3_t>(value));
    case DType::i8:
      return std::clamp(std::nearbyint(value), -128.f, 127.f);
    default:
      return value;
  }
}

// [taps, cin, cout] of [cout, taps, cin]: what the device holds, over the scale of their row.
std::vector<float> narrowed(const base::Tensor& weight, const std::vector<float>& scale,
                            DType type) {
  std::vector<float> values(at(weight.numel()));
  const std::int64_t cout = weight.size(0), width = weight.numel() / cout;
  for (std::int64_t i = 0; i < weight.numel(); ++i) {
    const float of_row = scale.empty() ? 1.f : scale[at(i / width)];
    values[at(i % width * cout + i / width)] = rounded(weight.data<float>()[i] / of_row, type);
  }
  return values;
}

std::vector<float> row_scales(const base::Tensor& weight, const base::Tensor* own, DType type) {
  std::vector<float> scale;
  if (!gemm_core::cuda::is_eight_bit(type)) return scale;
  for (std::int64_t row = 0; row < weight.size(0); ++row) {
    float largest = 0;
    for (const base::Tensor* t : {&weight, own}) {
      const std::int64_t width = t != nullptr ? t->numel() / t->size(0) : 0;
      for (std::int64_t i = 0; i < width; ++i)
        largest = std::max(largest, std::abs(t->data<float>()[row * width + i]));
    }
    scale.push_back(gemm_core::cuda::narrow_scale(type, largest));
  }
  return scale;
}

class Run {
 public:
  Run(NarrowOracle& oracle, DType dtype, const SparseTensor& input)
      : oracle_(oracle), plan_(oracle.plan), dtype_(dtype) {
    cpu::build_frame(plan_, input.coordinates, input.rows(), frame_);
    for (const PlanBuffer& buffer : plan_.buffers)
      memory_.emplace_back(at(rows_of(buffer.level) * buffer.channels), 0.f);
    for (std::int64_t i = 0; i < input.features.numel(); ++i)
      memory_[at(plan_.input.buffer)][at(i)] = rounded(input.features.data<float>()[i], wide());
  }

  void step(std::size_t index) {
    const PlanStep& step = plan_.steps[index];
    const cuda::StepExtras& extras = plan_.extras[index];
    oracle_.steps.emplace_back();
    if (extras.is_absorbed) return;
    ENSURE(step.kind == PlanStep::Kind::convolution && step.groups == 1, "oracle: node '",
           step.node, "' is no plain convolution");
    const auto narrow_is = [&](const PlanSlice& s) { return plan_.is_narrow[at(s.buffer)]; };
    const DType compute = narrow_is(step.inputs[0]) ? dtype_ : wide();
    const bool has_own = extras.own_weight.defined();
    cuda::scale_weights(plan_, index, oracle_.scales);
    const auto scale = row_scales(step.weight, has_own ? &extras.own_weight : nullptr, compute);
    const auto weights = narrowed(step.weight, scale, compute);
    std::vector<float> own;
    if (has_own) own = narrowed(extras.own_weight, scale, compute);
    cuda::fold_scales(plan_, index, oracle_.scales, scale);
    const std::int64_t rows = rows_of(step.output_level), channels = step.output.channels;
    NarrowOracle::Step& result = oracle_.steps.back();
    result.rows = rows;
    result.channels = channels;
    const KernelMap* map = step.map < 0 ? nullptr : frame_.maps[at(step.map)].get();
    std::vector<float> sums(at(channels));
    for (std::int64_t row = 0; row < rows; ++row) {
      std::fill(sums.begin(), sums.end(), 0.f);
      for (std::int64_t tap = 0; tap < step.taps; ++tap) {
        const std::int64_t from = map == nullptr ? row : map->table[at(tap * rows + row)];
        if (from >= 0) add_products(step.inputs[0], from, weights, tap, sums);
      }
      if (has_own) add_products(step.inputs[1], row, own, 0, sums);
      for (std::int64_t c = 0; c < channels; ++c) {
        const float v = epilogue(index, sums[at(c)], row, c);
        const float stored = rounded(v, narrow_is(step.output) ? dtype_ : wide());
        value(step.output, row, c) = stored;
        result.values.push_back(stored * scale_of(step.output));
        result.largest = std::max(result.largest, std::abs(result.values.back()));
      }
    }
  }

 private:
  DType wide() const { return dtype_ == DType::f32 ? DType::f32 : DType::f16; }
  std::int64_t rows_of(int level) const { return frame_.rows[at(level)]; }
  float scale_of(const PlanSlice& s) const { return oracle_.scales[at(s.buffer)][at(s.channel)]; }
  float& value(const PlanSlice& s, std::int64_t row, std::int64_t channel) {
    return memory_[at(s.buffer)]
                  [at(row * plan_.buffers[at(s.buffer)].channels + s.channel + channel)];
  }

  void add_products(const PlanSlice& input, std::int64_t row, const std::vector<float>& weights,
                    std::int64_t tap, std::vector<float>& sums) {
    const float* const x = &value(input, row, 0);
    for (std::int64_t k = 0; k < input.channels; ++k) {
      if (x[k] == 0) continue;
      const float* const w = weights.data() + (tap * input.channels + k) * std::ssize(sums);
      for (std::size_t c = 0; c < sums.size(); ++c) sums[c] += x[k] * w[c];
    }
  }

  float epilogue(std::size_t index, float v, std::int64_t row, std::int64_t channel) {
    std::size_t addition = 0;
    for (const PlanEpilogueNode& node : plan_.steps[index].epilogue) {
      if (node.kind == NodeKind::scale_shift) {
        v = v * (node.scale.empty() ? 1.f : node.scale[at(channel)]) +
            (node.shift.empty() ? 0.f : node.shift[at(channel)]);
      } else if (node.kind == NodeKind::add) {
        v += value(node.aux, row, channel) * plan_.extras[index].factors[addition++];
      } else if (v < 0) {
        const auto a = node.activation;
        if (a == gemm_core::Activation::relu) v = 0;
        if (a == gemm_core::Activation::leaky_relu) v *= node.slope;
      }
    }
    return v;
  }

  NarrowOracle& oracle_;
  cuda::DeviceSteps& plan_;
  const DType dtype_;
  cpu::Frame frame_;
  std::vector<std::vector<float>> memory_;
};

}  // namespace

NarrowOracle run_oracle(const Plan& plan, const SparseTensor& input, const OracleOptions& options) {
  NarrowOracle oracle{cuda::DeviceSteps(plan), {}, {}};
  for (const PlanBuffer& b : plan.buffers) oracle.scales.emplace_back(at(b.channels), 1.f);
  if (options.merges_shortcuts) cuda::merge_shortcuts(oracle.plan);
  if (gemm_core::cuda::is_eight_bit(options.dtype)) {
    cuda::choose_narrow_buffers(oracle.plan);
    oracle.scales = cuda::narrow_scales(oracle.plan, options.largest, options.dtype);
  }
  Run run(oracle, options.dtype, input);
  for (std::size_t s = 0; s < plan.steps.size(); ++s) run.step(s);
  return oracle;
}

}  // namespace cuda_tests
