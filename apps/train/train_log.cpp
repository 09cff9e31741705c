#include "apps/train/train_log.hpp"

#include <cmath>
#include <fstream>

#include "apps/train/curves.hpp"
#include "io/sink.hpp"

namespace apps {
namespace fs = std::filesystem;

namespace {

fs::path beside(const fs::path& output, const char* ending) {
  fs::path path = output;
  if (path.extension() == ".h5" || path.extension() == ".hdf5") path.replace_extension();
  path += ending;
  return path;
}

double number(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  return found != entry.end() && found->is_number() ? found->get<double>() : NAN;
}

}  // namespace

TrainLog::TrainLog(const fs::path& output, std::int64_t epochs_done)
    : path_(beside(output, ".log.jsonl")), picture_(beside(output, ".curves.png")) {
  std::ifstream file(path_);
  for (std::string line; epochs_done > 0 && std::getline(file, line);) {
    Json entry = Json::parse(line, nullptr, false);
    if (!entry.is_object() || !(number(entry, "epoch") <= static_cast<double>(epochs_done)))
      continue;
    entries_.push_back(std::move(entry));
  }
}

void TrainLog::add(const Json& entry) {
  entries_.push_back(entry);
  io::Sink sink(path_);
  for (const Json& one : entries_) sink.write(one.dump() + "\n");
  sink.commit();
  draw();
}

void TrainLog::draw() const {
  const auto values = [&](const char* key) {
    std::vector<double> list;
    for (const Json& entry : entries_) list.push_back(number(entry, key));
    return list;
  };
  const render::Rgb blue{31, 90, 180}, orange{220, 110, 20}, grey{140, 140, 140};
  const std::vector<render::Panel> panels = {{"loss", {{"training", blue, values("loss")}}},
                                             {"mIoU and accuracy",
                                              {{"training mIoU", grey, values("train_miou")},
                                               {"mIoU", blue, values("miou")},
                                               {"accuracy", orange, values("accuracy")}},
                                              true}};
  const double first = entries_.empty() ? 1 : number(entries_.front(), "epoch");
  render::write_png(
      picture_, render::draw_curves(panels, std::isfinite(first) ? static_cast<int>(first) : 1));
}

}  // namespace apps
