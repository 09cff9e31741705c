#include "sparseconv/result.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "gemm_core/base/parallel.hpp"

namespace sparseconv {
namespace {

// Labels and scores are written by several threads, so many rows at once. To wake them takes as
// long as the labels of a scan.
constexpr std::int64_t kLabelsAtOnce = 1 << 18, kScoresAtOnce = 1 << 10;

// Where ids follow each other, as they mostly do, no table needs to be read.
void ids_of_classes(std::span<const std::uint16_t> classes, std::span<const std::int64_t> class_ids,
                    std::int32_t dropped_label, std::int32_t* labels) {
  const auto count = static_cast<std::int32_t>(class_ids.size());
  const bool is_run =
      count > 0 && std::adjacent_find(class_ids.begin(), class_ids.end(),
                                      [](auto a, auto b) { return b != a + 1; }) == class_ids.end();
  if (is_run) {
    const auto first = static_cast<std::int32_t>(class_ids.front());
    std::transform(classes.begin(), classes.end(), labels,
                   [=](std::uint16_t c) { return c < count ? first + c : dropped_label; });
    return;
  }
  std::transform(classes.begin(), classes.end(), labels, [&](std::uint16_t c) {
    return c < count ? static_cast<std::int32_t>(class_ids[c]) : dropped_label;
  });
}

}  // namespace

const Output& Result::label_output() const {
  const auto wanted = static_cast<std::int64_t>(classes.size());
  ENSURE(wanted > 0, "labels: the model has no classes");
  ENSURE(!row_classes, "scores: this engine was made for labels only");
  ENSURE(!probabilities, "outputs: a mean of several views has none");
  const Output* elsewhere = nullptr;
  for (const Output& output : outputs) {
    const bool is_sparse = output.sparse.features.defined();
    if (!is_sparse || output.sparse.channels() != wanted) continue;
    if (output.per_point || output.on_input) return output;
    elsewhere = &output;
  }
  ENSURE(elsewhere == nullptr, "labels: output '", elsewhere->node, "' has ", wanted,
         " channels, but its rows are not those of the input; end the network with an inverse_conv "
         "or a devoxelize");
  base::fail("labels: no output has ", wanted, " channels, as many as the model has classes");
}

// The row of `output` that speaks for a row of labels, or -1.
std::int64_t Result::row_of(const Output& output, std::int64_t row) const {
  if (!has_points) return row;
  const std::int64_t voxel = point_to_voxel[static_cast<std::size_t>(row)];
  return output.per_point && voxel >= 0 ? row : voxel;
}

std::vector<std::int32_t> Result::labels(std::int32_t dropped_label) const {
  if (row_classes) {
    std::vector<std::int32_t> labels(row_classes->size());
    base::parallel_blocks(std::ssize(labels), kLabelsAtOnce,
                          [&](std::int64_t begin, std::int64_t end) {
                            ids_of_classes({row_classes->data() + begin, row_classes->data() + end},
                                           class_ids, dropped_label, labels.data() + begin);
                          });
    return labels;
  }
  const Output* output = probabilities ? nullptr : &label_output();
  const auto channels = static_cast<std::ptrdiff_t>(classes.size());
  const base::Tensor& of_rows = output ? output->sparse.features : *probabilities;
  const float* values = of_rows.data<float>();
  std::vector<std::int32_t> labels(static_cast<std::size_t>(label_rows()), dropped_label);
  base::parallel_blocks(
      std::ssize(labels), kScoresAtOnce, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t row = output ? row_of(*output, i) : i;
          if (row < 0) continue;
          const float* first = values + row * channels;
          const auto best = std::max_element(first, first + channels) - first;
          if (!output && first[best] == 0) continue;  // in no view
          labels[static_cast<std::size_t>(i)] =
              static_cast<std::int32_t>(class_ids[static_cast<std::size_t>(best)]);
        }
      });
  return labels;
}

base::Tensor Result::scores() const {
  if (probabilities) return *probabilities;
  const Output& output = label_output();
  const auto channels = static_cast<std::int64_t>(classes.size());
  const float* values = output.sparse.features.data<float>();
  auto scores = base::Tensor::zeros({label_rows(), channels}, base::DType::f32);
  float* const first = scores.data<float>();
  base::parallel_blocks(scores.size(0), kScoresAtOnce, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = row_of(output, i);
      if (row < 0) continue;
      float* const to = first + i * channels;
      const float* from = values + row * channels;
      const float largest = *std::max_element(from, from + channels);
      double sum = 0;
      for (std::int64_t c = 0; c < channels; ++c) {
        to[c] = std::exp(from[c] - largest);
        sum += to[c];
      }
      for (std::int64_t c = 0; c < channels; ++c) to[c] = static_cast<float>(to[c] / sum);
    }
  });
  return scores;
}

namespace {

base::Tensor first_rows(const base::Tensor& all, std::int64_t count) {
  auto kept = base::Tensor::empty({count, all.size(1)}, all.dtype());
  std::copy_n(static_cast<const char*>(all.data()), kept.nbytes(), static_cast<char*>(kept.data()));
  return kept;
}

}  // namespace

void Result::keep_first_points(std::int64_t count) {
  ENSURE(has_points && count >= 0 && count <= points, "keep_first_points: ", count, " of ", points,
         " points");
  for (Output& output : outputs) {
    if (!output.per_point) continue;
    output.sparse.features = first_rows(output.sparse.features, count);
  }
  points = count;
  const auto rows = static_cast<std::size_t>(count);
  if (row_classes) {
    row_classes->resize(rows);
    dropped = std::count(row_classes->begin(), row_classes->end(), std::uint16_t{0xffff});
  }
  if (!point_to_voxel.empty()) {
    point_to_voxel.resize(rows);
    dropped = std::count(point_to_voxel.begin(), point_to_voxel.end(), -1);
  }
  if (probabilities) {
    probabilities = first_rows(*probabilities, count);
    const base::Tensor& kept = *probabilities;
    const float* row = kept.data<float>();
    dropped = 0;
    for (std::int64_t i = 0; i < count; ++i, row += kept.size(1)) {
      dropped += std::all_of(row, row + kept.size(1), [](float p) { return p == 0; });
    }
  }
}

}  // namespace sparseconv
