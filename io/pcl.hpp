// To and from pcl::PointCloud<PointT>, for every registered point type. Header only; needs PCL's
// headers.
//
//   pcl::PointCloud<pcl::PointXYZI> points = io::to_pcl<pcl::PointXYZI>(cloud);
//   io::Cloud cloud = io::from_pcl(points);
//
// Fields go by name (nx is normal_x there; r, g, b are one packed rgb). PCL holds points as
// records in memory of its own allocator, a cloud columns: no field lies in both as it is, so both
// ways copy once, field by field. What needs no copy are Eigen's views: io/eigen.hpp of a cloud,
// getMatrixXfMap() of PCL's.
#pragma once
#include <pcl/for_each_type.h>
#include <pcl/point_cloud.h>
#include <pcl/type_traits.h>

#include <cstring>
#include <type_traits>

#include "io/cloud.hpp"
#include "io/formats/packed_colour.hpp"
#include "io/visit_field.hpp"

namespace io {
namespace detail {

inline std::string name_from_pcl(const std::string& name) {
  if (name == "normal_x") return "nx";
  if (name == "normal_y") return "ny";
  if (name == "normal_z") return "nz";
  return name;
}

// Calls body(name, offset, T{}, elements) for every field of PointT.
template <class PointT, class Body>
struct PclField {
  Body& body;
  template <class Tag>
  void operator()() {
    using Decomposed = typename pcl::traits::datatype<PointT, Tag>::decomposed;
    body(std::string(pcl::traits::name<PointT, Tag>::value),
         std::size_t{pcl::traits::offset<PointT, Tag>::value}, typename Decomposed::type{},
         std::int64_t{Decomposed::value});
  }
};

template <class PointT, class Body>
void for_each_pcl_field(Body&& body) {
  pcl::for_each_type<typename pcl::traits::fieldList<PointT>::type>(
      PclField<PointT, std::remove_reference_t<Body>>{body});
}

inline bool is_packed_colour(const std::string& name) { return name == "rgb" || name == "rgba"; }

inline bool has_byte_colours(const Cloud& cloud) {
  for (const char* name : {"r", "g", "b"}) {
    const Column* column = cloud.find(name);
    if (column == nullptr || column->field.type != base::DType::u8 || column->field.count != 1)
      return false;
  }
  return true;
}

}  // namespace detail

// Fields of PointT that the cloud lacks keep their default; values are converted as C++ does. NaN
// stays NaN, and is_dense says whether all coordinates are finite.
template <class PointT>
pcl::PointCloud<PointT> to_pcl(const Cloud& cloud) {
  pcl::PointCloud<PointT> points;
  points.resize(static_cast<std::size_t>(cloud.size()));
  detail::for_each_pcl_field<PointT>(
      [&](const std::string& pcl_name, std::size_t offset, auto value, std::int64_t elements) {
        using T = decltype(value);
        if (detail::is_packed_colour(pcl_name) && detail::has_byte_colours(cloud)) {
          const Column* alpha = cloud.find("alpha");
          const base::Tensor packed =
              packed_colours(cloud, alpha != nullptr && alpha->field.type == base::DType::u8);
          for (std::int64_t i = 0; i < cloud.size(); ++i) {
            std::memcpy(reinterpret_cast<char*>(&points[static_cast<std::size_t>(i)]) + offset,
                        packed.template data<std::uint32_t>() + i, 4);
          }
          return;
        }
        const Column* column = cloud.find(detail::name_from_pcl(pcl_name));
        if (column == nullptr || column->field.count != elements) return;
        visit_field_type(column->field.type, [&]<class Stored>() {
          const Stored* from = column->values.data<Stored>();
          for (auto& point : points) {
            char* out = reinterpret_cast<char*>(&point) + offset;
            for (std::int64_t e = 0; e < elements; ++e, out += sizeof(T)) {
              const T element = static_cast<T>(*from++);
              std::memcpy(out, &element, sizeof(T));
            }
          }
        });
      });
  if (cloud.height > 1 && cloud.width * cloud.height == cloud.size()) {
    points.width = static_cast<std::uint32_t>(cloud.width);
    points.height = static_cast<std::uint32_t>(cloud.height);
  }
  points.is_dense = cloud.size() == 0 || cloud.finite_points() == cloud.size();
  return points;
}

template <class PointT>
Cloud from_pcl(const pcl::PointCloud<PointT>& points) {
  const auto count = static_cast<std::int64_t>(points.size());
  Cloud cloud(count);
  detail::for_each_pcl_field<PointT>([&](const std::string& pcl_name, std::size_t offset,
                                         auto value, std::int64_t elements) {
    using T = decltype(value);
    const std::int64_t row = elements * static_cast<std::int64_t>(sizeof(T));
    base::Tensor values = elements == 1 ? base::Tensor::empty({count}, base::dtype_v<T>)
                                        : base::Tensor::empty({count, elements}, base::dtype_v<T>);
    for (std::int64_t i = 0; i < count; ++i) {
      std::memcpy(static_cast<char*>(values.data()) + i * row,
                  reinterpret_cast<const char*>(&points[static_cast<std::size_t>(i)]) + offset,
                  static_cast<std::size_t>(row));
    }
    cloud.add(Field{detail::name_from_pcl(pcl_name), base::dtype_v<T>, elements, ""},
              std::move(values));
  });
  unpack_colours(cloud);
  cloud.width = points.width;
  cloud.height = points.height;
  cloud.format = "pcl";
  return cloud;
}

}  // namespace io
