#include "apps/train/score_table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace apps {

using sparseconv::training::Confusion;

namespace {

std::optional<double> ratio(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

std::string shown(const std::optional<double>& value) {
  return value ? fmt::format("{:.3f}", *value) : "-";
}

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

std::size_t name_width(const ScoredClasses& classes) {
  std::size_t width = 5;
  for (const std::string& name : classes.names) width = std::max(width, name.size());
  return std::min<std::size_t>(width, 32);
}

}  // namespace

std::string score_table(const Confusion& confusion, const ScoredClasses& classes) {
  const std::size_t width = name_width(classes);
  std::string text = fmt::format("{:>6}  {:<{}}  {:>6} {:>9} {:>7} {:>10} {:>10}\n", "id", "class",
                                 width, "IoU", "precision", "recall", "truth", "predicted");
  for (std::int64_t c = 0; c < confusion.classes(); ++c) {
    const auto i = static_cast<std::size_t>(c);
    const std::int64_t hits = confusion.count(c, c), truths = confusion.truths(c),
                       predictions = confusion.predictions(c);
    text += fmt::format("{:>6}  {:<{}}  {:>6} {:>9} {:>7} {:>10} {:>10}\n", classes.ids[i],
                        classes.names[i], width, shown(confusion.iou(c)),
                        shown(ratio(hits, predictions)), shown(ratio(hits, truths)), truths,
                        predictions);
  }
  text +=
      fmt::format("mIoU {:.3f}, accuracy {:.3f} of {} points ({} ignored)\n", confusion.mean_iou(),
                  confusion.accuracy(), confusion.scored(), confusion.ignored());
  return text;
}

std::string confusion_table(const Confusion& confusion, const ScoredClasses& classes) {
  const std::size_t width = name_width(classes);
  std::string text =
      fmt::format("{:<{}}  predicted, % of the truth\n{:<{}}", "", width, "truth", width);
  for (const std::int64_t id : classes.ids) text += fmt::format(" {:>6}", id);
  text += fmt::format(" {:>6}\n", "none");
  for (std::int64_t t = 0; t < confusion.classes(); ++t) {
    const std::int64_t all = confusion.truths(t);
    if (all == 0) continue;
    text += fmt::format("{:<{}}", classes.names[static_cast<std::size_t>(t)], width);
    const auto share = [&](std::int64_t p) {
      const std::int64_t n = confusion.count(t, p);
      return n == 0
                 ? std::string(".")
                 : fmt::format("{:.1f}", 100 * static_cast<double>(n) / static_cast<double>(all));
    };
    for (std::int64_t p = 0; p < confusion.classes(); ++p) text += fmt::format(" {:>6}", share(p));
    text += fmt::format(" {:>6}\n", share(-1));
  }
  return text;
}

Json score_json(const Confusion& confusion, const ScoredClasses& classes) {
  Json list = Json::array(), matrix = Json::array();
  for (std::int64_t c = 0; c < confusion.classes(); ++c) {
    const auto i = static_cast<std::size_t>(c);
    const std::int64_t hits = confusion.count(c, c), truths = confusion.truths(c),
                       predictions = confusion.predictions(c);
    list.push_back({{"id", classes.ids[i]},
                    {"name", classes.names[i]},
                    {"iou", or_null(confusion.iou(c))},
                    {"precision", or_null(ratio(hits, predictions))},
                    {"recall", or_null(ratio(hits, truths))},
                    {"truth", truths},
                    {"predicted", predictions}});
    Json row = Json::array();
    for (std::int64_t p = 0; p < confusion.classes(); ++p) row.push_back(confusion.count(c, p));
    row.push_back(confusion.count(c, -1));
    matrix.push_back(std::move(row));
  }
  return {{"miou", confusion.mean_iou()}, {"accuracy", confusion.accuracy()},
          {"points", confusion.scored()}, {"ignored", confusion.ignored()},
          {"classes", std::move(list)},   {"confusion", std::move(matrix)}};
}

}  // namespace apps
