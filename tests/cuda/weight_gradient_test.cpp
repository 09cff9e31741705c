// Pair lists, weight gradients and packed weights against plain loops in double.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "gemm_core/device/cuda/gather/gather_conv.hpp"
#include "gemm_core/device/cuda/gather/pack_weights.hpp"
#include "gemm_core/device/cuda/gather/pair_lists.hpp"
#include "gemm_core/device/cuda/gather/weight_gradient.hpp"
#include "tests/cuda/conv_case.hpp"
#include "tests/cuda/require_device.hpp"

namespace cuda_tests {
namespace {

using base::DType;
using gemm_core::cuda::Sm90PairInstance;
using gemm_core::cuda::WeightGradient;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

template <class T>
base::cuda::Buffer<T> on_device(const std::vector<T>& values) {
  base::cuda::Buffer<T> buffer(values.size());
  if (!values.empty())
    CUDA_CHECK(cudaMemcpy(buffer.data(), values.data(), buffer.nbytes(), cudaMemcpyHostToDevice));
  return buffer;
}

// The first `count` values.
template <class T>
std::vector<T> on_host(const base::cuda::Buffer<T>& buffer, std::size_t count) {
  std::vector<T> values(std::min(count, buffer.size()));
  if (!values.empty())
    CUDA_CHECK(cudaMemcpy(values.data(), buffer.data(), values.size() * sizeof(T),
                          cudaMemcpyDeviceToHost));
  return values;
}
template <class T>
std::vector<T> on_host(const base::cuda::Buffer<T>& buffer) {
  return on_host(buffer, buffer.size());
}

// The pair lists of a map on the device. `slack`: how many rows more there is room for.
class DevicePairs {
 public:
  explicit DevicePairs(const HostMap& map, int slack = 0) {
    const std::int64_t rows = map.rows + slack;
    std::vector<std::int32_t> padded(index(map.taps * rows), 7);  // never read beyond map.rows
    for (int t = 0; t < map.taps; ++t) {
      for (int r = 0; r < map.rows; ++r) padded[index(t * rows + r)] = map.at(t, r);
    }
    table_ = on_device(padded);
    count_ = on_device(std::vector<std::int32_t>{map.rows});
    const auto capacity = index(gemm_core::cuda::pair_capacity(rows, map.taps));
    inputs_ = base::cuda::Buffer<std::int32_t>(capacity);
    outputs_ = base::cuda::Buffer<std::int32_t>(capacity);
    tap_begin_ = base::cuda::Buffer<std::int32_t>(index(map.taps + 1));
    scratch_ = base::cuda::Buffer<std::int32_t>(index(gemm_core::cuda::pair_scratch(map.taps)));
    job = {table_.data(),  rows,           map.taps,        count_.data(),
           rows,           inputs_.data(), outputs_.data(), tap_begin_.data(),
           scratch_.data()};
  }
  gemm_core::cuda::PairListJob job;
  // Of all taps; what lies behind the last block is never written.
  std::vector<std::int32_t> inputs() const { return on_host(inputs_, index(pairs())); }
  std::vector<std::int32_t> outputs() const { return on_host(outputs_, index(pairs())); }
  std::vector<std::int32_t> tap_begin() const { return on_host(tap_begin_); }

 private:
  std::int32_t pairs() const { return tap_begin().back(); }

