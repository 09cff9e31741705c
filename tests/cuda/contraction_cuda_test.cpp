// Contractions on the device against the CPU's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/device/cuda/contraction/contraction.hpp"
#include "tests/cuda/require_device.hpp"
#include "tests/gemm_core/gemm_case.hpp"

namespace {

using base::DType;
using gemm_core::ContractionArguments;
using gemm_core::ContractionMode;
using gemm_core::ContractionOperand;
using gemm_core::ModeKind;
using gemm_core::ModeStrides;
using Bytes = base::cuda::Buffer<std::uint8_t>;

// Random values here and on the device.
struct Values {
  DType type;
  std::int64_t count;
  std::vector<std::uint8_t> host;
  Bytes device;
  Values(std::int64_t n, DType t, std::mt19937& random)
      : type(t), count(n), host(static_cast<std::size_t>(n * base::bytes(t))) {
    std::normal_distribution<double> normal;
    const DType part = t == DType::c64 ? DType::f32 : t == DType::c128 ? DType::f64 : t;
    for (std::int64_t i = 0; i < n * (part == t ? 1 : 2); ++i) {
      const bool integer = t == DType::i8 || t == DType::i32;
      const double v =
          integer ? static_cast<double>(static_cast<int>(random() % 255) - 127) : normal(random);
      // So that cutting bits off and rounding agree in tf32.
      gemm_case::write(host.data(), part, i,
                       part == DType::f32 ? base::round_to_tf32(static_cast<float>(v)) : v);
    }
    device = Bytes(host.size());
    upload();
  }
  void upload() {
    CUDA_CHECK(cudaMemcpy(device.data(), host.data(), host.size(), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaDeviceSynchronize());
  }
};

struct Types {
  DType in, out, compute;
};

struct ModeCase {
  std::mt19937 random;
  std::vector<ContractionMode> modes;
  std::int64_t sizes[4]{};
  explicit ModeCase(unsigned seed) : random(seed) {}

