// Dense products on the device against the CPU's, every kernel that takes a case.
#include <gtest/gtest.h>

#include <set>

#include "gemm_core/device/cuda/gemm/dense_instances.hpp"
#include "gemm_core/device/cuda/gemm/gemm_tuning.hpp"
#include "gemm_core/kernel/stream_k.hpp"
#include "tests/cuda/dense_case.hpp"
#include "tests/cuda/require_device.hpp"

namespace cuda_tests {
namespace {

using gemm_core::Activation;
using gemm_core::cuda::Gemm;

constexpr DType f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32, f64 = DType::f64,
                tf32 = DType::tf32, e4m3 = DType::e4m3, e5m2 = DType::e5m2, i8 = DType::i8,
                i32 = DType::i32;

// Some of what the table in device/gemm.hpp allows: the types of every WGMMA instance, and operands
// that are converted on the way.
const DenseTypes kTypes[] = {
    {f16, f16, f16, f16, f16},
    {f16, f16, f16, f32, f32},
    {bf16, bf16, bf16, bf16, bf16},
    {bf16, bf16, bf16, f32, f32},
    {tf32, f32, f32, f32, f32},
    {e4m3, e4m3, e4m3, f16, bf16},
    {e5m2, e5m2, e5m2, f32, f16},
    {e4m3, e4m3, e4m3, f32, e4m3},
    {i8, i8, i8, i32, i32},
    {i8, i8, i8, f32, f32},
    {i8, i8, i8, f16, i8},
    {f32, f32, f32, f32, f32},
    {f64, f64, f64, f64, f64},
    {f16, f32, f16, bf16, f16},
    {bf16, bf16, DType::i4, bf16, bf16},
    {f32, f16, DType::u8, f32, f32},
    {i8, DType::u8, i8, i32, i32},
    {i8, DType::u4, DType::b1, i32, i32},
    {e4m3, f32, e5m2, f16, f16},
    {f16, DType::i2, f16, f16, f32},
};

// An element kept in bytes of its own may lie at odd places; packed ones begin with a byte.
bool is_packed(const DenseTypes& t) { return base::bits(t.a) < 8 || base::bits(t.b) < 8; }

TEST(CudaGemm, TakesTheKernelThatWasMeasured) {
  REQUIRE_DEVICE();
  int device = 0;
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  if (std::string(properties.name) != "NVIDIA H200") GTEST_SKIP() << "no table for this device";
  const DenseProblem problem({.m = 1024, .n = 1024, .k = 1024, .types = kTypes[2]});
  const GemmArguments g = problem.arguments();
  const std::string measured = gemm_core::cuda::default_kernel(gemm_core::cuda::tuning_key(g));
  ASSERT_NE(measured, "");
  const auto stream = base::cuda::Stream::create();
  Gemm gemm;
  ASSERT_TRUE(gemm.initialize(g, nullptr, 0, stream.get()).ok());
  EXPECT_EQ(gemm.kernel_name(), measured);
}

TEST(CudaGemm, EqualsTheCpuOnRandomShapesOfEveryTypeAndLayout) {
  REQUIRE_DEVICE();
  std::mt19937 random(3);
  constexpr std::int64_t kExtents[] = {0,  1,  2,  3,   5,   8,   16,  31,
                                       64, 65, 97, 127, 128, 129, 200, 257};
  const auto extent = [&] { return kExtents[random() % std::size(kExtents)]; };
  for (int round = 0; round < 120; ++round) {
    for (const DenseTypes& types : kTypes) {
      DenseCase c{.m = extent(), .n = extent(), .k = extent(), .types = types};
      c.batch = random() % 4 == 0 ? 3 : 1;
      c.a_rows = random() % 2;
      c.b_rows = random() % 2;
      c.c_rows = random() % 4 != 0;
      c.d_rows = random() % 4 != 0;
      c.aligned = random() % 2 && !is_packed(types);
      const bool integers = types.d == i32;
      c.alpha = integers || random() % 2 ? 1 : -0.75;
      c.beta = random() % 2 ? 0 : integers ? 1 : 0.5;
      c.accumulation = static_cast<Accumulation>(random() % 3);
      expect_all_kernels_right(c, static_cast<unsigned>(random()));
      if (HasFatalFailure()) return;
    }
  }
}

// Several tiles a block, several turns through the stages, tiles of every kind of edge.
TEST(CudaGemm, EveryInstanceIsRightBeyondOneTileAndOneTurn) {
  REQUIRE_HOPPER();
  std::set<std::string> seen;
  for (const DenseTypes& types : kTypes) {
    for (const bool a_rows : {true, false}) {
      for (const bool b_rows : {true, false}) {
        for (const Accumulation how : {Accumulation::fast, Accumulation::promoted}) {
          const DenseCase c{.m = 1500,
                            .n = 776,
                            .k = 1096,
                            .types = types,
                            .a_rows = a_rows,
                            .b_rows = b_rows,
                            .accumulation = how};
          if (types.compute == f32 || is_packed(types)) continue;
          if (how == Accumulation::fast && types.compute != e4m3 && types.compute != e5m2) continue;
          expect_all_kernels_right(c, 5);
          if (HasFatalFailure()) return;
          DenseProblem problem({.m = 128,
                                .n = 128,
                                .k = 128,
                                .types = types,
                                .a_rows = a_rows,
                                .b_rows = b_rows,
                                .accumulation = how});
          for (const auto& name : gemm_core::cuda::dense_kernel_names(problem.arguments()))
            seen.insert(name);
        }
      }
    }
  }
  for (const auto* instance : gemm_core::cuda::dense_instances())
    EXPECT_TRUE(seen.contains(instance->name)) << instance->name << " was not run";
}

TEST(CudaGemm, ManySmallBatchesShareAnOperand) {
  REQUIRE_DEVICE();
  DenseProblem problem({.m = 70, .n = 40, .k = 96, .batch = 37});
  GemmArguments g = problem.arguments();
  g.b.batch_stride = 0;
  problem.compute_expected([](GemmArguments& host) { host.b.batch_stride = 0; });
  for (const std::string& name : gemm_core::cuda::dense_kernel_names(g)) {
    problem.clear_result();
    ASSERT_TRUE(problem.run(g, {name, 1}).ok());
    // Magnitudes are those of other products: all of the same size.
    problem.expect_right(name, 4);
  }
}

void run_pointer_array(const DenseCase& c) {
  DenseProblem problem(c);
  problem.compute_expected();
  const GemmArguments strided = problem.arguments();
  std::vector<const void*> a, b, in;
  std::vector<void*> out;
  for (std::int64_t l = 0; l < c.batch; ++l) {
    const auto address = [&](const auto& o) {
      return static_cast<const char*>(static_cast<const void*>(o.data)) +
             l * o.batch_stride * base::bytes(o.dtype);
    };
    a.push_back(address(strided.a));
    b.push_back(address(strided.b));
    in.push_back(address(strided.c));
    out.push_back(const_cast<char*>(address(strided.d)));
  }
  GemmArguments g = strided;
  g.a.pointers = a.data();
  g.b.pointers = b.data();
  g.c.pointers = in.data();
  g.d.pointers = out.data();
  const auto names = gemm_core::cuda::dense_kernel_names(g);
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  const std::size_t kernels = base::cuda::device_info(device).has_wgmma() && c.aligned ? 2 : 1;
  ASSERT_EQ(names.size(), kernels);
  for (const std::string& name : names) {
    problem.clear_result();
    const GemmStatus status = problem.run(g, {name, 8});
    ASSERT_TRUE(status.ok()) << status.message;
    problem.expect_right(name);
  }
}

TEST(CudaGemm, TakesPointerArrays) {
  REQUIRE_DEVICE();
  for (const bool aligned : {true, false}) {
    run_pointer_array({.m = 50, .n = 72, .k = 80, .batch = 5, .aligned = aligned, .beta = 0.5});
    run_pointer_array({.m = 300, .n = 264, .k = 200, .batch = 3, .aligned = aligned});
  }
}

TEST(CudaGemm, RunsEpilogueNodes) {
  REQUIRE_DEVICE();
  for (const bool aligned : {true, false}) {
    for (const Activation activation :
         {Activation::identity, Activation::relu, Activation::leaky_relu, Activation::sigmoid,
          Activation::silu, Activation::tanh, Activation::gelu}) {
      const DenseCase c{
          .m = 300, .n = 200, .k = 128, .aligned = aligned, .alpha = 0.05, .beta = 0.5};
      DenseProblem problem(c);
      std::mt19937 random(9);
      std::normal_distribution<float> normal;
      std::vector<float> vectors(static_cast<std::size_t>(2 * c.n));
      for (float& v : vectors) v = normal(random);
      DenseMatrixCase residual(c.m, c.n, bf16, true, aligned, 1, random);
      residual.upload();
      base::cuda::Buffer<float> device(vectors.size());
      CUDA_CHECK(cudaMemcpy(device.data(), vectors.data(), vectors.size() * sizeof(float),
                            cudaMemcpyHostToDevice));
      const auto add_nodes = [&](GemmArguments& g, const float* v, bool on_device) {
        const auto aux = residual.operand<gemm_core::GemmOperand>(on_device);
        g.epilogue.scale_shift(v, v + c.n)
            .add({aux.data, bf16, {}, {c.m, c.n}, {aux.row_stride, 1}})
            .activate(activation)
            .scale_shift(nullptr, v);
      };
      problem.compute_expected([&](GemmArguments& g) { add_nodes(g, vectors.data(), false); });
      GemmArguments g = problem.arguments();
      add_nodes(g, device.data(), true);
      for (const std::string& name : gemm_core::cuda::dense_kernel_names(g)) {
        problem.clear_result();
        const GemmStatus status = problem.run(g, {name, 2});
        ASSERT_TRUE(status.ok()) << status.message;
        problem.expect_right(name, 6);  // scales up to 4, slopes up to 1.2
      }
    }
  }
}

TEST(CudaGemm, GivesTheSameBitsInGraphsStreamsAndRepeats) {
  REQUIRE_DEVICE();
  for (const DenseTypes& types : {kTypes[0], kTypes[4], kTypes[8]}) {
    DenseProblem problem({.m = 1000, .n = 520, .k = 640, .types = types});
    const GemmArguments g = problem.arguments();
    for (const std::string& name : gemm_core::cuda::dense_kernel_names(g)) {
      const auto stream = base::cuda::Stream::create(), other = base::cuda::Stream::create();
      Gemm gemm;
      ASSERT_TRUE(gemm.initialize(g, nullptr, 0, stream.get(), {name, 8}).ok());
      // Capture fails on anything that allocates or synchronises.
      const auto graph = base::cuda::Graph::capture(
          stream.get(), [&] { ASSERT_TRUE(gemm.run(stream.get()).ok()); });
      std::vector<std::uint8_t> first;
      for (int repeat = 0; repeat < 1000; ++repeat) {
        problem.clear_result();
        if (repeat % 2 == 0) {
          graph.launch(stream.get());
          stream.synchronize();
        } else {
          ASSERT_TRUE(gemm.run(other.get()).ok());
          other.synchronize();
        }
        problem.d().download();
        if (first.empty()) first = problem.result();
        ASSERT_EQ(first, problem.result()) << name << " repeat " << repeat;
      }
    }
  }
}

// Sums cut along k: right, and the same bits in every run (flags must be as they were).
TEST(CudaGemm, SplitsTheSumsOfTilesAndStaysDeterministic) {
  REQUIRE_HOPPER();
  using kernel::Decomposition;
  for (const DenseTypes& types : {kTypes[0], kTypes[4], kTypes[8], kTypes[9]}) {
    for (const auto& [how, splits] :
         {std::pair{Decomposition::stream_k, 1}, std::pair{Decomposition::split_k, 3},
          std::pair{Decomposition::heuristic, 1}}) {
      DenseProblem problem({.m = 640, .n = 700, .k = 4160, .types = types, .beta = 1});
      problem.compute_expected();
      GemmArguments g = problem.arguments();
      g.schedule.decomposition = how;
      g.schedule.splits = splits;
      for (const std::string& name : gemm_core::cuda::dense_kernel_names(g)) {
        const auto stream = base::cuda::Stream::create();
        const std::size_t bytes = Gemm::workspace_size(g, {name, 4});
        base::cuda::Buffer<std::uint8_t> workspace(bytes);
        EXPECT_EQ(bytes > 0, name.find("128x256") != std::string::npos) << name;
        Gemm gemm;
        ASSERT_TRUE(gemm.initialize(g, workspace.data(), bytes, stream.get(), {name, 4}).ok());
        std::vector<std::uint8_t> first;
        for (int repeat = 0; repeat < 20; ++repeat) {
          problem.clear_result();
          ASSERT_TRUE(gemm.run(stream.get()).ok());
          stream.synchronize();
          problem.d().download();
          if (repeat == 0) {
            first = problem.result();
            problem.expect_right(name);
          }
          ASSERT_EQ(first, problem.result()) << name << " repeat " << repeat;
        }
      }
    }
  }
}

struct Refusal {
  GemmStatus::Code code;
  std::vector<std::string> words;
  std::function<void(GemmArguments&)> spoil;
};

TEST(CudaGemm, RefusesMisuseByNameAndLeavesTheOutputAlone) {
  REQUIRE_DEVICE();
  using Code = GemmStatus::Code;
  std::vector<float> host(1 << 16);
  const std::vector<Refusal> refusals{
      {Code::invalid_extent, {"m -1", "negative"}, [](auto& g) { g.m = -1; }},
      {Code::null_operand, {"operand A"}, [](auto& g) { g.a.data = nullptr; }},
      {Code::wrong_device, {"operand A", "host"}, [&](auto& g) { g.a.data = host.data(); }},
      {Code::wrong_device, {"operand B", "host"}, [&](auto& g) { g.b.data = host.data(); }},
      {Code::wrong_device, {"operand D", "host"}, [&](auto& g) { g.d.data = host.data(); }},
      {Code::wrong_device,
       {"operand C", "host"},
       [&](auto& g) {
         g.beta = 1;
         g.c = g.a;
         g.c.data = host.data();
         g.c.row_stride = 128;
       }},
      {Code::wrong_device,
       {"epilogue node 0", "host"},
       [&](auto& g) { g.epilogue.scale_shift(host.data(), nullptr); }},
      {Code::unsupported,
       {"epilogue node 0", "shape"},
       [&](auto& g) {
         g.epilogue.add({g.a.data, f16, {}, {3, 4}, {4, 1}});
       }},
      {Code::misaligned,
       {"operand B", "2 bytes"},
       [](auto& g) { g.b.data = static_cast<const char*>(g.b.data) + 1; }},
      {Code::unsupported, {"float16", "float64"}, [](auto& g) { g.b.dtype = f64; }},
      {Code::unsupported, {"D", "overlaps itself"}, [](auto& g) { g.d.row_stride = 5; }},
      {Code::overlap, {"D overlaps operand A"}, [](auto& g) { g.a.data = g.d.data; }},
      {Code::unsupported, {"complex"}, [](auto& g) { g.a.conjugate = true; }},
      {Code::wrong_device,
       {"list of operand A's rows", "host"},
       [&](auto& g) { g.a.rows.indices.data = host.data(); }},
  };
  for (const Refusal& refusal : refusals) {
    DenseProblem problem({});
    problem.clear_result();
    const auto before = problem.result();
    GemmArguments g = problem.arguments();
    refusal.spoil(g);
    Gemm gemm;
    const GemmStatus status = gemm.initialize(g, nullptr, 0, nullptr);
    EXPECT_EQ(status.code, refusal.code) << status.message;
    for (const auto& word : refusal.words)
      EXPECT_NE(status.message.find(word), std::string::npos) << status.message;
    EXPECT_EQ(gemm.run(nullptr).code, Code::not_initialized);
    problem.d().download();
    EXPECT_EQ(problem.result(), before);
    EXPECT_EQ(Gemm::workspace_size(g), 0u);
    EXPECT_TRUE(gemm_core::cuda::dense_kernel_names(g).empty());
  }
  // The context is as usable as before.
  expect_all_kernels_right({}, 2);
  DenseProblem problem({});
  EXPECT_EQ(Gemm::can_implement(problem.arguments(), {"no such kernel", 8}).code,
            Code::unsupported);
  EXPECT_EQ(Gemm::can_implement(problem.arguments(), {"", 3}).code, Code::unsupported);
  EXPECT_EQ(Gemm().update(problem.arguments(), nullptr).code, Code::not_initialized);
}

TEST(CudaGemm, RefusesASmallWorkspace) {
  REQUIRE_DEVICE();
  DenseProblem problem({.batch = 2});
  GemmArguments g = problem.arguments();
  std::vector<const void*> a{g.a.data, g.a.data};
  g.a.pointers = a.data();
  EXPECT_GT(Gemm::workspace_size(g), 0u);
  EXPECT_EQ(Gemm().initialize(g, nullptr, 0, nullptr).code, GemmStatus::Code::small_workspace);
}

TEST(CudaGemm, UpdatesItsOperands) {
  REQUIRE_DEVICE();
  DenseProblem first({.m = 256, .n = 128, .k = 64}), second({.m = 100, .n = 300, .k = 72});
  second.compute_expected();
  second.clear_result();
  Gemm gemm;
  ASSERT_TRUE(gemm.initialize(first.arguments(), nullptr, 0, nullptr).ok());
  ASSERT_TRUE(gemm.update(second.arguments(), nullptr).ok());
  ASSERT_TRUE(gemm.run(nullptr).ok());
  CUDA_CHECK(cudaDeviceSynchronize());
  second.d().download();
  second.expect_right(gemm.kernel_name());
}

}  // namespace
}  // namespace cuda_tests