  base::cuda::Buffer<std::int32_t> table_, count_, inputs_, outputs_, tap_begin_, scratch_;
};

HostMap map_of(int rows, std::array<int, 3> kernel, unsigned seed) {
  const Coords cells = surface_cells(rows, seed);
  return build_map(cells, cells, kernel, 1, kernel[0] / 2);
}

void expect_lists_hold(const HostMap& map, const DevicePairs& pairs) {
  const auto inputs = pairs.inputs(), outputs = pairs.outputs(), begin = pairs.tap_begin();
  ASSERT_EQ(begin[0], 0);
  for (int t = 0; t < map.taps; ++t) {
    std::int64_t at = begin[index(t)];
    for (int r = 0; r < map.rows; ++r) {
      if (map.at(t, r) < 0) continue;
      ASSERT_EQ(inputs[index(at)], map.at(t, r)) << "tap " << t << " row " << r;
      ASSERT_EQ(outputs[index(at++)], r) << "tap " << t;
    }
    ASSERT_EQ(begin[index(t + 1)] % gemm_core::kPairBlock, 0);
    ASSERT_LT(begin[index(t + 1)] - at, gemm_core::kPairBlock) << "tap " << t;
    for (; at < begin[index(t + 1)]; ++at) {
      ASSERT_EQ(inputs[index(at)], -1);
      ASSERT_EQ(outputs[index(at)], -1);
    }
  }
}

TEST(PairLists, HoldEveryPairInOrderForSeveralMapsAtOnce) {
  REQUIRE_DEVICE();
  const Coords fine = surface_cells(5000, 3), coarse = stride_two_parents(fine);
  const HostMap maps[] = {map_of(3000, {3, 3, 3}, 1),
                          map_of(1, {3, 3, 3}, 2),
                          map_of(1025, {1, 1, 1}, 4),
                          map_of(700, {5, 5, 5}, 5),
                          build_map(fine, coarse, {2, 2, 2}, 2, 0),
                          HostMap{27, 0, 0, {}}};
  std::vector<DevicePairs> pairs;
  std::vector<gemm_core::cuda::PairListJob> jobs;
  for (const HostMap& map : maps) jobs.push_back(pairs.emplace_back(map, map.rows / 3).job);
  gemm_core::cuda::build_pair_lists(jobs, nullptr);
  CUDA_CHECK(cudaDeviceSynchronize());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    SCOPED_TRACE(i);
    expect_lists_hold(maps[i], pairs[i]);
  }
}

TEST(PairLists, OfOneTapThatReadsItsOwnRow) {
  REQUIRE_DEVICE();
  HostMap identity{1, 1500, 1500, {}};
  for (int i = 0; i < 1500; ++i) identity.table.push_back(i);
  DevicePairs pairs(identity, 100);
  pairs.job.table = nullptr;
  gemm_core::cuda::build_pair_lists({&pairs.job, 1}, nullptr);
  CUDA_CHECK(cudaDeviceSynchronize());
  expect_lists_hold(identity, pairs);
}

DType storage(DType dtype) { return dtype == DType::tf32 ? DType::f32 : dtype; }

// Values that the type holds exactly.
std::vector<float> values_of(std::int64_t count, DType dtype, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(index(count));
  base::visit_dtype<float, base::tf32_t, base::half_t, base::bf16_t>(dtype, "test", [&]<class T>() {
    for (float& v : values) v = static_cast<float>(T(normal(random)));
  });
  return values;
}

base::cuda::Buffer<std::uint8_t> stored(const std::vector<float>& values, DType dtype) {
  std::vector<std::uint8_t> host(
      index(base::bytes(storage(dtype), static_cast<std::int64_t>(values.size()))));
  base::visit_dtype<float, base::half_t, base::bf16_t>(storage(dtype), "test", [&]<class T>() {
    for (std::size_t i = 0; i < values.size(); ++i)
      reinterpret_cast<T*>(host.data())[i] = T(values[i]);
  });
  return on_device(host);
}

struct GradientCase {
  int cin = 64, cout = 64, groups = 1;
  DType dtype = DType::f16;
  int offset = 0;  // channels before and after the operands' own
};

// dw on the device, twice; both must be the same bits.
void expect_gradient_is_right(const GradientCase& c, const HostMap& map,
                              const Sm90PairInstance* instance) {
  SCOPED_TRACE(base::concat(instance ? instance->name : "simt", " ", c.cin, " -> ", c.cout, " in ",
                            c.groups, " groups, ", map.taps, " taps, ", map.rows, " rows, ",
                            base::name(c.dtype), " offset ", c.offset));
  const int input_width = c.cin + 2 * c.offset, gradient_width = c.cout + 2 * c.offset;
  const auto x = values_of(std::int64_t{map.inputs} * input_width, c.dtype, 1),
             dy = values_of(std::int64_t{map.rows} * gradient_width, c.dtype, 2);
  const int group_cin = c.cin / c.groups, group_cout = c.cout / c.groups;
  std::vector<double> expected(index(std::int64_t{c.cout} * map.taps * group_cin), 0);
  for (int t = 0; t < map.taps; ++t) {
    for (int r = 0; r < map.rows; ++r) {
      const int in = map.at(t, r);
      if (in < 0) continue;
      const float* from = x.data() + index(std::int64_t{in} * input_width + c.offset);
      const float* g = dy.data() + index(std::int64_t{r} * gradient_width + c.offset);
      for (int co = 0; co < c.cout; ++co) {
        double* to = expected.data() + index((std::int64_t{co} * map.taps + t) * group_cin);
        const float* channels = from + co / group_cout * group_cin;
        for (int ci = 0; ci < group_cin; ++ci) to[ci] += double(g[co]) * channels[ci];
      }
    }
  }
  const auto device_x = stored(x, c.dtype), device_dy = stored(dy, c.dtype);
  DevicePairs pairs(map, 200);
  gemm_core::cuda::build_pair_lists({&pairs.job, 1}, nullptr);
  const base::Device cuda{base::Device::Kind::cuda, 0};
  const DType type = storage(c.dtype);
  const std::int64_t before = base::bytes(type, c.offset);
  gemm_core::cuda::WeightGradientArguments a;
  a.input = {device_x.data() + before, type, cuda, {map.inputs, c.cin}, {input_width, 1}};
  a.gradient = {device_dy.data() + before, type, cuda, {map.rows, c.cout}, {gradient_width, 1}};
  a.pairs = pairs.job.view();
  a.cin = c.cin;
  a.cout = c.cout;
  a.groups = c.groups;
  a.instance = instance;
  const std::vector<float> poison(expected.size(), NAN);
  const auto pieces = on_device(std::vector<float>(index(WeightGradient::piece_floats(a)), NAN));
  a.pieces = const_cast<float*>(pieces.data());
  std::vector<float> first;
  for (int repeat = 0; repeat < 2; ++repeat) {
    auto to = on_device(poison);
    a.weight_gradient = to.data();
    WeightGradient(a).run(nullptr);
    CUDA_CHECK(cudaDeviceSynchronize());
    const auto got = on_host(to);
    if (repeat == 1) {
      EXPECT_EQ(got, first);
      return;
    }
    first = got;
    double worst = 0, largest = 1e-30;
    std::size_t worst_at = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double difference = std::abs(got[i] - expected[i]);
      if (!(difference <= worst)) worst = difference, worst_at = i;
      largest = std::max(largest, std::abs(expected[i]));
    }
    // Operands are exact and so are products; sums are fp32.
    const auto ci = worst_at % index(group_cin), co = worst_at / index(group_cin) / index(map.taps);
    EXPECT_LE(worst / largest, 1e-5)
        << "at output channel " << co << ", tap " << worst_at / index(group_cin) % index(map.taps)
        << ", input channel " << ci << ": got " << got[worst_at] << ", expected "
        << expected[worst_at];
  }
}