  // Each operand packs its modes in an order of its own, `slack` elements after some.
  void pack(bool slack) {
    const auto one = [&](std::int64_t ModeStrides::*member, ModeKind lacks) {
      std::vector<std::size_t> order(modes.size());
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      std::int64_t stride = 1;
      for (const std::size_t i : order) {
        if (modes[i].kind == lacks) continue;
        modes[i].stride.*member = stride;
        stride *= modes[i].extent + (slack ? static_cast<std::int64_t>(random() % 2) : 0);
      }
      return stride;
    };
    sizes[0] = one(&ModeStrides::a, ModeKind::n);
    sizes[1] = one(&ModeStrides::b, ModeKind::m);
    sizes[2] = one(&ModeStrides::c, ModeKind::k);
    sizes[3] = one(&ModeStrides::d, ModeKind::k);
  }
};

double terms_of(const std::vector<ContractionMode>& modes) {
  double k = 1;
  for (const auto& mode : modes)
    if (mode.kind == ModeKind::k) k *= static_cast<double>(mode.extent);
  return k;
}

using gemm_core::cuda::ContractionPath;

// The device's result against the CPU's, by every path that takes it; D's other elements must stay.
// Returns the kernel's name that is chosen.
std::string check(ModeCase& s, const Types& t, double beta) {
  Values a(s.sizes[0], t.in, s.random), b(s.sizes[1], t.in, s.random),
      c(s.sizes[2], t.out, s.random), d(s.sizes[3], t.out, s.random);
  ContractionArguments g{.modes = s.modes, .compute = t.compute, .alpha = 0.5, .beta = beta};
  if (t.out == DType::i32) g.alpha = 1;
  const auto point = [&](bool on_device) {
    const auto one = [&](ContractionOperand& o, Values& v) {
      o.data = on_device ? v.device.data() : v.host.data();
      o.dtype = v.type;
    };
    one(g.a, a), one(g.b, b), one(g.c, c), one(g.d, d);
  };
  point(false);
  const std::vector<std::uint8_t> before = d.host;
  std::vector<std::uint8_t> cpu_workspace(gemm_core::Contraction::workspace_size(g));
  gemm_core::Contraction cpu;
  auto status = cpu.initialize(g, cpu_workspace.data(), cpu_workspace.size());
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_TRUE(cpu.run().ok());
  const DType part = t.out == DType::c64 ? DType::f32 : t.out == DType::c128 ? DType::f64 : t.out;
  const double k = terms_of(s.modes);
  const bool is_double = part == DType::f64;
  // Values are about normal: a sum of k products is within k of their largest, 16.
  const double share = 16 * k * (k + 16) * std::ldexp(1.0, is_double ? -53 : -24);
  const double unit = gemm_case::unit_roundoff(part);
  point(true);
  std::string chosen;
  for (const ContractionPath path : {ContractionPath::automatic, ContractionPath::product,
                                     ContractionPath::nested, ContractionPath::table}) {
    if (path != ContractionPath::automatic &&
        !gemm_core::cuda::Contraction::can_implement(g, path).ok()) {
      EXPECT_NE(path, ContractionPath::table);
      continue;
    }
    CUDA_CHECK(cudaMemcpy(d.device.data(), before.data(), before.size(), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaDeviceSynchronize());
    const auto stream = base::cuda::Stream::create();
    Bytes workspace(gemm_core::cuda::Contraction::workspace_size(g, path));
    gemm_core::cuda::Contraction contraction;
    status = contraction.initialize(g, workspace.data(), workspace.size(), stream.get(), path);
    EXPECT_TRUE(status.ok()) << status.message;
    EXPECT_TRUE(contraction.run(stream.get()).ok());
    stream.synchronize();
    if (path == ContractionPath::automatic) chosen = contraction.kernel_name();
    std::vector<std::uint8_t> got(d.host.size());
    CUDA_CHECK(cudaMemcpy(got.data(), d.device.data(), got.size(), cudaMemcpyDeviceToHost));
    for (std::int64_t i = 0; i < d.count * (part == t.out ? 1 : 2); ++i) {
      const double expected = gemm_case::read(d.host.data(), part, i);
      const double tolerance =
          t.out == DType::i32 ? 0 : share + (2 * unit + 1e-6) * (1 + std::fabs(expected));
      EXPECT_NEAR(gemm_case::read(got.data(), part, i), expected, tolerance)
          << "element " << i << " by " << contraction.kernel_name();
      if (testing::Test::HasFailure()) return chosen;
    }
  }
  return chosen;
}

TEST(CudaContraction, EqualsTheCpuForRandomModesInRandomOrders) {
  REQUIRE_DEVICE();
  const Types types[] = {
      {DType::f32, DType::f32, DType::f32},    {DType::f16, DType::f16, DType::f16},
      {DType::bf16, DType::f32, DType::bf16},  {DType::f32, DType::f32, DType::tf32},
      {DType::f64, DType::f64, DType::f64},    {DType::c64, DType::c64, DType::c64},
      {DType::c128, DType::c128, DType::c128}, {DType::i8, DType::i32, DType::i8}};
  for (unsigned trial = 0; trial < 160 && !HasFailure(); ++trial) {
    ModeCase s(trial);
    const std::uint64_t counts[] = {s.random() % 4, s.random() % 3, s.random() % 4, s.random() % 3};
    for (std::size_t kind = 0; kind < 4; ++kind) {
      for (std::uint64_t i = 0; i < counts[kind]; ++i) {
        s.modes.push_back({.kind = static_cast<ModeKind>(kind),
                           .extent = static_cast<std::int64_t>(1 + s.random() % 7)});
      }
    }
    s.pack(trial % 3 == 0);
    check(s, types[trial % 8], trial % 2 && trial % 8 != 7 ? 2.0 : 0.0);
  }
}

TEST(CudaContraction, TilesOfManyModesEqualTheCpu) {
  REQUIRE_DEVICE();
  for (const Types& t :
       {Types{DType::f16, DType::f16, DType::f16}, Types{DType::f32, DType::f32, DType::f32}}) {
    for (unsigned seed = 0; seed < 6 && !HasFailure(); ++seed) {
      ModeCase s(seed);
      s.modes = {{ModeKind::m, 24}, {ModeKind::m, 11}, {ModeKind::n, 40},   {ModeKind::n, 5},
                 {ModeKind::k, 16}, {ModeKind::k, 9},  {ModeKind::batch, 2}};
      s.pack(seed % 2 == 1);
      check(s, t, seed % 3 == 0 ? 0.5 : 0);
    }
  }
}

// Extents and strides that tensor maps take: every pair of majors, in one to three modes a kind.
TEST(CudaContraction, NestedModesEqualTheCpu) {
  REQUIRE_HOPPER();
  int nested_seen = 0;
  for (unsigned seed = 0; seed < 24 && !HasFailure(); ++seed) {
    ModeCase s(seed + 100);
    const auto extent = [&] { return static_cast<std::int64_t>(8 * (1 + s.random() % 4)); };
    s.modes = {{ModeKind::m, 8 * extent()}, {ModeKind::m, 3},        {ModeKind::n, 4 * extent()},
               {ModeKind::n, extent()},     {ModeKind::k, extent()}, {ModeKind::k, 2 * extent()}};
    if (seed % 4 == 1) s.modes.push_back({ModeKind::batch, 3});
    if (seed % 4 == 2) s.modes.push_back({ModeKind::k, 8});
    s.pack(false);
    // The mode of extent 3 last in A, so that all other strides are multiples of eight.
    ContractionMode& odd = s.modes[1];
    for (auto& mode : s.modes) {
      if (mode.stride.a > odd.stride.a) mode.stride.a /= 3;
    }
    odd.stride.a = s.sizes[0] / 3;
    const DType type = seed % 2 ? DType::f16 : DType::bf16;
    const std::string name = check(s, {type, type, type}, seed % 3 == 0 ? 0.5 : 0);
    nested_seen += name.rfind("nested", 0) == 0;
  }
  EXPECT_GE(nested_seen, 5);
}

TEST(CudaContraction, WhatIsAProductRunsAsOne) {
  REQUIRE_DEVICE();
  // D[i, j, p, q] = sum A[i, j, k, l] B[p, q, k, l]: i with j, p with q and k with l merge.
  ModeCase s(1);
  s.modes = {{ModeKind::m, 12, {.a = 64, .c = 64, .d = 64}},
             {ModeKind::m, 20, {.a = 12 * 64, .c = 12 * 64, .d = 12 * 64}},
             {ModeKind::n, 8, {.b = 64, .c = 1, .d = 1}},
             {ModeKind::n, 8, {.b = 8 * 64, .c = 8, .d = 8}},
             {ModeKind::k, 16, {.a = 1, .b = 1}},
             {ModeKind::k, 4, {.a = 16, .b = 16}}};
  s.sizes[0] = s.sizes[2] = s.sizes[3] = 240 * 64;
  s.sizes[1] = 64 * 64;
  const std::string name = check(s, {DType::f16, DType::f16, DType::f16}, 0);
  EXPECT_EQ(name.rfind("table", 0), std::string::npos) << name;
}

TEST(CudaContraction, ReadsAndWritesThroughIndexBuffers) {
  REQUIRE_DEVICE();
  // D[slot_d[i], n] = sum A[slot_a[i, t], c] B[t, c, n] with holes in slot_a.
  constexpr std::int64_t rows = 200, taps = 5, channels = 32, columns = 48, cells = 300;
  std::mt19937 random(2);
  Values a(cells * channels, DType::f16, random), b(taps * channels * columns, DType::f16, random),
      d(cells * columns, DType::f32, random);
  std::vector<std::int32_t> from(rows * taps);
  std::vector<std::int64_t> to(cells);
  for (auto& x : from) x = static_cast<std::int32_t>(random() % (cells + 50)) - 50;
  std::iota(to.begin(), to.end(), 0);
  std::shuffle(to.begin(), to.end(), random);
  base::cuda::Buffer<std::int32_t> device_from(from.size());
  base::cuda::Buffer<std::int64_t> device_to(to.size());
  CUDA_CHECK(
      cudaMemcpy(device_from.data(), from.data(), device_from.nbytes(), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(device_to.data(), to.data(), device_to.nbytes(), cudaMemcpyHostToDevice));
  ContractionArguments g{.modes = {{ModeKind::m, rows, {}, {.a = taps, .d = 1}},
                                   {ModeKind::n, columns, {.b = 1, .d = 1}},
                                   {ModeKind::k, channels, {.a = 1, .b = columns}},
                                   {ModeKind::k, taps, {.b = channels * columns}, {.a = 1}}},
                         .compute = DType::f16};
  const auto point = [&](bool on_device) {
    const auto data = [&](Values& v) { return on_device ? v.device.data() : v.host.data(); };
    g.a = {data(a), DType::f16, {from.data(), DType::i32}, channels, cells};
    g.b = {data(b), DType::f16};
    g.d = {data(d), DType::f32, {to.data(), DType::i64}, columns, cells};
    if (!on_device) return;
    g.a.slots.data = device_from.data();
    g.d.slots.data = device_to.data();
  };
  point(true);
  const auto stream = base::cuda::Stream::create();
  Bytes workspace(gemm_core::cuda::Contraction::workspace_size(g));
  gemm_core::cuda::Contraction contraction;
  const auto status = contraction.initialize(g, workspace.data(), workspace.size(), stream.get());
  ASSERT_TRUE(status.ok()) << status.message;
  ASSERT_TRUE(contraction.run(stream.get()).ok());
  stream.synchronize();
  std::vector<float> got(cells * columns);
  CUDA_CHECK(cudaMemcpy(got.data(), d.device.data(), d.host.size(), cudaMemcpyDeviceToHost));
  point(false);
  std::vector<std::uint8_t> cpu_workspace(gemm_core::Contraction::workspace_size(g));
  gemm_core::Contraction cpu;
  ASSERT_TRUE(cpu.initialize(g, cpu_workspace.data(), cpu_workspace.size()).ok());
  ASSERT_TRUE(cpu.run().ok());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], reinterpret_cast<const float*>(d.host.data())[i], 1e-3) << i;

  from[7] = cells;  // past the limit
  CUDA_CHECK(
      cudaMemcpy(device_from.data(), from.data(), device_from.nbytes(), cudaMemcpyHostToDevice));
  point(true);
  EXPECT_EQ(gemm_core::cuda::Contraction::can_implement(g).code,
            gemm_core::GemmStatus::Code::bad_index);
}

// Index buffers are copied to be checked; alignment, overlaps and C in place are those of the
// device.
TEST(CudaContraction, ChecksIndexBuffersWhereTheyLieOnTheDevice) {
  REQUIRE_DEVICE();
  using Code = gemm_core::GemmStatus::Code;
  std::mt19937 random(3);
  Values a(32, DType::f32, random), b(32, DType::f32, random), d(64, DType::f32, random);
  const std::vector<std::int32_t> lists{0, 3, 1, 2, 0, 3, 3, 1};
  base::cuda::Buffer<std::int32_t> device(lists.size());
  CUDA_CHECK(cudaMemcpy(device.data(), lists.data(), device.nbytes(), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(d.device.data(), lists.data(), device.nbytes(), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaDeviceSynchronize());
  ContractionArguments g{.modes = {{ModeKind::m, 4, {.a = 4}, {.c = 1, .d = 1}},
                                   {ModeKind::n, 4, {.b = 1, .c = 1, .d = 1}},
                                   {ModeKind::k, 4, {.a = 1, .b = 4}}}};
  g.a = {a.device.data()};
  g.b = {b.device.data()};
  g.d = {d.device.data(), DType::f32, {device.data()}, 4, 4};
  g.c = g.d;
  const auto expect = [](const ContractionArguments& arguments, Code code, const char* words) {
    const auto status = gemm_core::cuda::Contraction::can_implement(arguments);
    EXPECT_EQ(status.code, code) << words << ": " << status.message;
    EXPECT_NE(status.message.find(words), std::string::npos) << status.message;
  };
  expect(g, Code::success, "");
  ContractionArguments h = g;
  h.beta = 1;  // the same tensor through the same buffer
  expect(h, Code::success, "");
  h.c.slots.data = device.data() + 1;
  h.c.slot_limit = 8;
  expect(h, Code::overlap, "D overlaps operand C");
  h = g;
  h.d.slots.data = reinterpret_cast<const char*>(device.data()) + 2;
  expect(h, Code::misaligned, "index buffer of operand D");
  h.d.slots.data = device.data() + 4;
  expect(h, Code::bad_index, "once more");
  h.d.slots.data = d.device.data();
  expect(h, Code::overlap, "D overlaps the index buffer of operand D");
  h = g;
  h.c.slots.data = lists.data();  // beta is 0: not read
  expect(h, Code::success, "");
}

TEST(CudaContraction, RefusesHostMemoryAndSmallWorkspaces) {
  REQUIRE_DEVICE();
  using Code = gemm_core::GemmStatus::Code;
  std::mt19937 random(1);
  Values a(64, DType::f32, random), b(64, DType::f32, random), d(64, DType::f32, random);
  ContractionArguments g{.modes = {{ModeKind::m, 2, {.a = 1, .d = 1}},
                                   {ModeKind::m, 3, {.a = 5, .d = 9}},
                                   {ModeKind::n, 2, {.b = 1, .d = 4}},
                                   {ModeKind::k, 2, {.a = 20, .b = 7}}},
                         .a = {a.device.data()},
                         .b = {b.device.data()},
                         .d = {d.device.data()}};
  gemm_core::cuda::Contraction op;
  EXPECT_EQ(op.run(nullptr).code, Code::not_initialized);
  EXPECT_EQ(op.initialize(g, nullptr, 0, nullptr).code, Code::small_workspace);
  g.b.data = b.host.data();
  const auto status = gemm_core::cuda::Contraction::can_implement(g);
  EXPECT_EQ(status.code, Code::wrong_device);
  EXPECT_NE(status.message.find("operand B"), std::string::npos) << status.message;
}

}  // namespace
