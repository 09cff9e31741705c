// A confusion as text and as JSON: what `eval` prints and `train` ends with.
#pragma once
#include <string>
#include <vector>

#include "apps/results.hpp"
#include "sparseconv/training/confusion.hpp"

namespace apps {

struct ScoredClasses {
  std::vector<std::int64_t> ids;
  std::vector<std::string> names;
};

// A line a class: IoU, precision, recall, points; then mIoU and accuracy.
std::string score_table(const sparseconv::training::Confusion& confusion,
                        const ScoredClasses& classes);
// Rows are truth, columns prediction, in percent of the row; the last column: no prediction.
std::string confusion_table(const sparseconv::training::Confusion& confusion,
                            const ScoredClasses& classes);
// {"miou", "accuracy", "points", "ignored", "classes": [{"id", "name", "iou", "precision",
// "recall", "truth", "predicted"}], "confusion": [[...]]}; what has no value is null.
Json score_json(const sparseconv::training::Confusion& confusion, const ScoredClasses& classes);

}  // namespace apps
