#include "sparseconv/views.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sparseconv/point_features.hpp"

namespace sparseconv {
namespace {

// By its name: whether a field is a part or an angle of something that turns with the cloud. The
// two letters are those of nx, vy and the like.
bool turns(const std::string& name) {
  const bool is_part = name.ends_with('x') || name.ends_with('y');
  return (is_part && name.size() == 2) || name.ends_with("_x") || name.ends_with("_y") ||
         name == "yaw" || name == "heading" || name == "azimuth";
}

bool is_offset(const std::string& name) { return name == "dx" || name == "dy"; }

// Shares all columns but x and y. Coordinates of f32 stay so, others become f64.
io::Cloud turned(const io::Cloud& cloud, double angle) {
  io::Cloud result = cloud;
  const auto columns = detail::position_columns(cloud);
  if (cloud.size() == 0) return result;
  const double cosine = std::cos(angle), sine = std::sin(angle);
  std::vector<double> x(static_cast<std::size_t>(cloud.size())), y(x.size());
  detail::read_column(*columns[0], 0, cloud.size(), x.data());
  detail::read_column(*columns[1], 0, cloud.size(), y.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double ahead = cosine * x[i] - sine * y[i];
    y[i] = sine * x[i] + cosine * y[i];
    x[i] = ahead;
  }
  const auto replace = [&](const io::Column& column, const std::vector<double>& values) {
    if (column.values.dtype() == base::DType::f32) {
      const std::vector<float> rounded(values.begin(), values.end());
      result.add<float>(column.field.name, rounded);
    } else {
      result.add<double>(column.field.name, values);
    }
  };
  replace(*columns[0], x);
  replace(*columns[1], y);
  return result;
}

// Sums over views, in double.
class Mean {
 public:
  void add(const Result& view) {
    const base::Tensor scores = view.scores();
    const auto points = static_cast<std::size_t>(scores.size(0));
    classes_ = static_cast<std::size_t>(scores.size(1));
    sums_.resize(points * classes_);
    seen_.resize(points);
    const float* of_view = scores.data<float>();  // zeros where dropped
    for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += of_view[i];
    for (std::size_t p = 0; p < points; ++p) seen_[p] += view.point_to_voxel[p] >= 0;
  }
  base::Tensor probabilities() const {
    auto mean = base::Tensor::zeros(
        {static_cast<std::int64_t>(seen_.size()), static_cast<std::int64_t>(classes_)},
        base::DType::f32);
    float* to = mean.data<float>();
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      const int views = seen_[i / classes_];
      if (views > 0) to[i] = static_cast<float>(sums_[i] / views);
    }
    return mean;
  }
  std::int64_t dropped() const { return std::count(seen_.begin(), seen_.end(), 0); }

 private:
  std::size_t classes_ = 0;
  std::vector<double> sums_;  // [points, classes]
  std::vector<int> seen_;     // [points]: views in which the point became a voxel
};

// What a view cost, and what it warned of that was not said yet. `name`: "view 2 of 4: ".
void add_view(Result& whole, const Result& view, const std::string& name) {
  whole.timing.voxelize += view.timing.voxelize;
  whole.timing.maps += view.timing.maps;
  whole.timing.network += view.timing.network;
  whole.timing.total += view.timing.total;
  for (const auto part :
       {&RunMemory::weights, &RunMemory::maps, &RunMemory::activations,
        &RunMemory::largest_two_tensors, &RunMemory::peak_process, &RunMemory::device}) {
    whole.memory.*part = std::max(whole.memory.*part, view.memory.*part);
  }
  for (const std::string& warning : view.warnings) {
    const auto& said = whole.warnings;
    if (std::find(said.begin(), said.end(), warning) == said.end())
      whole.warnings.push_back(name + warning);
  }
}

}  // namespace

void check_views(const Model& model, int views) {
  ENSURE(views >= 1 && views <= kViewsMax, "views: ", views, " is not 1 to ", kViewsMax);
  if (views == 1) return;
  ENSURE(!model.classes.empty(), "views: the model has no classes, so there is nothing to average");
  for (const std::string& feature : model.input.features) {
    ENSURE(is_offset(feature) || !turns(feature), "views: the model reads '", feature,
           "', which turns with the cloud; of such features only x, y, dx and dy are turned");
  }
}

Result run_views(const Engine& engine, const io::Cloud& cloud, int views) {
  check_views(engine.model(), views);
  Result whole = engine.run(cloud);
  if (views == 1) return whole;
  for (const std::string& feature : engine.model().input.features) {
    ENSURE(!is_offset(feature) || cloud.find(feature) == nullptr, "views: the cloud stores '",
           feature, "', which turns with it and is not turned");
  }
  Mean mean;
  mean.add(whole);
  whole.outputs.clear();
  whole.point_to_voxel = {};
  for (int k = 1; k < views; ++k) {
    const Result view = engine.run(turned(cloud, k * std::numbers::pi / views));
    mean.add(view);
    add_view(whole, view, base::concat("view ", k + 1, " of ", views, ": "));
  }
  whole.probabilities = mean.probabilities();
  whole.dropped = mean.dropped();
  return whole;
}

}  // namespace sparseconv
