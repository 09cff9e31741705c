#include <algorithm>
#include <cmath>

#include "gemm_core/base/parallel.hpp"
#include "sparseconv/cpu/gradients.hpp"
#include "sparseconv/hash_map.hpp"

namespace sparseconv::cpu {
namespace {

constexpr std::int64_t kGrain = 1024;  // points

// Up to eight rows with weights that sum to 1.
struct Blend {
  int count = 0;
  std::array<std::int32_t, 8> row{};
  std::array<float, 8> weight{};
};

class PointRows {
 public:
  explicit PointRows(const DevoxelizeArguments& arguments)
      : a_(arguments), cursor_(arguments.coordinates->hash_map()) {}

  Blend operator()(std::int64_t point) {
    const FrameInput& frame = *a_.frame;
    const auto p = static_cast<std::size_t>(point);
    const std::int64_t voxel = frame.has_points ? frame.point_rows[p] : point;
    if (voxel < 0) return {};
    const bool is_own_voxel = a_.is_input_level && (!a_.trilinear || !frame.has_points);
    if (is_own_voxel) return single(static_cast<std::int32_t>(voxel));
    const Coord& cell = a_.voxels->coords()[static_cast<std::size_t>(voxel)];
    std::array<double, 3> at{};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const double position =
          frame.has_points ? frame.point_positions[p][axis] : cell[static_cast<int>(axis)];
      at[axis] = position * a_.transform.scale[axis] + a_.transform.shift[axis];
    }
    return a_.trilinear ? blend(cell.batch, at) : nearest(cell.batch, at);
  }

 private:
  static Blend single(std::int32_t row) {
    Blend one;
    if (row < 0) return one;
    one.count = 1;
    one.row[0] = row;
    one.weight[0] = 1;
    return one;
  }

  std::int32_t find(std::int32_t batch, const std::array<double, 3>& cell) {
    for (const double c : cell) {
      if (!(c >= kAxisMin && c <= kAxisMax)) return -1;
    }
    const Coord at{batch, static_cast<std::int32_t>(cell[0]), static_cast<std::int32_t>(cell[1]),
                   static_cast<std::int32_t>(cell[2])};
    return is_in_key_range(at) ? cursor_.find(pack(at)) : -1;
  }

  Blend nearest(std::int32_t batch, std::array<double, 3> at) {
    for (double& c : at) c = std::floor(c + 0.5);
    return single(find(batch, at));
  }

  Blend blend(std::int32_t batch, const std::array<double, 3>& at) {
    Blend result;
    double total = 0;
    std::array<double, 8> weight{};
    for (int corner = 0; corner < 8; ++corner) {
      std::array<double, 3> cell{};
      double share = 1;
      for (std::size_t axis = 0; axis < 3; ++axis) {
        const double low = std::floor(at[axis]), part = at[axis] - low;
        const bool is_upper = (corner >> axis & 1) != 0;
        cell[axis] = is_upper ? low + 1 : low;
        share *= is_upper ? part : 1 - part;
      }
      const std::int32_t row = share > 0 ? find(batch, cell) : -1;
      if (row < 0) continue;
      const auto i = static_cast<std::size_t>(result.count++);
      result.row[i] = row;
      weight[i] = share;
      total += share;
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(result.count); ++i) {
      result.weight[i] = static_cast<float>(weight[i] / total);
    }
    return result;
  }

  const DevoxelizeArguments& a_;
  HashMap::Cursor cursor_;
};

template <class T>
void write_point(const Blend& blend, const base::ConstTensorView& input, T* to,
                 std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; ++c) {
    float sum = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(blend.count); ++i) {
      sum +=
          blend.weight[i] * static_cast<float>(input.as<T>()[blend.row[i] * input.stride[0] + c]);
    }
    to[c] = T(sum);
  }
}

// Which points took a share of each row, in the order of points.
struct RowShares {
  std::vector<std::int64_t> begin;  // of row r: begin[r] .. begin[r + 1]
  std::vector<std::int64_t> point;
  std::vector<float> weight;
};

RowShares shares_of_rows(const std::vector<Blend>& blends, std::int64_t rows) {
  RowShares shares;
  shares.begin.assign(static_cast<std::size_t>(rows) + 1, 0);
  const auto for_shares = [&](const auto& body) {
    for (std::size_t p = 0; p < blends.size(); ++p) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(blends[p].count); ++i) body(p, i);
    }
  };
  for_shares([&](std::size_t p, std::size_t i) {
    ++shares.begin[static_cast<std::size_t>(blends[p].row[i]) + 1];
  });
  for (std::size_t r = 1; r < shares.begin.size(); ++r) shares.begin[r] += shares.begin[r - 1];
  shares.point.resize(static_cast<std::size_t>(shares.begin.back()));
  shares.weight.resize(shares.point.size());
  auto next = shares.begin;
  for_shares([&](std::size_t p, std::size_t i) {
    const auto at = static_cast<std::size_t>(next[static_cast<std::size_t>(blends[p].row[i])]++);
    shares.point[at] = static_cast<std::int64_t>(p);
    shares.weight[at] = blends[p].weight[i];
  });
  return shares;
}

}  // namespace

void devoxelize_gradient(const DevoxelizeArguments& arguments,
                         const base::ConstTensorView& gradient, const base::TensorView& to,
                         Write write) {
  const std::int64_t points = gradient.shape[0], channels = to.shape[1];
  std::vector<Blend> blends(static_cast<std::size_t>(points));
  base::parallel_blocks(points, kGrain, [&](std::int64_t begin, std::int64_t end) {
    PointRows rows(arguments);
    for (std::int64_t point = begin; point < end; ++point)
      blends[static_cast<std::size_t>(point)] = rows(point);
  });
  const RowShares shares = shares_of_rows(blends, to.shape[0]);
  base::parallel_blocks(to.shape[0], kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      float* d = to.as<float>() + row * to.stride[0];
      if (write == Write::store) std::fill_n(d, channels, 0.0f);
      const auto last = static_cast<std::size_t>(shares.begin[static_cast<std::size_t>(row) + 1]);
      for (auto i = static_cast<std::size_t>(shares.begin[static_cast<std::size_t>(row)]); i < last;
           ++i) {
        const float* g = gradient.as<float>() + shares.point[i] * gradient.stride[0];
        for (std::int64_t c = 0; c < channels; ++c) d[c] += shares.weight[i] * g[c];
      }
    }
  });
}

void devoxelize(const DevoxelizeArguments& arguments, const base::ConstTensorView& input,
                const base::TensorView& output) {
  using base::bf16_t, base::half_t;
  base::visit_dtype<float, half_t, bf16_t>(input.dtype, "devoxelize", [&]<class T>() {
    base::parallel_blocks(output.shape[0], kGrain, [&](std::int64_t begin, std::int64_t end) {
      PointRows rows(arguments);
      for (std::int64_t point = begin; point < end; ++point) {
        write_point<T>(rows(point), input, output.as<T>() + point * output.stride[0],
                       output.shape[1]);
      }
    });
  });
}

}  // namespace sparseconv::cpu
