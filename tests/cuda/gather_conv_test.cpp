// The convolution kernels against a plain loop in double.
#include <gtest/gtest.h>

#include <string>

#include "tests/cuda/conv_case.hpp"
#include "tests/cuda/require_device.hpp"

namespace cuda_tests {
namespace {

using base::DType;
using gemm_core::Activation;
using gemm_core::cuda::GatherConv;
using gemm_core::cuda::Sm90Instance;
using gemm_core::cuda::TilePart;

HostMap submanifold(int rows, std::array<int, 3> kernel, unsigned seed) {
  const Coords cells = surface_cells(rows, seed);
  HostMap map = build_map(cells, cells, kernel, 1, 1);
  if (kernel != std::array{3, 3, 3}) map = build_map(cells, cells, kernel, 1, kernel[0] / 2);
  return map;
}

void expect_simt_is_right(const ConvCase& conv, const HostMap& map) {
  ConvProblem problem(conv, map, 7);
  auto arguments = problem.arguments();
  arguments.canonical = problem.canonical();
  arguments.canonical_pitch = map.rows;
  GatherConv(arguments).run(nullptr);
  CUDA_CHECK(cudaDeviceSynchronize());
  EXPECT_LE(problem.worst_error(problem.output()), tolerance(conv.dtype))
      << conv.cin << " -> " << conv.cout << ", " << map.taps << " taps, " << base::name(conv.dtype);
  EXPECT_TRUE(problem.is_outside_untouched());
}

// Runs `conv` on `instance` in the given order; with `repeats` the results must be the same bits
// each time.
void expect_instance_is_right(const Sm90Instance& instance, ConvCase conv, const HostMap& map,
                              bool planes, int repeats = 1) {
  conv.dtype = instance.element;
  ConvProblem problem(conv, map, 11);
  const HostTable host = planes ? order_planes(map) : order_rows(map);
  DeviceTable table(map, host, nullptr);
  auto arguments = problem.arguments();
  arguments.instance = &instance;
  arguments.table = table.view();
  const int lists = gemm_core::cuda::lists_for(instance, conv.cout, base::cuda::device_info(0));
  arguments.centre = table.schedule(TilePart::centre, instance.tile_m, lists, nullptr);
  base::cuda::Buffer<float> partials;
  if (planes) {
    arguments.outer = table.schedule(TilePart::outer, instance.tile_m, lists, nullptr);
    partials = base::cuda::Buffer<float>(
        static_cast<std::size_t>(gemm_core::cuda::partial_floats(instance, map.rows, conv.cout)));
    arguments.partials = partials.data();
  }
  const GatherConv op(arguments);
  std::vector<float> first;
  for (int i = 0; i < repeats; ++i) {
    problem.poison_output();
    op.run(nullptr);
    CUDA_CHECK(cudaDeviceSynchronize());
    const auto values = problem.output();
    if (i == 0) {
      first = values;
      EXPECT_LE(problem.worst_error(values), tolerance(conv.dtype))
          << instance.name << (planes ? " planes " : " ") << conv.cin << " -> " << conv.cout << ", "
          << map.taps << " taps";
      EXPECT_TRUE(problem.is_outside_untouched()) << instance.name;
    } else {
      ASSERT_EQ(first, values) << instance.name << " repeat " << i;
    }
  }
}

void expect_mixtures_are_right(const Sm90Instance& instance, DType narrow, const HostMap& map) {
  for (const DType output : {DType::f16, narrow}) {
    for (const DType residual : {DType::f16, narrow}) {
      const ConvCase conv{.cin = instance.stage_k,
                          .cout = instance.tile_n + 16,
                          .scale_shift = true,
                          .residual = true,
                          .activation = Activation::leaky_relu,
                          .output_offset = 16,
                          .output_channels = instance.tile_n + 48,
                          .output_type = output,
                          .residual_type = residual,
                          .factor = output == residual ? 300.f : 0.25f};
      expect_instance_is_right(instance, conv, map, false);
      expect_instance_is_right(instance, conv, map, true);
    }
  }
}

TEST(SimtGatherConv, IsRightForAnyChannelsTapsAndTypes) {
  REQUIRE_DEVICE();
  const HostMap k3 = submanifold(700, {3, 3, 3}, 1), k1 = submanifold(130, {1, 1, 1}, 2),
                k5 = submanifold(300, {5, 5, 5}, 3), k7 = submanifold(150, {7, 7, 7}, 4),
                flat = submanifold(200, {1, 3, 3}, 5);
  for (const DType dtype : {DType::f32, DType::tf32, DType::f16, DType::bf16}) {
    for (const int cin : {1, 3, 5, 17, 33, 130})
      expect_simt_is_right({.cin = cin, .cout = cin == 130 ? 5 : 33, .dtype = dtype}, k3);
    expect_simt_is_right({.cin = 4, .cout = 130, .dtype = dtype}, k1);
    expect_simt_is_right({.cin = 4, .cout = 32, .dtype = dtype}, k5);
    expect_simt_is_right({.cin = 3, .cout = 7, .dtype = dtype}, k7);
    expect_simt_is_right({.cin = 16, .cout = 16, .dtype = dtype}, flat);
  }
}

TEST(SimtGatherConv, TakesRowsInOneOrder) {
  REQUIRE_DEVICE();
  const HostMap map = submanifold(900, {3, 3, 3}, 8);
  const HostTable host = order_rows(map);
  DeviceTable table(map, host, nullptr);
  for (const DType dtype : {DType::f32, DType::f16}) {
    for (const int cin : {6, 32}) {
      ConvProblem problem({.cin = cin, .cout = 40, .dtype = dtype, .residual = true}, map, 3);
      auto arguments = problem.arguments();
      arguments.table = table.view();
      GatherConv(arguments).run(nullptr);
      CUDA_CHECK(cudaDeviceSynchronize());
      EXPECT_LE(problem.worst_error(problem.output()), tolerance(dtype)) << cin;
    }
  }
}

TEST(SimtGatherConv, HandlesGroupsSlicesAndEveryActivation) {
  REQUIRE_DEVICE();
  const HostMap map = submanifold(500, {3, 3, 3}, 6);
  for (const int groups : {2, 3, 12})
    expect_simt_is_right({.cin = 12, .cout = 24, .groups = groups, .dtype = DType::f32}, map);
  for (const Activation a : {Activation::relu, Activation::leaky_relu, Activation::sigmoid,
                             Activation::silu, Activation::tanh, Activation::gelu}) {
    expect_simt_is_right({.cin = 9,
                          .cout = 13,
                          .dtype = DType::f32,
                          .scale_shift = true,
                          .residual = true,
                          .activation = a,
                          .output_offset = 3,
                          .output_channels = 20},
                         map);
  }
}

TEST(SimtGatherConv, EmptyInputCostsNoLaunch) {
  REQUIRE_DEVICE();
  const HostMap empty{27, 0, 0, {}};
  expect_simt_is_right({.cin = 4, .cout = 4}, empty);
}

TEST(Sm90GatherConv, EveryInstanceIsRightInOneOrderAndInPlanes) {
  REQUIRE_HOPPER();
  const HostMap map = submanifold(1500, {3, 3, 3}, 21);
  for (const Sm90Instance* instance : gemm_core::cuda::sm90_instances()) {
    const ConvCase exact{.cin = instance->stage_k, .cout = instance->tile_n};
    expect_instance_is_right(*instance, exact, map, false);
    expect_instance_is_right(*instance, exact, map, true);
    // Several slices, several blocks of columns, channels that fill neither.
    const bool has_bytes = gemm_core::cuda::is_eight_bit(instance->element);
    const int chunk = has_bytes ? 16 : 8;
    const ConvCase ragged{.cin = instance->stage_k + 3 * chunk,
                          .cout = instance->tile_n + 5 * chunk,
                          .scale_shift = true,
                          .residual = true,
                          .activation = Activation::relu,
                          .output_offset = 16,
                          .output_channels = instance->tile_n + 128};
    expect_instance_is_right(*instance, ragged, map, false);
    expect_instance_is_right(*instance, ragged, map, true);
    expect_instance_is_right(
        *instance, {.cin = chunk, .cout = chunk, .activation = Activation::leaky_relu}, map, false);
  }
}

// f16 and 8-bit products, results and residuals of either type, and sums beyond what 8 bits hold.
TEST(Sm90GatherConv, MixesHalvesAndEightBits) {
  REQUIRE_HOPPER();
  const HostMap map = submanifold(600, {3, 3, 3}, 23);
  for (const DType narrow : {DType::e4m3, DType::i8}) {
    for (const Sm90Instance* instance : gemm_core::cuda::sm90_instances()) {
      if (instance->element == DType::f16 || instance->element == narrow)
        expect_mixtures_are_right(*instance, narrow, map);
    }
  }
}
// Two 8-bit types in one call.
TEST(Sm90GatherConv, RefusesE4m3BesideInt8) {
  REQUIRE_HOPPER();
  const HostMap map = submanifold(300, {3, 3, 3}, 27);
  ConvProblem problem({.cin = 32, .cout = 32, .dtype = DType::i8, .output_type = DType::e4m3}, map,
                      1);
  EXPECT_THROW(GatherConv(problem.arguments()), base::Error);
}

// A second matrix whose rows are one more tap of their own output rows.
TEST(Sm90GatherConv, TakesOwnRowsAsOneMoreTap) {
  REQUIRE_HOPPER();
  const HostMap k3 = submanifold(700, {3, 3, 3}, 25), flat = submanifold(400, {1, 3, 3}, 26);
  int instances = 0;
  for (const Sm90Instance* instance : gemm_core::cuda::sm90_instances()) {
    if (instance->launch_own_rows == nullptr) continue;
    ++instances;
    for (const int own_cin : {16, instance->stage_k, 2 * instance->stage_k + 16}) {
      const ConvCase conv{.cin = instance->stage_k,
                          .cout = instance->tile_n + 16,
                          .scale_shift = true,
                          .activation = Activation::relu,
                          .own_cin = own_cin};
      expect_instance_is_right(*instance, conv, k3, false);
      expect_instance_is_right(*instance, conv, k3, true);
      expect_instance_is_right(*instance, conv, flat, false);
    }
  }
  EXPECT_GE(instances, 10);
}

// The same kernels on so little that racecheck gets through them: two tiles of rows, nine taps,
// which is more than any ring has stages. One test a type, so that they can run beside each other.
class Sm90GatherConvOf : public testing::TestWithParam<DType> {};

TEST_P(Sm90GatherConvOf, FewRowsForSanitizers) {
  REQUIRE_HOPPER();
  const HostMap flat = submanifold(70, {1, 3, 3}, 28), k3 = submanifold(70, {3, 3, 3}, 28);
  int instances = 0;
  for (const Sm90Instance* instance : gemm_core::cuda::sm90_instances()) {
    if (instance->element != GetParam()) continue;
    const ConvCase conv{.cin = instance->stage_k, .cout = 32};
    expect_instance_is_right(*instance, conv, flat, false);
    if (instances++ == 0) expect_instance_is_right(*instance, conv, k3, true);
    if (instance->launch_own_rows == nullptr) continue;
    ConvCase with_own_rows = conv;
    with_own_rows.own_cin = instance->stage_k + 16;
    expect_instance_is_right(*instance, with_own_rows, flat, false);
  }
  EXPECT_GE(instances, 1);
}

// Without f32: docs/cuda_state.md says what racecheck sees there.
INSTANTIATE_TEST_SUITE_P(Types, Sm90GatherConvOf,
                         testing::Values(DType::f16, DType::bf16, DType::tf32, DType::e4m3,
                                         DType::i8),
                         [](const auto& param) { return std::string(base::name(param.param)); });

TEST(SimtGatherConv, StoresAndAddsEightBits) {
  REQUIRE_DEVICE();
  const HostMap map = submanifold(700, {3, 3, 3}, 24);
  for (const DType narrow : {DType::e4m3, DType::i8}) {
    expect_simt_is_right({.cin = 5,
                          .cout = 33,
                          .dtype = DType::f16,
                          .scale_shift = true,
                          .residual = true,
                          .output_offset = 3,
                          .output_channels = 40,
                          .output_type = narrow,
                          .residual_type = narrow,
                          .factor = 2},
                         map);
  }
}

TEST(Sm90GatherConv, StridedInverseAndPointwiseMaps) {
  REQUIRE_HOPPER();
  const Coords fine = surface_cells(2000, 31), coarse = stride_two_parents(fine);
  const HostMap down = build_map(fine, coarse, {2, 2, 2}, 2, 0), up = inverse_of(down),
                flat = build_map(fine, fine, {1, 3, 3}, 1, 1);
  const HostMap wide = build_map(fine, coarse, {3, 3, 3}, 2, 1);
  for (const Sm90Instance* instance : gemm_core::cuda::sm90_instances()) {
    const ConvCase conv{.cin = 64, .cout = 96, .scale_shift = true, .activation = Activation::relu};
    for (const HostMap* map : {&down, &up, &flat, &wide})
      expect_instance_is_right(*instance, conv, *map, false);
  }
}

TEST(Sm90GatherConv, OneTapOverEveryRow) {
  REQUIRE_HOPPER();
  for (const int rows : {1, 63, 64, 65, 1000, 40000}) {
    HostMap identity{1, rows, rows, {}};
    for (int i = 0; i < rows; ++i) identity.table.push_back(i);
    for (const Sm90Instance* instance : gemm_core::cuda::sm90_instances()) {
      expect_instance_is_right(*instance, {.cin = 32, .cout = 48, .scale_shift = true}, identity,
                               false);
    }
  }
}

TEST(Sm90GatherConv, GivesTheSameBitsEveryTime) {
  REQUIRE_HOPPER();
  const HostMap map = submanifold(6000, {3, 3, 3}, 41);
  for (const Sm90Instance* instance : gemm_core::cuda::sm90_instances()) {
    for (const bool planes : {false, true}) {
      expect_instance_is_right(*instance, {.cin = 64, .cout = 64}, map, planes, 50);
    }
  }
}

TEST(Sm90GatherConv, OverlappingLaunchesSeeTheirPredecessorsResults) {
  REQUIRE_HOPPER();
  // x -> y -> x -> ... through two launches that overlap: the same as with full barriers between
  // them.
  const HostMap map = submanifold(20000, {3, 3, 3}, 51);
  const HostTable host_single = order_rows(map), host_planes = order_planes(map);
  DeviceTable single(map, host_single, nullptr), planes(map, host_planes, nullptr);
  const Sm90Instance& instance =
      *gemm_core::cuda::choose_instance(
           {.compute = DType::f16, .cin = 64, .cout = 64, .rows = map.rows, .taps = map.taps})
           .instance;
  const int lists = gemm_core::cuda::lists_for(instance, 64, base::cuda::device_info(0));
  std::vector<float> expected;
  for (const bool overlap : {false, true}) {
    ConvProblem problem(
        {.cin = 64, .cout = 64, .scale_shift = true, .activation = Activation::relu}, map, 5);
    auto forward = problem.arguments();
    forward.instance = &instance;
    forward.table = single.view();
    forward.centre = single.schedule(TilePart::centre, instance.tile_m, lists, nullptr);
    forward.overlap = overlap;
    auto back = forward;
    back.input = {forward.output.data, forward.output.dtype, forward.output.device,
                  forward.output.shape, forward.output.stride};
    back.output = {const_cast<void*>(forward.input.data), forward.input.dtype, forward.input.device,
                   forward.input.shape, forward.input.stride};
    back.table = planes.view();
    back.centre = planes.schedule(TilePart::centre, instance.tile_m, lists, nullptr);
    back.outer = planes.schedule(TilePart::outer, instance.tile_m, lists, nullptr);
    base::cuda::Buffer<float> partials(
        static_cast<std::size_t>(gemm_core::cuda::partial_floats(instance, map.rows, 64)));
    back.partials = partials.data();
    // Values stay bounded: batch norm's scale is as small as the sums are large.
    const std::vector<float> scale(64, 0.1f);
    base::cuda::Buffer<float> small(64);
    CUDA_CHECK(cudaMemcpy(small.data(), scale.data(), 256, cudaMemcpyHostToDevice));
    forward.epilogue = gemm_core::Epilogue()
                           .scale_shift(small.data(), nullptr)
                           .activate(Activation::leaky_relu, 0.5f);
    back.epilogue = forward.epilogue;
    const GatherConv there(forward), and_back(back);
    const auto stream = base::cuda::Stream::create();
    for (int i = 0; i < 30; ++i) {
      there.run(stream.get());
      and_back.run(stream.get());
    }
    there.run(stream.get());
    stream.synchronize();
    const auto values = problem.output();
    if (!overlap)
      expected = values;
    else
      EXPECT_EQ(expected, values);
  }
}

TEST(ChooseInstance, FindsOneOfTheLayersTypeForEveryShapeInWholeChunks) {
  for (const DType compute :
       {DType::f16, DType::bf16, DType::tf32, DType::f32, DType::e4m3, DType::i8}) {
    for (const std::int64_t cin : {16, 48, 32, 96, 128, 384}) {
      for (const std::int64_t cout : {8, 16, 32, 64, 96, 128, 192, 256, 512}) {
        for (const std::int64_t rows : {0, 1, 3000, 9000, 50000, 100000}) {
          for (const std::int64_t taps : {1, 8, 27}) {
            const auto choice = gemm_core::cuda::choose_instance({compute, cin, cout, rows, taps});
            ASSERT_NE(choice.instance, nullptr) << cin << " -> " << cout << ", " << rows;
            EXPECT_EQ(choice.instance->element, compute);
            EXPECT_FALSE(choice.planes && taps != 27);
          }
        }
      }
    }
  }
  EXPECT_EQ(gemm_core::cuda::choose_instance({DType::f16, 12, 32, 1000, 27}).instance, nullptr);
  for (const DType compute : {DType::tf32, DType::f32}) {
    EXPECT_EQ(gemm_core::cuda::choose_instance({compute, 6, 32, 1000, 27}).instance, nullptr);
  }
}

// 192 -> 128 over 85,524 rows: 113 us by stages of 128 channels, 85 by those of 64.
TEST(ChooseInstance, FillsTheStagesOfLongLayers) {
  for (const std::int64_t cin : {64, 128, 192, 256, 320}) {
    for (const std::int64_t rows : {36000, 85000, 400000}) {
      const auto choice = gemm_core::cuda::choose_instance({DType::f16, cin, 128, rows, 27});
      EXPECT_EQ(cin % choice.instance->stage_k, 0) << cin << " channels, " << rows << " rows";
    }
  }
}

TEST(Sm90GatherConv, NamesWhatItCannotRun) {
  REQUIRE_HOPPER();
  const HostMap map = submanifold(100, {3, 3, 3}, 1);
  ConvProblem problem({.cin = 12, .cout = 8}, map, 1);
  auto arguments = problem.arguments();
  arguments.instance = gemm_core::cuda::sm90_instances().front();
  EXPECT_THROW(GatherConv{arguments}, base::Error);
  EXPECT_STREQ(gemm_core::cuda::why_not(*arguments.instance, arguments),
               "channels are no multiple of 16 bytes");
}

}  // namespace
}  // namespace cuda_tests
