#include "tests/cuda/dense_case.hpp"

namespace cuda_tests {
namespace {

constexpr std::size_t kSlack = 64;

std::int64_t line(std::int64_t count, DType type, bool aligned) {
  if (!aligned) return count + 3;
  const std::int64_t per_line = 128 / base::bits(type) == 0 ? 1 : 128 / base::bits(type);
  return (count + per_line - 1) / per_line * per_line;
}

}  // namespace

DenseMatrixCase::DenseMatrixCase(std::int64_t r, std::int64_t c, DType t, bool row_major,
                                 bool aligned, std::int64_t batch, std::mt19937& random)
    : rows(r), columns(c), type(t) {
  // Empty matrices have strides too.
  const std::int64_t length = line(std::max<std::int64_t>(1, row_major ? c : r), t, aligned);
  row_stride = row_major ? length : 1;
  column_stride = row_major ? 1 : length;
  first = aligned || base::bits(t) < 8 ? 0 : 1;
  batch_stride = length * std::max<std::int64_t>(1, row_major ? r : c);
  batch_stride = (batch_stride + 47) / 8 * 8;  // whole bytes for every type
  if (aligned) batch_stride = (batch_stride + 15) / 16 * 16;
  const std::int64_t count = first + batch * batch_stride;
  host.resize(static_cast<std::size_t>(base::bytes(t, count)) + kSlack);
  if (base::bits(t) < 8 || t == DType::u8) {
    for (auto& byte : host) byte = static_cast<std::uint8_t>(random());
  } else {
    std::normal_distribution<double> normal;
    for (std::int64_t i = 0; i < count; ++i) {
      const bool integer = t == DType::i8 || t == DType::i32;
      gemm_case::write(
          host.data(), t, i,
          integer ? static_cast<double>(static_cast<int>(random() % 256) - 128) : normal(random));
    }
  }
  device = base::cuda::Buffer<std::uint8_t>(host.size());
}

void DenseMatrixCase::upload() {
  CUDA_CHECK(cudaMemcpy(device.data(), host.data(), host.size(), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaDeviceSynchronize());  // streams of their own do not wait for the copy
}
void DenseMatrixCase::download() {
  CUDA_CHECK(cudaMemcpy(host.data(), device.data(), host.size(), cudaMemcpyDeviceToHost));
}

std::string describe(const DenseCase& c) {
  return base::concat("m ", c.m, " n ", c.n, " k ", c.k, " batch ", c.batch, " A ",
                      c.a_rows ? "rows" : "columns", " B ", c.b_rows ? "rows" : "columns", " C ",
                      c.c_rows ? "rows" : "columns", " D ", c.d_rows ? "rows" : "columns",
                      c.aligned ? " aligned " : " unaligned ", base::name(c.types.a), " x ",
                      base::name(c.types.b), " -> ", base::name(c.types.d), " as ",
                      base::name(c.types.compute), " alpha ", c.alpha, " beta ", c.beta);
}

DenseProblem::DenseProblem(const DenseCase& c, unsigned seed)
    : case_(c),
      random_(seed),
      a_(c.m, c.k, c.types.a, c.a_rows, c.aligned, c.batch, random_),
      b_(c.k, c.n, c.types.b, c.b_rows, c.aligned, c.batch, random_),
      c_(c.m, c.n, c.types.c, c.c_rows, c.aligned, c.batch, random_),
      d_(c.m, c.n, c.types.d, c.d_rows, c.aligned, c.batch, random_) {
  if (c.types.compute == DType::tf32) {  // so that rounding towards zero and to nearest agree
    for (auto* x : {&a_, &b_}) {
      auto* values = reinterpret_cast<float*>(x->host.data());
      if (x->type != DType::f32) continue;
      for (std::size_t i = 0; i < x->host.size() / 4; ++i)
        values[i] = base::round_to_tf32(values[i]);
    }
  }
  a_.upload();
  b_.upload();
  c_.upload();
  untouched_ = d_.host;
}

GemmArguments DenseProblem::arguments() const {
  GemmArguments g{.m = case_.m, .n = case_.n, .k = case_.k, .batch = case_.batch};
  g.a = a_.operand<gemm_core::GemmOperand>(true);
  g.b = b_.operand<gemm_core::GemmOperand>(true);
  if (case_.beta != 0) g.c = c_.operand<gemm_core::GemmOperand>(true);
  g.d = d_.operand<gemm_core::GemmOutput>(true);
  g.compute = case_.types.compute;
  g.alpha = case_.alpha;
  g.beta = case_.beta;
  g.accumulation = case_.accumulation;
  return g;
}

void DenseProblem::compute_expected(const std::function<void(GemmArguments&)>& change) {
  GemmArguments g = arguments();
  g.a = a_.operand<gemm_core::GemmOperand>(false);
  g.b = b_.operand<gemm_core::GemmOperand>(false);
  if (case_.beta != 0) g.c = c_.operand<gemm_core::GemmOperand>(false);
  expected_ = untouched_;
  g.d.data = expected_.data() + d_.first * base::bytes(d_.type);
  if (change) change(g);
  const GemmStatus status = gemm_case::run(g);
  ASSERT_TRUE(status.ok()) << describe(case_) << ": " << status.message;
  // The same with magnitudes, in fp32, [batch][m][n].
  std::vector<float> a(static_cast<std::size_t>(case_.m * case_.k)),
      b(static_cast<std::size_t>(case_.k * case_.n));
  magnitudes_.assign(static_cast<std::size_t>(case_.batch * case_.m * case_.n), 0.f);
  if (magnitudes_.empty()) return;
  for (std::int64_t l = 0; l < case_.batch; ++l) {
    for (std::int64_t i = 0; i < case_.m; ++i) {
      for (std::int64_t j = 0; j < case_.k; ++j)
        a[static_cast<std::size_t>(i * case_.k + j)] = static_cast<float>(std::fabs(a_(i, j, l)));
    }
    for (std::int64_t i = 0; i < case_.k; ++i) {
      for (std::int64_t j = 0; j < case_.n; ++j)
        b[static_cast<std::size_t>(i * case_.n + j)] = static_cast<float>(std::fabs(b_(i, j, l)));
    }
    GemmArguments sum{.m = case_.m, .n = case_.n, .k = case_.k};
    sum.a = {a.data(), DType::f32, case_.k, 1};
    sum.b = {b.data(), DType::f32, case_.n, 1};
    sum.d = {magnitudes_.data() + l * case_.m * case_.n, DType::f32, case_.n, 1};
    ASSERT_TRUE(gemm_case::run(sum).ok());
  }
}

void DenseProblem::clear_result() {
  d_.host = untouched_;
  d_.upload();
}

GemmStatus DenseProblem::run(const GemmArguments& g, const gemm_core::cuda::GemmPlan& plan) {
  const auto stream = base::cuda::Stream::create();
  const std::size_t bytes = gemm_core::cuda::Gemm::workspace_size(g, plan);
  base::cuda::Buffer<std::uint8_t> workspace(bytes);
  gemm_core::cuda::Gemm gemm;
  if (auto s = gemm.initialize(g, workspace.data(), bytes, stream.get(), plan); !s.ok()) return s;
  if (auto s = gemm.run(stream.get()); !s.ok()) return s;
  stream.synchronize();
  d_.download();
  return {};
}

// Of a sum, as a share of the sum of magnitudes. Tensor cores add the products of an instruction
// and the sum so far with their last bit cut off, fp32 sums of `k` products otherwise rounded each;
// the CPU's chains of 256.
double DenseProblem::sum_tolerance(const std::string& kernel) const {
  const auto k = static_cast<double>(case_.k);
  const double cpu = std::min(256.0, k) + k / 256 + 4;
  const double u = std::ldexp(1.0, -24);
  if (case_.types.compute == DType::f64) return 2 * (k + 4) * std::ldexp(1.0, -53);
  if (case_.types.compute == DType::i8) return 0;
  if (kernel.rfind("e4m3", 0) == 0 || kernel.rfind("e5m2", 0) == 0) {
    // 13 bits behind the leading one, 32 products an instruction; promoted: four of them a chain.
    const double steps = kernel.find("promoted") != std::string::npos ? 4 : k / 32 + 1;
    return cpu * u + steps * std::ldexp(1.0, -13) + k / 128 * u;
  }
  if (kernel.rfind("simt", 0) == 0) return (cpu + k + 4) * u;
  return (cpu + 2 * (k / 8 + 4)) * u;
}

void DenseProblem::expect_right(const std::string& kernel, double gain) {
  const double share = sum_tolerance(kernel), unit = gemm_case::unit_roundoff(d_.type);
  const auto index_of = [&](std::int64_t i, std::int64_t j, std::int64_t l) {
    return d_.at(i, j, l);
  };
  std::vector<bool> inside(d_.host.size() / static_cast<std::size_t>(base::bytes(d_.type)));
  for (std::int64_t l = 0; l < case_.batch; ++l) {
    for (std::int64_t i = 0; i < case_.m; ++i) {
      for (std::int64_t j = 0; j < case_.n; ++j) {
        inside[static_cast<std::size_t>(index_of(i, j, l))] = true;
        const double got = d_(i, j, l);
        const double expected = gemm_case::read(expected_.data(), d_.type, index_of(i, j, l));
        const double magnitude =
            magnitudes_[static_cast<std::size_t>((l * case_.m + i) * case_.n + j)];
        const double addend = case_.beta != 0 ? std::fabs(case_.beta * c_(i, j, l)) : 0;
        double tolerance = gain * (std::fabs(case_.alpha) * magnitude * share +
                                   8 * std::ldexp(1.0, -24) * (addend + std::fabs(expected)));
        if (case_.types.d == DType::i32) tolerance = 0;
        if (case_.types.d == DType::i8) tolerance += 1.01;  // rounded to the other side
        // Each side rounds once: two steps of the result's type.
        if (case_.types.d != DType::f64 && case_.types.d != DType::i32)
          tolerance += 2 * unit * std::fabs(expected) + 2 * gemm_case::smallest_half_step(d_.type);
        if (case_.types.d == DType::f64) tolerance += 8 * unit * (std::fabs(expected) + addend);
        ASSERT_LE(std::fabs(got - expected), tolerance)
            << kernel << ": " << describe(case_) << " at " << l << ", " << i << ", " << j
            << ": got " << got << ", expected " << expected;
      }
    }
  }
  const auto size = static_cast<std::size_t>(base::bytes(d_.type));
  for (std::size_t i = 0; i < inside.size(); ++i) {
    if (inside[i]) continue;
    ASSERT_TRUE(std::equal(d_.host.begin() + static_cast<long>(i * size),
                           d_.host.begin() + static_cast<long>((i + 1) * size),
                           untouched_.begin() + static_cast<long>(i * size)))
        << kernel << ": " << describe(case_) << " wrote element " << i << " beside D";
  }
}

void expect_all_kernels_right(const DenseCase& c, unsigned seed) {
  DenseProblem problem(c, seed);
  problem.compute_expected();
  const GemmArguments g = problem.arguments();
  const auto names = gemm_core::cuda::dense_kernel_names(g);
  const bool is_empty = c.m == 0 || c.n == 0 || c.batch == 0;
  ASSERT_EQ(names.empty(), is_empty)
      << describe(c) << ": " << gemm_core::cuda::Gemm::can_implement(g).message;
  for (const std::string& name : names) {
    problem.clear_result();
    const GemmStatus status = problem.run(g, {name, 4});
    ASSERT_TRUE(status.ok()) << name << ": " << describe(c) << ": " << status.message;
    problem.expect_right(name);
    if (testing::Test::HasFatalFailure()) return;
  }
  if (is_empty) {
    problem.clear_result();
    ASSERT_TRUE(problem.run(g).ok()) << describe(c);
    problem.expect_right("none");
  }
}

}  // namespace cuda_tests
