#include "tests/cuda/visitor_case.hpp"

namespace visitor_case {
namespace {

Both<std::uint8_t> small_integers(std::int64_t count, DType type, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count * base::bytes(type)));
  for (std::int64_t i = 0; i < count; ++i)
    gemm_case::write(bytes.data(), type, i, static_cast<double>(random() % 7) - 3);
  return Both<std::uint8_t>(std::move(bytes));
}

float rounded_to_type(float v, DType type) {
  return type == DType::f16    ? static_cast<float>(base::half_t(v))
         : type == DType::bf16 ? static_cast<float>(base::bf16_t(v))
                               : v;
}

}  // namespace

Setting::Setting(std::int64_t columns, DType operands, DType results, std::int64_t batches)
    : n(columns),
      batch(batches),
      type(operands),
      out(results),
      a(small_integers(batches * m * k, operands, 1)),
      b(small_integers(batches * n * k, operands, 2)),
      d(std::vector<std::uint8_t>(static_cast<std::size_t>(batches * m * n * base::bytes(results)),
                                  0x5a)),
      row(random_both<float>(n, 3)),
      column(random_both<float>(m, 4)),
      column2(random_both<float>(m, 5)),
      aux(random_both<float>(m * n, 6)),
      c(random_both<float>(m * n, 7)),
      half(random_both<base::half_t>(m * n, 8)) {
  for (std::int64_t l = 0; l < batch; ++l) {
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t x = 0; x < k; ++x)
          sum += gemm_case::read(a.host.data(), type, (l * m + i) * k + x) *
                 gemm_case::read(b.host.data(), type, (l * n + j) * k + x);
        plain.push_back(static_cast<float>(sum));
      }
    }
  }
}

GemmArguments Setting::arguments() const {
  GemmArguments g{.m = m, .n = n, .k = k, .batch = batch};
  g.compute = type;
  g.a.data = a.device.data();
  g.a.dtype = g.b.dtype = type;
  g.a.row_stride = k;
  g.a.batch_stride = m * k;
  g.b.data = b.device.data();
  g.b.row_stride = 1;
  g.b.column_stride = k;
  g.b.batch_stride = n * k;
  g.d.data = const_cast<std::uint8_t*>(d.device.data());
  g.d.dtype = out;
  g.d.row_stride = n;
  g.d.batch_stride = m * n;
  return g;
}

void Setting::run(const GemmArguments& g, const RuntimeGraph& graph, VisitorPath path,
                  std::string* kernel) {
  const auto stream = base::cuda::Stream::create();
  const std::size_t bytes = VisitorGemm::workspace_size(g, graph, path);
  base::cuda::Buffer<std::uint8_t> workspace(bytes);
  VisitorGemm gemm;
  GemmStatus status = gemm.initialize(g, graph, workspace.data(), bytes, stream.get(), path);
  ASSERT_TRUE(status.ok()) << status.message;
  ASSERT_TRUE(gemm.run(stream.get()).ok());
  stream.synchronize();
  d.download();
  if (kernel != nullptr) *kernel = gemm.kernel_name();
}

void expect_values(Setting& s, const RuntimeGraph& graph, const Expected& expected, float tolerance,
                   const std::function<void()>& check_rest) {
  const GemmArguments g = s.arguments();
  for (const VisitorPath path :
       {VisitorPath::fastest, VisitorPath::compiled_128, VisitorPath::compiled_256,
        VisitorPath::interpreted, VisitorPath::separate}) {
    if (path != VisitorPath::fastest && !VisitorGemm::can_implement(g, graph, path).ok()) continue;
    std::fill(s.d.host.begin(), s.d.host.end(), std::uint8_t{0x5a});
    s.d.upload();
    std::string kernel;
    s.run(g, graph, path, &kernel);
    if (testing::Test::HasFatalFailure()) return;
    const double step = tolerance == 0 ? 0 : 2 * gemm_case::unit_roundoff(s.out);
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j) {
        const float want = rounded_to_type(expected(i, j, s.plain[s.at(i, j)]), s.out);
        const float got = s.result(i, j);
        if ((std::isnan(want) && std::isnan(got)) || want == got) continue;  // infinities too
        ASSERT_LE(std::fabs(got - want), tolerance * (1 + std::fabs(want)) + step * std::fabs(want))
            << kernel << ", n " << s.n << " at " << i << ", " << j << ": " << got << ", expected "
            << want << " of " << s.plain[s.at(i, j)];
      }
    }
    SCOPED_TRACE(kernel);
    if (check_rest) check_rest();
    if (testing::Test::HasFatalFailure()) return;
  }
}

void for_each_setting(const std::function<void(Setting&)>& action) {
  Setting trees(408, DType::f16, DType::f16), brains(136, DType::bf16, DType::bf16),
      sums(401, DType::f16, DType::f32);
  for (Setting* s : {&trees, &brains, &sums}) {
    action(*s);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace visitor_case