TEST(WeightGradient, SimtIsRightForAnyChannelsGroupsAndTypes) {
  REQUIRE_DEVICE();
  const HostMap k3 = map_of(900, {3, 3, 3}, 1), k1 = map_of(130, {1, 1, 1}, 2), none{27, 0, 0, {}};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    expect_gradient_is_right({.cin = 5, .cout = 33, .dtype = dtype}, k3, nullptr);
    expect_gradient_is_right({.cin = 70, .cout = 130, .dtype = dtype, .offset = 3}, k3, nullptr);
    expect_gradient_is_right({.cin = 12, .cout = 24, .groups = 3, .dtype = dtype}, k3, nullptr);
    expect_gradient_is_right({.cin = 3, .cout = 7, .dtype = dtype}, k1, nullptr);
    expect_gradient_is_right({.cin = 4, .cout = 8, .dtype = dtype}, none, nullptr);
  }
}

std::vector<const Sm90PairInstance*> pair_instances() {
  std::vector<const Sm90PairInstance*> all;
  for (const auto& instance : gemm_core::cuda::sm90_f16_pair_instances()) all.push_back(&instance);
  for (const auto& instance : gemm_core::cuda::sm90_bf16_pair_instances()) all.push_back(&instance);
  for (const auto& instance : gemm_core::cuda::sm80_tf32_pair_instances()) all.push_back(&instance);
  return all;
}

