// Gradients that go from row to row: activations, pools, merging, dense grids.
#include <algorithm>
#include <limits>

#include "gemm_core/base/parallel.hpp"
#include "sparseconv/cpu/float_rows.hpp"
#include "sparseconv/cpu/gradients.hpp"

namespace sparseconv::cpu {
namespace {

using gemm_core::Activation;
using Kind = PlanStep::Kind;

constexpr std::int64_t kGrain = 256;  // rows

template <class View>
auto row_of(const View& view, std::int64_t row) {
  return view.template as<float>() + row * view.stride[0];
}

// body(row) for every row of `to`, in parallel.
template <class Body>
void for_rows(std::int64_t rows, const Body& body) {
  base::parallel_blocks(rows, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) body(row);
  });
}

template <class Value>
void write_row(float* to, std::int64_t channels, Write write, const Value& value) {
  if (write == Write::store) {
    for (std::int64_t c = 0; c < channels; ++c) to[c] = value(c);
  } else {
    for (std::int64_t c = 0; c < channels; ++c) to[c] += value(c);
  }
}

// The tap that gave each value of a max pool, -1 where none did: [rows][channels].
std::vector<std::int16_t> winning_taps(const PoolGradient& a, std::int64_t rows) {
  const FloatRows input(a.input, 0, a.input.shape[0]);
  const std::int64_t channels = a.input.shape[1], taps = a.map->geometry.taps();
  std::vector<std::int16_t> winners(static_cast<std::size_t>(rows * channels), -1);
  for_rows(rows, [&](std::int64_t row) {
    thread_local std::vector<float> best;
    best.assign(static_cast<std::size_t>(channels),
                a.implicit_zero ? 0.0f : -std::numeric_limits<float>::infinity());
    std::int16_t* winner = winners.data() + row * channels;
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const std::int32_t in = a.map->table[static_cast<std::size_t>(tap * rows + row)];
      if (in < 0) continue;
      const float* x = input.row(in);
      for (std::int64_t c = 0; c < channels; ++c) {
        float& b = best[static_cast<std::size_t>(c)];
        const bool is_first = winner[c] < 0 && !a.implicit_zero;
        if (!is_first && !(x[c] > b)) continue;
        b = x[c];
        winner[c] = static_cast<std::int16_t>(tap);
      }
    }
  });
  return winners;
}

std::vector<float> shares(const PoolGradient& a, std::int64_t rows) {
  std::vector<float> share(static_cast<std::size_t>(rows), 1.0f);
  if (a.kind != Kind::avg_pool) return share;
  const std::int64_t taps = a.map->geometry.taps();
  for_rows(rows, [&](std::int64_t row) {
    int count = 0;
    for (std::int64_t tap = 0; tap < taps; ++tap)
      count += a.map->table[static_cast<std::size_t>(tap * rows + row)] >= 0;
    if (count > 0) share[static_cast<std::size_t>(row)] = 1.0f / static_cast<float>(count);
  });
  return share;
}

}  // namespace

void copy_rows(const base::ConstTensorView& from, const base::TensorView& to, Write write) {
  for_rows(to.shape[0], [&](std::int64_t row) {
    const float* x = row_of(from, row);
    write_row(row_of(to, row), to.shape[1], write, [&](std::int64_t c) { return x[c]; });
  });
}

void zero_rows(const base::TensorView& to) {
  for_rows(to.shape[0], [&](std::int64_t row) { std::fill_n(row_of(to, row), to.shape[1], 0.0f); });
}

void activation_gradient(Activation activation, float slope, const base::ConstTensorView& value,
                         const base::TensorView& gradient) {
  const std::int64_t channels = gradient.shape[1];
  const auto apply = [&](const float* y, float* g) {
    switch (activation) {
      case Activation::relu:
        for (std::int64_t c = 0; c < channels; ++c) g[c] = y[c] > 0 ? g[c] : 0.0f;
        break;
      case Activation::leaky_relu:
        for (std::int64_t c = 0; c < channels; ++c) g[c] = y[c] > 0 ? g[c] : slope * g[c];
        break;
      case Activation::sigmoid:
        for (std::int64_t c = 0; c < channels; ++c) g[c] *= y[c] * (1 - y[c]);
        break;
      case Activation::identity:
        break;
      default:
        base::fail("no gradient of this activation");
    }
  };
  base::parallel_blocks(gradient.shape[0], kGrain, [&](std::int64_t begin, std::int64_t end) {
    const FloatRows values(value, begin, end);
    for (std::int64_t row = begin; row < end; ++row) apply(values.row(row), row_of(gradient, row));
  });
}

