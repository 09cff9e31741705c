// Statistics of a batch, and the gradients that follow from them.
#include <algorithm>
#include <cmath>

#include "gemm_core/base/parallel.hpp"
#include "sparseconv/cpu/float_rows.hpp"
#include "sparseconv/cpu/gradients.hpp"

namespace sparseconv::cpu {
namespace {

// Rows of a block stay in L2 over both of its passes.
std::int64_t block_rows(std::int64_t channels) {
  constexpr std::int64_t kFloats = 32768, kLeast = 64, kMost = 2048;
  return std::clamp(kFloats / std::max<std::int64_t>(1, channels), kLeast, kMost);
}
constexpr std::int64_t kChain = 64;  // rows summed in fp32 before they are added to a double

// Calls term(row, sums [channels]) for rows [begin, end); their fp32 sums of up to kChain rows are
// added to `total`.
template <class Term>
void sum_chains(std::int64_t begin, std::int64_t end, std::int64_t channels, double* total,
                const Term& term) {
  thread_local std::vector<float> chain;
  for (std::int64_t first = begin; first < end; first += kChain) {
    chain.assign(static_cast<std::size_t>(channels), 0.0f);
    const std::int64_t last = std::min(end, first + kChain);
    for (std::int64_t row = first; row < last; ++row) term(row, chain.data());
    for (std::int64_t c = 0; c < channels; ++c) total[c] += chain[static_cast<std::size_t>(c)];
  }
}

const float* row_of(const base::ConstTensorView& view, std::int64_t row) {
  return view.as<float>() + row * view.stride[0];
}

// Sums of every block, [blocks][width], added up in order.
class BlockSums {
 public:
  BlockSums(std::int64_t rows, std::int64_t grain, std::int64_t width)
      : grain_(grain),
        width_(static_cast<std::size_t>(width)),
        sums_(static_cast<std::size_t>((rows + grain - 1) / grain) * width_, 0.0) {}
  double* of_block(std::int64_t begin) {
    return sums_.data() + static_cast<std::size_t>(begin / grain_) * width_;
  }
  std::vector<double> total() const {
    std::vector<double> total(width_, 0.0);
    for (std::size_t at = 0; at < sums_.size(); at += width_) {
      for (std::size_t c = 0; c < width_; ++c) total[c] += sums_[at + c];
    }
    return total;
  }

 private:
  std::int64_t grain_;
  std::size_t width_;
  std::vector<double> sums_;
};

}  // namespace

void sum_rows(const base::ConstTensorView& rows, float* to) {
  const std::int64_t channels = rows.shape[1], grain = block_rows(channels);
  BlockSums sums(rows.shape[0], grain, channels);
  base::parallel_blocks(rows.shape[0], grain, [&](std::int64_t begin, std::int64_t end) {
    sum_chains(begin, end, channels, sums.of_block(begin), [&](std::int64_t row, float* sum) {
      const float* x = row_of(rows, row);
      for (std::int64_t c = 0; c < channels; ++c) sum[c] += x[c];
    });
  });
  const auto total = sums.total();
  for (std::int64_t c = 0; c < channels; ++c)
    to[c] = static_cast<float>(total[static_cast<std::size_t>(c)]);
}

void moments(const base::ConstTensorView& rows, std::vector<double>& mean,
             std::vector<double>& variance) {
  const std::int64_t count = rows.shape[0], channels = rows.shape[1], grain = block_rows(channels);
  const auto width = static_cast<std::size_t>(channels);
  mean.assign(width, 0.0);
  variance.assign(width, 0.0);
  if (count == 0) return;
  // Of a block: its mean, then the sum of squares about it.
  const std::int64_t blocks = (count + grain - 1) / grain;
  std::vector<double> of_block(static_cast<std::size_t>(blocks) * 2 * width, 0.0);
  base::parallel_blocks(count, grain, [&](std::int64_t begin, std::int64_t end) {
    double* block_mean = of_block.data() + static_cast<std::size_t>(begin / grain) * 2 * width;
    double* squares = block_mean + width;
    const FloatRows values(rows, begin, end);
    sum_chains(begin, end, channels, block_mean, [&](std::int64_t row, float* sum) {
      const float* x = values.row(row);
      for (std::int64_t c = 0; c < channels; ++c) sum[c] += x[c];
    });
    thread_local std::vector<float> centre;
    centre.resize(width);
    for (std::size_t c = 0; c < width; ++c) {
      block_mean[c] /= static_cast<double>(end - begin);
      centre[c] = static_cast<float>(block_mean[c]);
    }
    const float* about = centre.data();
    sum_chains(begin, end, channels, squares, [&](std::int64_t row, float* sum) {
      const float* x = values.row(row);
      for (std::int64_t c = 0; c < channels; ++c) sum[c] += (x[c] - about[c]) * (x[c] - about[c]);
    });
    for (std::size_t c = 0; c < width; ++c) {  // about the fp32 centre -> about the mean
      const double off = block_mean[c] - centre[c];
      squares[c] = std::max(0.0, squares[c] - off * off * static_cast<double>(end - begin));
    }
  });
  double seen = 0;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const auto size = static_cast<double>(std::min(grain, count - b * grain));
    const double* block_mean = of_block.data() + static_cast<std::size_t>(b) * 2 * width;
    for (std::size_t c = 0; c < width; ++c) {
      const double delta = block_mean[c] - mean[c];
      mean[c] += delta * size / (seen + size);
      variance[c] += block_mean[width + c] + delta * delta * seen * size / (seen + size);
    }
    seen += size;
  }
  for (double& v : variance) v /= seen;
}

