// A loss that is linear in every output, and small inputs for gradients.
#pragma once
#include "sparseconv/training/tape.hpp"
#include "tests/support/make_inputs.hpp"

namespace test_support {

// What the loss multiplies a value with: by coordinate, since row orders differ.
inline float factor_of(const sparseconv::Coord& c, std::int64_t channel) {
  const auto mixed = static_cast<std::uint64_t>(c.batch * 7919 + c.x * 104729 + c.y * 1299709 +
                                                c.z * 15485863 + channel * 32452843);
  return Random(mixed + 17).value();
}

// Seeds the gradient of every output with the factors.
inline void seed(sparseconv::training::Tape& tape) {
  for (std::size_t i = 0; i < tape.plan().outputs.size(); ++i) {
    const auto coordinates = tape.output_coordinates(i);
    if (tape.plan().outputs[i].is_dense) {
      auto& to = tape.dense_output_gradient(i);
      const auto [w, h, d] = *coordinates->spatial_shape();
      const std::int64_t channels = to.size(1) / d;
      for (const sparseconv::Coord& c : coordinates->coords()) {
        for (std::int64_t k = 0; k < channels; ++k) {
          const std::int64_t plane = (c.batch * channels + k) * d + c.z;
          to.data<float>()[(plane * h + c.y) * w + c.x] = factor_of(c, k);
        }
      }
      continue;
    }
    const base::TensorView to = tape.output_gradient(i);
    for (std::int64_t row = 0; row < to.shape[0]; ++row) {
      for (std::int64_t c = 0; c < to.shape[1]; ++c) {
        // Points have a number, but no coordinates.
        const auto number = static_cast<std::int32_t>(row);
        to.as<float>()[row * to.stride[0] + c] +=
            factor_of(coordinates ? coordinates->coords()[static_cast<std::size_t>(row)]
                                  : sparseconv::Coord{0, number, 0, 0},
                      c);
      }
    }
  }
}

inline CloudSpec small_cloud(std::int64_t channels) {
  return {.shape = {6, 5, 6}, .per_thousand = 160, .channels = channels, .seed = 5};
}

}  // namespace test_support
