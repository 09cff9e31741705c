// Columns of a cloud as Eigen vectors, without a copy, and positions as matrices. Header only;
// needs Eigen 3.
//
//   const auto z = io::as_eigen<float>(cloud, "z");          // views the column
//   Eigen::Matrix3Xd points = io::positions(cloud);          // copies, any coordinate type
//   auto height = base::Tensor::empty({cloud.size()}, base::DType::f32);
//   io::as_eigen<float>(height) = z.array() - z.minCoeff();  // computes in the column's memory
//   cloud.add(io::Field{"height"}, std::move(height));       // which the cloud takes over
#pragma once
#include <Eigen/Core>

#include "gemm_core/base/error.hpp"
#include "io/cloud.hpp"

namespace io {

// The field must have one element a point and the type T. Valid while the cloud (or a copy of it)
// lives.
template <class T>
Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, 1>> as_eigen(const Cloud& cloud,
                                                               std::string_view name) {
  const Column& column = cloud.get(name);
  ENSURE(column.field.count == 1, "field ", name, " has ", column.field.count, " elements a point");
  return {column.values.data<T>(), cloud.size()};
}

// The values of a tensor of rank 1, to write a column in place before a cloud takes it.
template <class T>
Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, 1>> as_eigen(base::Tensor& column) {
  ENSURE(column.shape().rank() == 1 && column.device().is_cpu(), "a column of shape ",
         base::to_string(column.shape()), " on ", base::to_string(column.device()),
         ": one axis on the CPU is expected");
  return {column.data<T>(), column.numel()};
}

// Fields with several elements: a row a point.
template <class T>
Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> rows_as_eigen(
    const Cloud& cloud, std::string_view name) {
  const Column& column = cloud.get(name);
  return {column.values.data<T>(), cloud.size(), column.field.count};
}

// A column a point.
inline Eigen::Matrix3Xd positions(const Cloud& cloud) {
  Eigen::Matrix3Xd points(3, cloud.size());
  const Column* axes[] = {&cloud.get("x"), &cloud.get("y"), &cloud.get("z")};
  for (Eigen::Index i = 0; i < points.cols(); ++i) {
    for (Eigen::Index a = 0; a < 3; ++a) points(a, i) = axes[a]->at(i);
  }
  return points;
}

// A cloud of the columns of a 3 x N matrix of float or double.
template <class Derived>
Cloud cloud_from(const Eigen::MatrixBase<Derived>& points) {
  using T = typename Derived::Scalar;
  ENSURE(points.rows() == 3, "positions have 3 rows, this matrix has ", points.rows());
  Cloud cloud(points.cols());
  const char* names[] = {"x", "y", "z"};
  for (Eigen::Index a = 0; a < 3; ++a) {
    base::Tensor values = base::Tensor::empty({points.cols()}, base::dtype_v<T>);
    Eigen::Map<Eigen::Matrix<T, 1, Eigen::Dynamic>>(values.data<T>(), points.cols()) =
        points.row(a);
    cloud.add(Field{names[a], base::dtype_v<T>, 1, ""}, std::move(values));
  }
  cloud.width = points.cols();
  return cloud;
}

}  // namespace io
