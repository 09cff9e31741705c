// Results of several products in one call against each other: of groups, and of an array of
// pointers. Their bytes may interleave (slices of one matrix), their elements may not meet.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "gemm_core/base/error.hpp"
#include "gemm_core/device/gemm_checks.hpp"
#include "gemm_core/device/operand_extent.hpp"

namespace gemm_core {
namespace {

using Code = GemmStatus::Code;

struct Matrix {
  std::size_t product = 0;  // the group or batch that it belongs to
  std::int64_t rows = 0, columns = 0, row_stride = 0, column_stride = 0;
  base::DType dtype = base::DType::f32;
  bool has_lists = false;
  std::intptr_t at = 0;
  ByteSpan span;
};

template <class Operand>
Matrix matrix_of(std::size_t product, const Operand& o, const void* data, std::int64_t rows,
                 std::int64_t columns) {
  Extent e;
  Operand one = o;
  one.pointers = nullptr;
  extent_of(one, axes_of(one, rows, columns, 1), e);
  Matrix m{.product = product, .rows = rows, .columns = columns};
  m.row_stride = rows > 1 ? o.row_stride : 0;  // an axis of one element steps nowhere
  m.column_stride = columns > 1 ? o.column_stride : 0;
  m.dtype = o.dtype;
  m.has_lists = o.rows.indices || o.columns.indices;
  m.at = reinterpret_cast<std::intptr_t>(data);
  m.span = {m.at + e.low, m.at + e.high};
  return m;
}

// Steps of one axis that lead from one matrix to the other: less than `back` down, `forth` up.
struct Steps {
  std::int64_t stride, back, forth;
  Steps rising() const { return stride < 0 ? Steps{-stride, forth, back} : *this; }
};

bool reaches(const Steps& s, std::int64_t distance) {
  if (distance == 0) return true;
  if (s.stride == 0 || distance % s.stride != 0) return false;
  const std::int64_t step = distance / s.stride;
  return -s.back < step && step < s.forth;
}

// Whether two matrices that have no element twice share one. Of matrices with other strides or
// lists that is known only where they begin at one address.
bool share_an_element(const Matrix& x, const Matrix& y) {
  if (!x.span.meets(y.span)) return false;
  if (x.has_lists || y.has_lists) return false;
  if (x.at == y.at) return true;
  // An axis that one of them steps along has the stride of that one.
  const auto stride_of = [](std::int64_t one, std::int64_t other) { return one ? one : other; };
  const std::int64_t row_stride = stride_of(x.row_stride, y.row_stride),
                     column_stride = stride_of(x.column_stride, y.column_stride);
  if (x.dtype != y.dtype || stride_of(y.row_stride, x.row_stride) != row_stride ||
      stride_of(y.column_stride, x.column_stride) != column_stride)
    return false;
  const std::int64_t distance = (y.at - x.at) / base::bytes(x.dtype);
  Steps outer = Steps{row_stride, y.rows, x.rows}.rising(),
        inner = Steps{column_stride, y.columns, x.columns}.rising();
  if (outer.stride < inner.stride) std::swap(outer, inner);
  if (outer.stride == 0) return false;
  // Steps of the outer axis that leave what the inner one can bridge: two, unless one matrix is a
  // row and the other a column.
  const std::int64_t first = (distance - (inner.forth - 1) * inner.stride) / outer.stride - 1,
                     last = (distance + (inner.back - 1) * inner.stride) / outer.stride + 1;
  for (std::int64_t step = std::max(first, 1 - outer.back); step <= std::min(last, outer.forth - 1);
       ++step) {
    if (reaches(inner, distance - step * outer.stride)) return true;
  }
  return false;
}

// Two of `written` that share an element. Looks at 2^20 pairs whose bytes meet, at most.
std::optional<std::pair<std::size_t, std::size_t>> meeting(std::vector<Matrix> written) {
  constexpr std::int64_t kMostPairs = std::int64_t{1} << 20;
  std::sort(written.begin(), written.end(),
            [](const Matrix& x, const Matrix& y) { return x.span.from < y.span.from; });
  std::vector<const Matrix*> open;
  std::int64_t pairs = 0;
  for (const Matrix& x : written) {
    std::erase_if(open, [&](const Matrix* y) { return y->span.to <= x.span.from; });
    for (const Matrix* y : open) {
      if (share_an_element(*y, x)) return std::minmax(x.product, y->product);
      if (++pairs == kMostPairs) return std::nullopt;
    }
    open.push_back(&x);
  }
  return std::nullopt;
}

// `written` sorted by where they begin, for questions about other matrices.
class Written {
 public:
  explicit Written(std::vector<Matrix> all) : all_(std::move(all)) {
    std::sort(all_.begin(), all_.end(),
              [](const Matrix& x, const Matrix& y) { return x.span.from < y.span.from; });
    std::intptr_t end = 0;
    for (const Matrix& x : all_) ends_.push_back(end = std::max(end, x.span.to));
  }
  // A matrix of another product that meets `x` by this test.
  template <class Test>
  const Matrix* meeting(const Matrix& x, const Test& test) const {
    auto i = static_cast<std::size_t>(
        std::lower_bound(all_.begin(), all_.end(), x.span.to,
                         [](const Matrix& y, std::intptr_t to) { return y.span.from < to; }) -
        all_.begin());
    for (; i > 0 && ends_[i - 1] > x.span.from; --i) {
      const Matrix& y = all_[i - 1];
      if (y.product != x.product && y.span.meets(x.span) && test(y)) return &y;
    }
    return nullptr;
  }