TEST(WeightGradient, EveryInstanceIsRight) {
  REQUIRE_HOPPER();
  const HostMap one = map_of(64, {1, 1, 1}, 7), k3 = map_of(2500, {3, 3, 3}, 8),
                few = map_of(3, {3, 3, 3}, 9), none{27, 0, 0, {}};
  for (const Sm90PairInstance* instance : pair_instances()) {
    const DType dtype = instance->element;
    const GradientCase exact{.cin = instance->tile_n, .cout = instance->tile_m, .dtype = dtype};
    expect_gradient_is_right(exact, one, instance);
    if (::testing::Test::HasFailure()) return;  // the rest would say no more
    expect_gradient_is_right(exact, k3, instance);
    expect_gradient_is_right(
        {.cin = instance->tile_n + 24, .cout = instance->tile_m + 40, .dtype = dtype, .offset = 8},
        k3, instance);
    expect_gradient_is_right({.cin = 8, .cout = 24, .dtype = dtype}, k3, instance);
    expect_gradient_is_right({.cin = 96, .cout = 96, .dtype = dtype}, few, instance);
    expect_gradient_is_right({.cin = 8, .cout = 8, .dtype = dtype}, none, instance);
  }
}

TEST(WeightGradient, SumsManyRowsInManyPieces) {
  REQUIRE_HOPPER();
  const HostMap k3 = map_of(40000, {3, 3, 3}, 11);
  for (const Sm90PairInstance* instance : pair_instances())
    expect_gradient_is_right({.cin = 32, .cout = 32, .dtype = instance->element}, k3, instance);
  expect_gradient_is_right({.cin = 16, .cout = 16, .dtype = DType::f32}, k3, nullptr);
}

TEST(WeightGradient, NamesWhatItCannotRun) {
  REQUIRE_HOPPER();
  const auto choose = [](DType dtype, std::int64_t cin, std::int64_t cout, std::int64_t groups,
                         bool is_aligned) {
    return gemm_core::cuda::choose_pair_instance(dtype, cin, cout, groups, is_aligned, 0);
  };
  EXPECT_EQ(choose(DType::f32, 64, 64, 1, true), nullptr);
  EXPECT_EQ(choose(DType::f16, 64, 64, 2, true), nullptr);
  EXPECT_EQ(choose(DType::f16, 64, 64, 1, false), nullptr);
  ASSERT_NE(choose(DType::f16, 64, 64, 1, true), nullptr);
  EXPECT_EQ(choose(DType::bf16, 64, 64, 1, true)->element, DType::bf16);
  EXPECT_EQ(choose(DType::tf32, 64, 64, 1, true)->element, DType::tf32);
  EXPECT_THROW(WeightGradient({.cin = 8, .cout = 8}), base::Error);
}

