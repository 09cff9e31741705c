#include "sparseconv/training/confusion.hpp"

#include "gemm_core/base/error.hpp"

namespace sparseconv::training {

Confusion::Confusion(std::int64_t classes) : classes_(classes) {
  ENSURE(classes > 0 && classes <= 65536, "confusion: ", classes, " classes, expected 1..65536");
  counts_.assign(static_cast<std::size_t>(classes * (classes + 1)), 0);
}

std::size_t Confusion::cell(std::int64_t truth, std::int64_t predicted) const {
  return static_cast<std::size_t>(truth * (classes_ + 1) + (predicted < 0 ? classes_ : predicted));
}

void Confusion::add(std::span<const std::int32_t> truth, std::span<const std::int32_t> predicted) {
  ENSURE(truth.size() == predicted.size(), "confusion: ", truth.size(), " truths, ",
         predicted.size(), " predictions");
  for (std::size_t i = 0; i < truth.size(); ++i) {
    ENSURE(truth[i] >= -1 && truth[i] < classes_ && predicted[i] >= -1 && predicted[i] < classes_,
           "confusion: entry ", i, " has truth ", truth[i], " and prediction ", predicted[i],
           ", expected -1..", classes_ - 1);
    if (truth[i] < 0)
      ++ignored_;
    else
      ++counts_[cell(truth[i], predicted[i])];
  }
}

void Confusion::add(const Confusion& other) {
  ENSURE(other.classes_ == classes_, "confusion: ", other.classes_, " classes added to ", classes_);
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  ignored_ += other.ignored_;
}

std::int64_t Confusion::count(std::int64_t truth, std::int64_t predicted) const {
  ENSURE(truth >= 0 && truth < classes_ && predicted >= -1 && predicted < classes_,
         "confusion: no cell ", truth, ", ", predicted);
  return counts_[cell(truth, predicted)];
}

std::int64_t Confusion::truths(std::int64_t of_class) const {
  std::int64_t sum = 0;
  for (std::int64_t p = -1; p < classes_; ++p) sum += count(of_class, p);
  return sum;
}

std::int64_t Confusion::predictions(std::int64_t of_class) const {
  std::int64_t sum = 0;
  for (std::int64_t t = 0; t < classes_; ++t) sum += count(t, of_class);
  return sum;
}

std::int64_t Confusion::scored() const {
  std::int64_t sum = 0;
  for (const std::int64_t n : counts_) sum += n;
  return sum;
}

std::optional<double> Confusion::iou(std::int64_t of_class) const {
  const std::int64_t hits = count(of_class, of_class);
  const std::int64_t all = truths(of_class) + predictions(of_class) - hits;
  if (all == 0) return std::nullopt;
  return static_cast<double>(hits) / static_cast<double>(all);
}

double Confusion::mean_iou() const {
  double sum = 0, occurring = 0;
  for (std::int64_t c = 0; c < classes_; ++c) {
    const auto value = iou(c);
    if (!value) continue;
    sum += *value;
    ++occurring;
  }
  return occurring > 0 ? sum / occurring : 0;
}

double Confusion::accuracy() const {
  std::int64_t hits = 0;
  for (std::int64_t c = 0; c < classes_; ++c) hits += count(c, c);
  const std::int64_t all = scored();
  return all > 0 ? static_cast<double>(hits) / static_cast<double>(all) : 0;
}

}  // namespace sparseconv::training