 private:
  std::vector<Matrix> all_;
  std::vector<std::intptr_t> ends_;  // how far any up to here reaches
};

GemmStatus refuse_pair(std::size_t first, std::size_t second, const char* operand) {
  return {Code::overlap, base::concat("grouped gemm: operand D of group ", first,
                                      " overlaps operand ", operand, " of group ", second)};
}

bool is_empty(const GemmArguments& g) { return g.m == 0 || g.n == 0 || g.batch == 0; }

}  // namespace

GemmStatus check_batches_apart(const GemmArguments& g) {
  if (g.d.pointers == nullptr || is_empty(g)) return {};
  std::vector<Matrix> written;
  for (std::int64_t l = 0; l < g.batch; ++l)
    written.push_back(matrix_of(static_cast<std::size_t>(l), g.d, g.d.pointers[l], g.m, g.n));
  if (const auto pair = meeting(std::move(written)))
    return {Code::overlap, base::concat("gemm: operand D of batch ", pair->first,
                                        " overlaps that of batch ", pair->second)};
  return {};
}

GemmStatus check_groups_apart(std::span<const GemmArguments> groups) {
  std::vector<Matrix> written;
  std::unordered_set<const TileEpilogue*> visitors;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const GemmArguments& g = groups[i];
    if (g.visitor && !visitors.insert(g.visitor).second)
      return {Code::unsupported,
              base::concat("grouped gemm: the visitor of group ", i, " serves another group too")};
    if (!is_empty(g))
      written.push_back(matrix_of(i, g.d, g.d.pointers ? g.d.pointers[0] : g.d.data, g.m, g.n));
  }
  if (const auto pair = meeting(written)) return refuse_pair(pair->first, pair->second, "D");
  const Written results(std::move(written));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const GemmArguments& g = groups[i];
    if (is_empty(g)) continue;
    const auto data = [](const GemmOperand& o) { return o.pointers ? o.pointers[0] : o.data; };
    const auto any = [](const Matrix&) { return true; };
    if (g.k > 0) {
      const Matrix a = matrix_of(i, g.a, data(g.a), g.m, columns_of_a(g)),
                   b = matrix_of(i, g.b, data(g.b), g.k, g.n);
      if (const Matrix* d = results.meeting(a, any)) return refuse_pair(d->product, i, "A");
      if (const Matrix* d = results.meeting(b, any)) return refuse_pair(d->product, i, "B");
    }
    if (!has_c(g)) continue;
    const Matrix c = matrix_of(i, g.c, data(g.c), g.m, g.n);
    const Matrix* d = results.meeting(c, [&](const Matrix& x) { return share_an_element(x, c); });
    if (d != nullptr) return refuse_pair(d->product, i, "C");
  }
  return {};
}

}  // namespace gemm_core
