// Several looks at one cloud: it is computed `views` times, turned about the z axis of its frame,
// and the class probabilities of each point are averaged (test-time augmentation). What a network
// says of a point depends a little on how the cells happen to cut its neighbourhood; the mean does
// so less. One view after the other, so a view's memory serves the next.
//
//   const Engine engine(load_model("street.h5"));             // not labels_only
//   const Result result = run_views(engine, cloud, 4);        // turned by 0, 45, 90, 135 degrees
//   result.labels(), result.scores()                          // of the mean
#pragma once
#include "io/cloud.hpp"
#include "sparseconv/engine.hpp"

namespace sparseconv {

constexpr int kViewsMax = 64;

// Error where a cloud cannot be shown to the model in so many views: not 1..kViewsMax; and of more
// than one, a model without classes, or with a feature that turns with the cloud (nx, vy,
// velocity_x, yaw, ...) other than x, y, dx and dy, which are made anew from the turned positions.
void check_views(const Model& model, int views);

// The cloud is turned by k * 180 / views degrees, k = 0..views-1. One view is engine.run(cloud).
// More give a Result with `probabilities`: for each point the mean of Result::scores() over the
// views in which it became a voxel; a point is dropped where it did so in none (a range crops
// turned clouds elsewhere). It has no outputs and no point_to_voxel; voxels and origin are those of
// the first view, times are sums, memory the largest of a view. Errors: those of check_views() and
// Engine::run; no output that labels come from; a cloud that stores a feature dx or dy itself.
Result run_views(const Engine& engine, const io::Cloud& cloud, int views);

}  // namespace sparseconv