// The gradient of the input is a convolution over the inverse map with packed weights.
TEST(PackWeights, GiveTheGradientOfTheInputOverTheInverseMap) {
  REQUIRE_DEVICE();
  const Coords fine = surface_cells(1500, 21), coarse = stride_two_parents(fine);
  const HostMap same = build_map(fine, fine, {3, 3, 3}, 1, 1),
                down = build_map(fine, coarse, {2, 2, 2}, 2, 0);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const int groups : {1, 4}) {
      for (const bool is_same : {true, false}) {
        SCOPED_TRACE(base::concat(base::name(dtype), " groups ", groups, " same ", is_same));
        const HostMap& map = is_same ? same : down;
        const HostMap inverse = is_same ? same : inverse_of(down);
        const int cin = 36, cout = 52, group_cin = cin / groups, group_cout = cout / groups;
        const auto w = values_of(std::int64_t{cout} * map.taps * group_cin, dtype, 5),
                   dy = values_of(std::int64_t{map.rows} * cout, dtype, 6);
        std::vector<double> expected(index(std::int64_t{map.inputs} * cin), 0);
        double largest = 0;
        for (int t = 0; t < map.taps; ++t) {
          for (int r = 0; r < map.rows; ++r) {
            const int in = map.at(t, r);
            if (in < 0) continue;
            for (int co = 0; co < cout; ++co) {
              const int first = co / group_cout * group_cin;
              for (int ci = 0; ci < group_cin; ++ci)
                expected[index(std::int64_t{in} * cin + first + ci)] +=
                    double(dy[index(std::int64_t{r} * cout + co)]) *
                    w[index((std::int64_t{co} * map.taps + t) * group_cin + ci)];
            }
          }
        }
        for (const double v : expected) largest = std::max(largest, std::abs(v));
        const auto master = on_device(w);
        auto forward = gemm_core::cuda::zero_conv_weights(cout, map.taps, cin, groups, dtype);
        auto backward = gemm_core::cuda::zero_conv_weights(cin, map.taps, cout, groups, dtype);
        const gemm_core::cuda::PackWeightsJob job{.weight = master.data(),
                                                  .cout = cout,
                                                  .taps = map.taps,
                                                  .cin = cin,
                                                  .groups = groups,
                                                  .forward = &forward,
                                                  .backward = &backward,
                                                  .reverses_taps = is_same};
        gemm_core::cuda::WeightPacker({&job, 1}).run(nullptr);
        const auto uploaded = gemm_core::cuda::upload_conv_weights({.weight = w.data(),
                                                                    .cout = cout,
                                                                    .taps = map.taps,
                                                                    .cin = cin,
                                                                    .groups = groups,
                                                                    .compute = dtype});
        CUDA_CHECK(cudaDeviceSynchronize());
        EXPECT_EQ(on_host(forward.data), on_host(uploaded.data));
        const auto device_dy = stored(dy, dtype);
        const auto table = on_device(inverse.table);
        base::cuda::Buffer<std::uint8_t> to(
            index(base::bytes(dtype, std::int64_t{map.inputs} * cin)));
        const base::Device cuda{base::Device::Kind::cuda, 0};
        gemm_core::cuda::GatherConvArguments a;
        a.input = {device_dy.data(), dtype, cuda, {map.rows, cout}, {cout, 1}};
        a.weights = &backward;
        a.output = {to.data(), dtype, cuda, {map.inputs, cin}, {cin, 1}};
        a.canonical = table.data();
        a.canonical_pitch = inverse.rows;
        gemm_core::cuda::GatherConv(a).run(nullptr);
        CUDA_CHECK(cudaDeviceSynchronize());
        const auto got = on_host(to);
        double worst = 0;
        base::visit_dtype<float, base::half_t, base::bf16_t>(dtype, "test", [&]<class T>() {
          const auto* values = reinterpret_cast<const T*>(got.data());
          for (std::size_t i = 0; i < expected.size(); ++i) {
            const double d =
                std::abs(static_cast<double>(static_cast<float>(values[i])) - expected[i]);
            worst = d <= worst ? worst : d;
          }
        });
        EXPECT_LE(worst / largest, tolerance(dtype));
      }
    }
  }
}

}  // namespace
}  // namespace cuda_tests
