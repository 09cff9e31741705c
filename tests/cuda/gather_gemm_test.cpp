// Products with gathered A and scattered D on the device against loops; operands are small
// integers, so that results are exact.
#include "gemm_core/device/cuda/gather/gather_gemm.hpp"
#include "gemm_core/device/cuda/gemm/gemm.hpp"
#include "tests/cuda/require_device.hpp"
#include "tests/cuda/visitor_case.hpp"

namespace {

using base::DType;
using gemm_core::GemmStatus;
using gemm_core::cuda::GatherGemm;
using gemm_core::cuda::GatherGemmArguments;
using visitor_case::Both;

DType stored(DType compute) { return compute == DType::tf32 ? DType::f32 : compute; }

Both<std::uint8_t> integers(std::int64_t count, DType type, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count * base::bytes(type)));
  for (std::int64_t i = 0; i < count; ++i)
    gemm_case::write(bytes.data(), type, i, static_cast<double>(random() % 5) - 2);
  return Both<std::uint8_t>(std::move(bytes));
}

// Indices with holes and some past the end, of either kind.
struct Indices {
  std::vector<std::int64_t> values;
  Both<std::int32_t> narrow;
  Both<std::int64_t> wide;
  explicit Indices(std::vector<std::int64_t> v)
      : values(v),
        narrow(std::vector<std::int32_t>(v.begin(), v.end())),
        wide(std::vector<std::int64_t>(v.begin(), v.end())) {}
  gemm_core::IndexRef list(DType type) const {
    return {
        type == DType::i64 ? static_cast<const void*>(wide.device.data()) : narrow.device.data(),
        type};
  }
};
std::vector<std::int64_t> random_indices(std::int64_t count, std::int64_t rows, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int64_t> list;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto pick = random() % 8;
    list.push_back(pick == 0   ? -1 - static_cast<std::int64_t>(random() % 3)
                   : pick == 1 ? rows + static_cast<std::int64_t>(random() % 3)
                               : static_cast<std::int64_t>(random()) % rows);
  }
  return list;
}

using RowOf = std::function<std::int64_t(std::int64_t, std::int64_t)>;  // of A, by m and k

// D as it is before, with what the definition says at the rows that `scatter` names.
void expect_product(const GatherGemmArguments& g, const Both<std::uint8_t>& a,
                    const Both<std::uint8_t>& b, Both<std::uint8_t>& d, const RowOf& row_of,
                    const std::vector<std::int64_t>* scatter) {
  const DType type = stored(g.compute);
  const std::vector<std::uint8_t> before = d.host;
  d.upload();
  const auto stream = base::cuda::Stream::create();
  const std::size_t bytes = GatherGemm::workspace_size(g);
  base::cuda::Buffer<std::uint8_t> workspace(bytes);
  GatherGemm gemm;
  const GemmStatus status = gemm.initialize(g, workspace.data(), bytes, stream.get());
  ASSERT_TRUE(status.ok()) << status.message;
  ASSERT_TRUE(gemm.run(stream.get()).ok());
  stream.synchronize();
  d.download();
  std::vector<std::uint8_t> want = before;
  const std::int64_t run = g.a.run == 0 ? g.k : g.a.run;
  for (std::int64_t i = 0; i < g.m; ++i) {
    const std::int64_t to = scatter ? (*scatter)[static_cast<std::size_t>(i)] : i;
    if (scatter && (to < 0 || to >= g.d.rows.limit)) continue;
    for (std::int64_t j = 0; j < g.n; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < g.k; ++k) {
        const std::int64_t row = row_of(i, k);
        if (row < 0 || row >= g.a.rows) continue;
        sum += gemm_case::read(a.host.data(), type, row * g.a.row_stride + k % run) *
               gemm_case::read(b.host.data(), type, j * g.b.column_stride + k);
      }
      gemm_case::write(want.data(), type, to * g.d.row_stride + j, sum * g.alpha);
    }
  }
  for (std::size_t i = 0; i < want.size() / static_cast<std::size_t>(base::bytes(type)); ++i)
    ASSERT_EQ(gemm_case::read(d.host.data(), type, static_cast<std::int64_t>(i)),
              gemm_case::read(want.data(), type, static_cast<std::int64_t>(i)))
        << gemm.kernel_name() << ": m " << g.m << " n " << g.n << " k " << g.k << " run " << run
        << " at row " << i / static_cast<std::size_t>(g.d.row_stride) << ", column "
        << i % static_cast<std::size_t>(g.d.row_stride);
}

struct Shape {
  std::int64_t m, n, k, run, rows;
};

