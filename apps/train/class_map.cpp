#include "apps/train/class_map.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "io/source.hpp"
#include "sparseconv/json_reader.hpp"

namespace apps {
namespace {

using sparseconv::detail::JsonReader, sparseconv::detail::shown;

std::vector<std::int64_t> integers(JsonReader& object, const std::string& key) {
  std::vector<std::int64_t> numbers;
  const nlohmann::json& list = object.value(key);
  if (!list.is_array()) object.fail(key, "expected a list of integers, got " + shown(list));
  for (const auto& one : list) {
    if (!one.is_number_integer())
      object.fail(key, "expected a list of integers, got " + shown(list));
    numbers.push_back(one.get<std::int64_t>());
  }
  return numbers;
}

ClassMap parse(const std::string& text) {
  const nlohmann::json document = nlohmann::json::parse(text, nullptr, false);
  ENSURE(document.is_object(), "is no JSON object");
  JsonReader top(document, "class map");
  const nlohmann::json& list = top.value("classes");
  if (!list.is_array()) top.fail("classes", "expected a list, got " + shown(list));
  std::vector<ClassMap::Class> classes;
  for (const auto& one : list) {
    JsonReader reader(one, base::concat("class ", classes.size()));
    ClassMap::Class entry;
    entry.id = reader.integer("id", INT32_MIN, INT32_MAX);
    entry.name = reader.has("name") ? reader.text("name") : base::concat("class ", entry.id);
    entry.from = reader.has("from") ? integers(reader, "from") : std::vector{entry.id};
    reader.require_no_other_keys();
    classes.push_back(std::move(entry));
  }
  const auto ignore = top.has("ignore") ? integers(top, "ignore") : std::vector<std::int64_t>{};
  top.require_no_other_keys();
  return {std::move(classes), ignore};
}

std::string read_text(const std::filesystem::path& path) {
  constexpr std::int64_t kMost = 1 << 24;
  const io::Source source(path);
  ENSURE(source.size() <= kMost, source.size(), " bytes are too many for a class map");
  std::string text(static_cast<std::size_t>(source.size()), '\0');
  if (!text.empty()) source.read(0, text.data(), source.size());
  return text;
}

}  // namespace

ClassMap::ClassMap(std::vector<Class> classes, const std::vector<std::int64_t>& ignore)
    : classes_(std::move(classes)) {
  ENSURE(!classes_.empty() && classes_.size() <= 65536, "class map: ", classes_.size(),
         " classes, expected 1..65536");
  std::set<std::int64_t> ids;
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    ENSURE(ids.insert(classes_[c].id).second, "class map: id ", classes_[c].id, " stands twice");
    for (const std::int64_t number : classes_[c].from) {
      ENSURE(index_of_.emplace(number, static_cast<std::int32_t>(c)).second, "class map: label ",
             number, " stands in two lists");
    }
  }
  for (const std::int64_t number : ignore) {
    ENSURE(index_of_.emplace(number, kIgnored).second, "class map: label ", number,
           " stands in two lists");
  }
}

ClassMap ClassMap::read(const std::filesystem::path& path) {
  try {
    return parse(read_text(path));
  } catch (const base::Error& error) {
    base::fail(path.string(), ": ", error.what());
  }
}

ClassMap ClassMap::of_model(const sparseconv::Model& model) {
  std::vector<Class> classes;
  for (std::size_t c = 0; c < model.classes.size(); ++c)
    classes.push_back({model.class_ids[c], model.classes[c], {model.class_ids[c]}});
  ENSURE(!classes.empty(), "the model has no classes");
  const bool has_zero = std::ranges::find(model.class_ids, 0) != model.class_ids.end();
  return {std::move(classes),
          has_zero ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{0}};
}

std::vector<std::string> ClassMap::names() const {
  std::vector<std::string> names;
  for (const Class& one : classes_) names.push_back(one.name);
  return names;
}

std::vector<std::int64_t> ClassMap::ids() const {
  std::vector<std::int64_t> ids;
  for (const Class& one : classes_) ids.push_back(one.id);
  return ids;
}

std::optional<std::int32_t> ClassMap::index_of(std::int64_t number) const {
  const auto found = index_of_.find(number);
  if (found == index_of_.end()) return std::nullopt;
  return found->second;
}

namespace {

// Maps `count` labels given by `label_at`; neighbours mostly share a label, so the last look-up is
// kept.
template <class LabelAt>
std::vector<std::int32_t> map_labels(const ClassMap& map, std::int64_t count,
                                     const LabelAt& label_at) {
  std::vector<std::int32_t> indices(static_cast<std::size_t>(count));
  double last = NAN;
  std::int32_t index = ClassMap::kIgnored;
  for (std::int64_t i = 0; i < count; ++i) {
    const double label = label_at(i);
    if (label != last) {
      const bool is_whole = label == std::floor(label) && std::abs(label) < 9e15;
      const auto found = is_whole ? map.index_of(static_cast<std::int64_t>(label)) : std::nullopt;
      if (!found) {
        std::int64_t same = 0;
        for (std::int64_t k = 0; k < count; ++k) same += label_at(k) == label;
        base::fail("label ", label, " (of point ", i, " and ", same > 0 ? same - 1 : 0,
                   " others) is not in the class map");
      }
      index = *found;
      last = label;
    }
    indices[static_cast<std::size_t>(i)] = index;
  }
  return indices;
}

}  // namespace

std::vector<std::int32_t> ClassMap::indices(const io::Column& labels) const {
  return map_labels(*this, labels.values.size(0), [&](std::int64_t i) { return labels.at(i); });
}

std::vector<std::int32_t> ClassMap::indices(const std::vector<std::int32_t>& labels) const {
  return map_labels(*this, static_cast<std::int64_t>(labels.size()), [&](std::int64_t i) {
    return static_cast<double>(labels[static_cast<std::size_t>(i)]);
  });
}

}  // namespace apps
