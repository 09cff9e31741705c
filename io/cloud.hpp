// A point cloud in memory: named columns of equal length, each in its own element type, plus what
// the file said about itself. Structure of arrays; a column with count > 1 holds count elements a
// point (point-major).
//
//   const io::Cloud cloud = io::read("scan.pcd");
//   const io::Column* intensity = cloud.find("intensity");      // null when the file has none
//   const auto labelled = cloud.with("label", labels);           // shares the other columns
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gemm_core/base/tensor.hpp"

namespace io {

struct Field {
  std::string name;  // as the canonical names below where one applies, else as stored
  base::DType type = base::DType::f32;  // f32 f64 i8..i64 u8..u64
  std::int64_t count = 1;               // elements a point
  std::string unit;                     // "" when the file does not say
};

// Immutable once built; columns are shared between clouds.
struct Column {
  Field field;
  base::Tensor values;  // [points] or [points, count], CPU
  double at(std::int64_t point,
            std::int64_t element = 0) const;  // converted to double (i64 beyond 2^53 rounds)
};

// Canonical field names: x y z intensity r g b (0..max of the type) nx ny nz time ring label
// instance return_number class. Readers translate their format's spelling (i, reflectance, red,
// normal_x, ...) to these.
class Cloud {
 public:
  Cloud() = default;
  explicit Cloud(std::int64_t points) : points_(points) {}

  std::int64_t size() const { return points_; }
  const std::vector<std::shared_ptr<const Column>>& columns() const { return columns_; }
  const Column* find(std::string_view name) const;
  const Column& get(std::string_view name) const;  // Error lists the fields there are

  // Adds or replaces a column; its length must be size() (or the cloud must have no column yet).
  void add(Field field, base::Tensor values);
  template <class T>
  void add(std::string name, std::span<const T> values);
  // A copy of this cloud that shares columns and has one more (or one replaced).
  template <class T>
  Cloud with(std::string name, const std::vector<T>& values) const;
  void remove(std::string_view name);

  // What the file says besides its points. Kept by convert where the target can hold it.
  std::int64_t width = 0, height = 1;  // organised when height > 1 (width*height == size())
  std::optional<std::array<double, 7>> viewpoint;      // tx ty tz qw qx qy qz
  std::optional<std::array<double, 3>> scale, offset;  // of integer coordinates (LAS)
  std::string crs;                                     // WKT or other text
  std::map<std::string, std::string> metadata;         // comments and the like
  std::string format;                                  // name of the reader: "pcd", "kitti", ...
  std::int64_t clouds = 1;                             // clouds or scans joined in this one
  std::vector<std::string> warnings;                   // one line each, without the file name

  struct Bounds {
    std::array<double, 3> min, max;
  };
  std::int64_t finite_points() const;    // points with three finite coordinates
  std::optional<Bounds> bounds() const;  // over finite points
  bool is_finite(std::int64_t point) const;
  std::array<double, 3> position(std::int64_t point) const;

 private:
  std::vector<std::shared_ptr<const Column>> columns_;
  std::int64_t points_ = 0;
};

template <class T>
void Cloud::add(std::string name, std::span<const T> values) {
  auto tensor = base::Tensor::empty({static_cast<std::int64_t>(values.size())}, base::dtype_v<T>);
  std::copy(values.begin(), values.end(), tensor.template data<T>());
  add(Field{std::move(name), base::dtype_v<T>, 1, ""}, std::move(tensor));
}

template <class T>
Cloud Cloud::with(std::string name, const std::vector<T>& values) const {
  Cloud copy = *this;
  copy.add(std::move(name), std::span<const T>(values));
  return copy;
}

}  // namespace io