void pool_gradient(const PoolGradient& a, const base::ConstTensorView& gradient,
                   const base::TensorView& to, Write write) {
  const std::int64_t rows = to.shape[0], channels = to.shape[1];
  const std::int64_t taps = a.map->geometry.taps();
  const bool is_max = a.kind == Kind::max_pool;
  ENSURE(taps <= std::numeric_limits<std::int16_t>::max(), "pool gradient: ", taps, " taps");
  const auto winners = is_max ? winning_taps(a, gradient.shape[0]) : std::vector<std::int16_t>{};
  const auto share = is_max ? std::vector<float>{} : shares(a, gradient.shape[0]);
  for_rows(rows, [&](std::int64_t row) {
    float* d = row_of(to, row);
    if (write == Write::store) std::fill_n(d, channels, 0.0f);
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const std::int32_t out = a.inverse->table[static_cast<std::size_t>(tap * rows + row)];
      if (out < 0) continue;
      const float* g = row_of(gradient, out);
      if (is_max) {
        const std::int16_t* winner = winners.data() + out * channels;
        for (std::int64_t c = 0; c < channels; ++c) d[c] += winner[c] == tap ? g[c] : 0.0f;
      } else {
        const float s = share[static_cast<std::size_t>(out)];
        for (std::int64_t c = 0; c < channels; ++c) d[c] += s * g[c];
      }
    }
  });
}

void global_pool_gradient(Kind kind, const Coordinates& coordinates,
                          const base::ConstTensorView& input, const base::ConstTensorView& gradient,
                          const base::TensorView& to, Write write) {
  const std::int64_t channels = to.shape[1];
  const auto batches = static_cast<std::size_t>(gradient.shape[0]);
  const auto coords = coordinates.coords();
  std::vector<std::int64_t> count(batches, 0);
  const FloatRows values(input, 0, kind == Kind::global_max ? input.shape[0] : 0);
  std::vector<std::int64_t> winner(kind == Kind::global_max ? batches * channels : 0, -1);
  for (std::size_t row = 0; row < coords.size(); ++row) {
    const auto batch = static_cast<std::size_t>(coords[row].batch);
    ++count[batch];
    if (kind != Kind::global_max) continue;
    const float* x = values.row(static_cast<std::int64_t>(row));
    std::int64_t* best = winner.data() + batch * static_cast<std::size_t>(channels);
    for (std::int64_t c = 0; c < channels; ++c) {
      if (best[c] < 0 || x[c] > values.row(best[c])[c]) best[c] = static_cast<std::int64_t>(row);
    }
  }
  for_rows(to.shape[0], [&](std::int64_t row) {
    const auto batch = coords[static_cast<std::size_t>(row)].batch;
    const float* g = row_of(gradient, batch);
    if (kind == Kind::global_max) {
      const std::int64_t* best = winner.data() + batch * channels;
      write_row(row_of(to, row), channels, write,
                [&](std::int64_t c) { return best[c] == row ? g[c] : 0.0f; });
    } else {
      const float share = 1.0f / static_cast<float>(count[static_cast<std::size_t>(batch)]);
      write_row(row_of(to, row), channels, write, [&](std::int64_t c) { return share * g[c]; });
    }
  });
}

void merge_gradient(const MergeMap& map, const base::ConstTensorView& gradient,
                    std::span<const base::TensorView> to, std::span<const Write> write) {
  const std::int64_t channels = gradient.shape[1];
  // Each row of a part falls on exactly one output row.
  for_rows(gradient.shape[0], [&](std::int64_t out) {
    const float* g = row_of(gradient, out);
    const auto last = static_cast<std::size_t>(map.begin[static_cast<std::size_t>(out) + 1]);
    for (auto i = static_cast<std::size_t>(map.begin[static_cast<std::size_t>(out)]); i < last;
         ++i) {
      const auto part = static_cast<std::size_t>(map.part[i]);
      if (to[part].data == nullptr) continue;
      write_row(row_of(to[part], map.row[i]), channels, write[part],
                [&](std::int64_t c) { return g[c]; });
    }
  });
}

void to_dense_gradient(const Coordinates& coordinates, const base::Tensor& gradient,
                       const base::TensorView& to, Write write) {
  const std::int64_t channels = to.shape[1];
  const auto& shape = coordinates.spatial_shape();
  ENSURE(shape.has_value(), "to_dense needs a spatial shape");
  const std::int64_t width = (*shape)[0], height = (*shape)[1], depth = (*shape)[2];
  const base::Dims expected{coordinates.batch_size(), channels * depth, height, width};
  ENSURE(gradient.shape() == expected, "to_dense: the gradient has shape ",
         base::to_string(gradient.shape()), ", expected ", base::to_string(expected));
  const std::int64_t plane = height * width, volume = channels * depth * plane;
  const auto coords = coordinates.coords();
  for_rows(to.shape[0], [&](std::int64_t row) {
    const Coord& at = coords[static_cast<std::size_t>(row)];
    const float* cell =
        gradient.data<float>() + at.batch * volume + at.z * plane + at.y * width + at.x;
    write_row(row_of(to, row), channels, write,
              [&](std::int64_t c) { return cell[c * depth * plane]; });
  });
}

}  // namespace sparseconv::cpu