void batch_norm_gradient(const BatchNormGradient& a, const base::ConstTensorView& gradient,
                         const base::TensorView* to, Write write) {
  const std::int64_t count = gradient.shape[0], channels = gradient.shape[1];
  const std::int64_t grain = block_rows(channels);
  const auto width = static_cast<std::size_t>(channels);
  std::vector<float> mean(a.mean.begin(), a.mean.end());
  BlockSums sums(count, grain, 2 * channels);
  base::parallel_blocks(count, grain, [&](std::int64_t begin, std::int64_t end) {
    const FloatRows values(a.input, begin, end);
    sum_chains(begin, end, 2 * channels, sums.of_block(begin), [&](std::int64_t row, float* sum) {
      const float *g = row_of(gradient, row), *x = values.row(row), *about = mean.data();
      float* products = sum + channels;
      for (std::int64_t c = 0; c < channels; ++c) {
        sum[c] += g[c];
        products[c] += g[c] * (x[c] - about[c]);
      }
    });
  });
  const auto total = sums.total();
  std::vector<float> scale(width), slope(width), shift(width);
  const bool is_constant = a.is_frozen || count == 0;
  for (std::size_t c = 0; c < width; ++c) {
    const double r = 1 / std::sqrt(a.variance[c] + a.eps), n = static_cast<double>(count);
    a.bias_gradient[c] = static_cast<float>(total[c]);
    a.weight_gradient[c] = static_cast<float>(total[width + c] * r);
    const double s = a.weight[c] * r;
    scale[c] = static_cast<float>(s);
    slope[c] = is_constant ? 0.0f : static_cast<float>(-s * r * r * total[width + c] / n);
    shift[c] = is_constant ? 0.0f : static_cast<float>(-s * total[c] / n);
  }
  if (to == nullptr) return;
  base::parallel_blocks(count, grain, [&](std::int64_t begin, std::int64_t end) {
    const float *s = scale.data(), *l = slope.data(), *k = shift.data(), *m = mean.data();
    const FloatRows values(a.input, begin, end);
    for (std::int64_t row = begin; row < end; ++row) {
      const float *g = row_of(gradient, row), *x = values.row(row);
      float* d = to->as<float>() + row * to->stride[0];
      if (write == Write::store) {
        for (std::int64_t c = 0; c < channels; ++c)
          d[c] = s[c] * g[c] + l[c] * (x[c] - m[c]) + k[c];
      } else {
        for (std::int64_t c = 0; c < channels; ++c)
          d[c] += s[c] * g[c] + l[c] * (x[c] - m[c]) + k[c];
      }
    }
  });
}

}  // namespace sparseconv::cpu