TEST(CudaGatherGemm, GathersRowsWithHolesAndScattersThem) {
  REQUIRE_HOPPER();
  const Shape shapes[] = {{1, 8, 8, 0, 1},
                          {300, 40, 200, 0, 77},
                          {130, 40, 64 * 27, 64, 300},
                          {257, 128, 64 * 9, 64, 300},
                          {400, 264, 64 * 3, 0, 500},
                          {129, 136, 128 * 5, 128, 60},
                          {300, 512, 128, 0, 1000}};
  unsigned seed = 1;
  for (const DType compute : {DType::f16, DType::bf16, DType::tf32}) {
    const DType type = stored(compute);
    for (const Shape& shape : shapes) {
      for (const DType kind : {DType::i32, DType::i64}) {
        GatherGemmArguments g{.m = shape.m, .n = shape.n, .k = shape.k, .compute = compute};
        const std::int64_t run = shape.run == 0 ? g.k : shape.run, taps = g.k / run;
        const std::int64_t pitch = (run + 15) / 8 * 8;
        const Both<std::uint8_t> a = integers(shape.rows * pitch, type, ++seed);
        const Both<std::uint8_t> b = integers(g.n * g.k, type, ++seed);
        const Indices index(random_indices(g.m * taps, shape.rows, ++seed));
        // Every second row of D, in reverse; some are not stored.
        std::vector<std::int64_t> to;
        for (std::int64_t i = 0; i < g.m; ++i) to.push_back(i % 7 == 3 ? -1 : 2 * (g.m - 1 - i));
        to[0] = 2 * g.m + 5;
        const Indices scatter(to);
        for (const bool scatters : {false, true}) {
          Both<std::uint8_t> d = integers(2 * g.m * (g.n + 8), type, 99);
          g.a.data = a.device.data();
          g.a.rows = shape.rows;
          g.a.row_stride = pitch;
          g.a.index = index.list(kind);
          g.a.index_count = g.m * taps;
          g.a.run = shape.run;
          g.a.row_slot_stride = taps;
          g.a.tap_slot_stride = 1;
          g.b.data = b.device.data();
          g.b.dtype = g.d.dtype = type;
          g.b.row_stride = 1;
          g.b.column_stride = g.k;
          g.d.data = d.data();
          g.d.row_stride = g.n + 8;
          g.d.rows = {};
          g.alpha = 0.5;
          if (scatters) g.d.rows = {scatter.list(kind), 2 * g.m};
          expect_product(
              g, a, b, d,
              [&](std::int64_t m, std::int64_t k) {
                return index.values[static_cast<std::size_t>(m * taps + k / run)];
              },
              scatters ? &to : nullptr);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// The sizes of CUTLASS's example 59 with gathered and scattered rows: a 3 x 3 x 3 convolution of
// 6 x 4 x 4 cells without padding, 64 channels to 128, tf32; the buffers run backwards.
TEST(CudaGatherGemm, IsTheGatherScatterConvolutionOfExample59) {
  REQUIRE_HOPPER();
  constexpr std::int64_t kN = 12, kD = 6, kH = 4, kW = 4, kT = 3, kZ = 4, kP = 2, kQ = 2, kC = 64,
                         kK = 128;
  constexpr std::int64_t kCells = kN * kD * kH * kW, kOut = kN * kZ * kP * kQ;
  const Both<std::uint8_t> x = integers(kCells * kC, DType::f32, 1),
                           w = integers(kK * kT * kT * kT * kC, DType::f32, 2);
  std::vector<std::int64_t> from, to;
  for (std::int64_t i = 0; i < kCells; ++i) from.push_back(kCells - 1 - i);
  for (std::int64_t i = 0; i < kOut; ++i) to.push_back(kOut - 1 - i);
  const Indices gather(from), scatter(to);
  Both<std::uint8_t> d = integers(kOut * kK, DType::f32, 3);
  // Rows (q, p, z, n), k (c, s, r, t); slots are cells.
  using layout::IntTree;
  using layout::LayoutTree;
  const IntTree shape({IntTree({kQ, kP, kZ, kN}), IntTree({kC, kT, kT, kT})});
  const LayoutTree slots(shape, {{1, kW, kH * kW, kD * kH * kW}, {0, 1, kW, kH * kW}});
  const LayoutTree dense(shape, {{0, 0, 0, 0}, {1, 0, 0, 0}});
  const auto layout_a =
      layout::make_gather_layout(slots, dense, gather.narrow.device.data(), kCells, kC);
  GatherGemmArguments g{.m = kOut, .n = kK, .k = kC * kT * kT * kT, .compute = DType::tf32};
  gemm_core::cuda::set_layout(layout_a, g.m, g.k, g.a);
  EXPECT_EQ(g.a.run, kC);
  g.a.data = x.device.data();
  g.a.rows = kCells;
  g.a.index = gather.list(DType::i32);
  g.a.index_count = kCells;
  g.b.data = w.device.data();
  g.b.row_stride = 1;
  g.b.column_stride = g.k;
  g.d.data = d.data();
  g.d.row_stride = kK;
  g.d.rows = {scatter.list(DType::i32), kOut};
  expect_product(
      g, x, w, d,
      [&](std::int64_t m, std::int64_t k) {
        const std::int64_t q = m % kQ, p = m / kQ % kP, z = m / (kQ * kP) % kZ,
                           n = m / (kQ * kP * kZ);
        const std::int64_t s = k / kC % kT, r = k / (kC * kT) % kT, t = k / (kC * kT * kT);
        const std::int64_t cell = ((n * kD + z + t) * kH + p + r) * kW + q + s;
        return from[static_cast<std::size_t>(cell)];
      },
      &to);
}

TEST(CudaGatherGemm, RunsWithoutAnIndexAndOnNothing) {
  REQUIRE_HOPPER();
  GatherGemmArguments g{.m = 200, .n = 64, .k = 128, .compute = DType::f16};
  const Both<std::uint8_t> a = integers(200 * 128, DType::f16, 1),
                           b = integers(64 * 128, DType::f16, 2);
  Both<std::uint8_t> d = integers(200 * 64, DType::f16, 3);
  g.a.data = a.device.data();
  g.a.rows = 200;
  g.a.row_stride = 128;
  g.b = {b.device.data(), DType::f16, 1, 128};
  g.d = {d.data(), DType::f16, 64, 1};
  expect_product(
      g, a, b, d, [](std::int64_t m, std::int64_t) { return m; }, nullptr);
  g.m = 0;
  GatherGemm gemm;
  ASSERT_TRUE(gemm.initialize(g, nullptr, 0, nullptr).ok());
  EXPECT_TRUE(gemm.run(nullptr).ok());
  EXPECT_EQ(gemm.kernel_name(), "none");
}

// Lists on any side, of either kind, with holes, against loops over the same lists.
TEST(CudaGatherGemm, ListsOnEverySideOfAGemm) {
  REQUIRE_DEVICE();
  const std::int64_t m = 71, n = 67, k = 35, extra = 9;
  unsigned seed = 1;
  for (const DType type : {DType::f32, DType::f16, DType::f64, DType::i8}) {
    const DType out = type == DType::i8 ? DType::i32 : type;
    for (int sides = 1; sides < 32; ++sides) {
      const DType kind = sides % 2 ? DType::i32 : DType::i64;
      const Both<std::uint8_t> a = integers((m + extra) * (k + extra), type, ++seed),
                               b = integers((k + extra) * (n + extra), type, ++seed),
                               c = integers((m + extra) * (n + extra), out, ++seed);
      Both<std::uint8_t> d = integers((m + extra) * (n + extra), out, ++seed);
      const Indices rows(random_indices(m, m + extra, ++seed)),
          depth(random_indices(k, k + extra, ++seed)),
          columns(random_indices(n, n + extra, ++seed));
      // Distinct places of D, some of them none.
      const auto places = [&](std::int64_t count) {
        std::vector<std::int64_t> list;
        for (std::int64_t i = 0; i < count; ++i) list.push_back(i % 5 == 2 ? -1 : count - 1 - i);
        return list;
      };
      const Indices to_rows(places(m)), to_columns(places(n));
      gemm_core::GemmArguments g{.m = m, .n = n, .k = k};
      g.compute = type;
      g.a = {a.device.data(), type, k + extra, 1};
      g.b = {b.device.data(), type, n + extra, 1};
      g.c = {c.device.data(), out, n + extra, 1};
      g.d = {d.data(), out, n + extra, 1};
      g.beta = 1;
      const auto at = [](bool listed, const Indices& list, std::int64_t i, std::int64_t limit) {
        const std::int64_t x = listed ? list.values[static_cast<std::size_t>(i)] : i;
        return x >= 0 && x < limit ? x : -1;
      };
      const bool by_row = sides & 1, by_k = sides & 2, by_column = sides & 4, to_row = sides & 8,
                 to_column = sides & 16;
      if (by_row) g.a.rows = g.c.rows = {rows.list(kind), m + extra};
      if (by_k) g.a.columns = g.b.rows = {depth.list(kind), k + extra};
      if (by_column) g.b.columns = {columns.list(kind), n + extra};
      if (to_row) g.d.rows = {to_rows.list(kind), m};
      if (to_column) g.d.columns = {to_columns.list(kind), n};
      std::vector<std::uint8_t> want = d.host;
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          const std::int64_t row = at(by_row, rows, i, m + extra),
                             column = at(by_column, columns, j, n + extra);
          double sum = row < 0 ? 0 : gemm_case::read(c.host.data(), out, row * (n + extra) + j);
          for (std::int64_t x = 0; x < k; ++x) {
            const std::int64_t z = at(by_k, depth, x, k + extra);
            if (row < 0 || z < 0 || column < 0) continue;
            sum += gemm_case::read(a.host.data(), type, row * (k + extra) + z) *
                   gemm_case::read(b.host.data(), type, z * (n + extra) + column);
          }
          const std::int64_t to = at(to_row, to_rows, i, m),
                             across = at(to_column, to_columns, j, n);
          if (to >= 0 && across >= 0)
            gemm_case::write(want.data(), out, to * (n + extra) + across, sum);
        }
      }
      const auto stream = base::cuda::Stream::create();
      gemm_core::cuda::Gemm gemm;
      const GemmStatus status = gemm.initialize(g, nullptr, 0, stream.get());
      ASSERT_TRUE(status.ok()) << status.message;
      EXPECT_EQ(gemm.kernel_name(), "simt_lists");
      ASSERT_TRUE(gemm.run(stream.get()).ok());
      stream.synchronize();
      d.download();
      ASSERT_EQ(d.host, want) << base::name(type) << ", sides " << sides;
    }
  }
  gemm_core::GemmArguments g{.m = 1, .n = 1, .k = 1};
  const Both<std::uint8_t> one = integers(4, DType::f32, 1);
  const std::int32_t host = 0;
  g.a = g.b = {one.device.data(), DType::f32, 1, 1};
  g.d.data = const_cast<std::uint8_t*>(one.device.data()) + 4;
  g.a.rows = {{&host, DType::i32}, 1};
  EXPECT_NE(gemm_core::cuda::Gemm::can_implement(g).message.find("host memory"), std::string::npos);
}

TEST(CudaGatherGemm, RefusesWhatItCannotDo) {
  REQUIRE_HOPPER();
  const Both<std::uint8_t> a = integers(100 * 128, DType::f16, 1),
                           b = integers(64 * 128, DType::f16, 2);
  Both<std::uint8_t> d = integers(100 * 64, DType::f16, 3);
  const Indices index(std::vector<std::int64_t>(100, 0));
  GatherGemmArguments good{.m = 100, .n = 64, .k = 128, .compute = DType::f16};
  good.a.data = a.device.data();
  good.a.rows = 100;
  good.a.row_stride = 128;
  good.a.index = index.list(DType::i32);
  good.a.index_count = 100;
  good.b = {b.device.data(), DType::f16, 1, 128};
  good.d = {d.data(), DType::f16, 64, 1};
  ASSERT_TRUE(GatherGemm::can_implement(good).ok()) << GatherGemm::can_implement(good).message;
  const auto expect = [&](const char* part, auto change) {
    GatherGemmArguments g = good;
    change(g);
    const GemmStatus status = GatherGemm::can_implement(g);
    EXPECT_FALSE(status.ok()) << part;
    EXPECT_NE(status.message.find(part), std::string::npos) << status.message;
  };
  expect("no multiple of the run", [](auto& g) { g.a.run = 96; });
  expect("no multiple of 128 bytes", [](auto& g) { g.a.run = 32; });
  expect("not aligned", [](auto& g) { g.a.row_stride = 129; });
  expect("operand B", [](auto& g) { g.b.column_stride = 130; });
  expect("operand D", [](auto& g) { g.n = 63; });
  expect("slots from 0 to 99, the index has 98", [](auto& g) { g.a.index_count = 98; });
  expect("index buffer of float16", [](auto& g) { g.a.index.dtype = DType::f16; });
  expect("host memory", [&](auto& g) { g.a.index.data = index.values.data(); });
  expect("operand A has no data", [](auto& g) { g.a.data = nullptr; });
  expect("k = 0", [](auto& g) { g.k = 0; });
  expect("float64", [](auto& g) { g.compute = DType::f64; });
  expect("row slots, m is 100", [](auto& g) { g.a.row_slots = {1, 2}; });
}

}  // namespace
