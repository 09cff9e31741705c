// Class maps: which numbers of label files count as which class.
//   {"classes": [{"id": 1, "name": "road", "from": [40, 44, 49]}, ...], "ignore": [0, 1]}
//
// `from` defaults to the class's own id. Every number that occurs in labels must stand in one list.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "io/cloud.hpp"
#include "sparseconv/model.hpp"

namespace apps {

class ClassMap {
 public:
  struct Class {
    std::int64_t id = 0;  // what label files of results hold
    std::string name;
    std::vector<std::int64_t> from;
  };

  // Error naming the path, the key and the number: no JSON, an unknown key, a number in two lists,
  // an id twice, no class.
  static ClassMap read(const std::filesystem::path& path);
  // Labels hold the model's own class ids; 0 is ignored unless a class has it.
  static ClassMap of_model(const sparseconv::Model& model);
  ClassMap(std::vector<Class> classes, const std::vector<std::int64_t>& ignore);

  const std::vector<Class>& classes() const { return classes_; }
  std::vector<std::string> names() const;
  std::vector<std::int64_t> ids() const;

  static constexpr std::int32_t kIgnored = -1;
  // Position of the class of a number, kIgnored, or nothing where the map does not have it.
  std::optional<std::int32_t> index_of(std::int64_t number) const;
  // One a point. Error: a number that the map does not have, with a point and how many hold it.
  std::vector<std::int32_t> indices(const io::Column& labels) const;
  std::vector<std::int32_t> indices(const std::vector<std::int32_t>& labels) const;

 private:
  std::vector<Class> classes_;
  std::unordered_map<std::int64_t, std::int32_t> index_of_;
};

}  // namespace apps
