// What a segmentation got right: counts of (true class, predicted class), and what follows from
// them.
//   Confusion confusion(model.classes.size());
//   confusion.add(truth, predicted);            // class indices; truth -1 is not counted
//   confusion.mean_iou(), confusion.accuracy(), confusion.iou(2)
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sparseconv::training {

class Confusion {
 public:
  Confusion() = default;
  explicit Confusion(std::int64_t classes);

  // One entry a point or voxel. A truth of -1 (ignored) is counted as such and otherwise left out;
  // a prediction of -1 (none: a dropped point, a class that is not scored) is wrong wherever there
  // is a truth. Error: unequal lengths, a class outside [-1, classes).
  void add(std::span<const std::int32_t> truth, std::span<const std::int32_t> predicted);
  void add(const Confusion& other);  // Error: another number of classes

  std::int64_t classes() const { return classes_; }
  std::int64_t count(std::int64_t truth, std::int64_t predicted) const;  // predicted -1: none
  std::int64_t truths(std::int64_t of_class) const;  // points whose truth is the class
  std::int64_t predictions(
      std::int64_t of_class) const;  // points that have a truth, predicted as it
  std::int64_t scored() const;       // points that have a truth
  std::int64_t ignored() const { return ignored_; }

  // Intersection over union, true positives / (truths + predictions - true positives); nothing
  // where the class occurs in neither truth nor prediction.
  std::optional<double> iou(std::int64_t of_class) const;
  double mean_iou() const;  // over the classes that occur; 0 where none does
  double accuracy() const;  // share of scored points that are right; 0 where there is none

 private:
  std::size_t cell(std::int64_t truth, std::int64_t predicted) const;
  std::int64_t classes_ = 0, ignored_ = 0;
  std::vector<std::int64_t> counts_;  // [truth][predicted], the last column: no prediction
};

}  // namespace sparseconv::training
