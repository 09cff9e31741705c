// Headerless float32 records: KITTI and SemanticKITTI (x y z intensity), nuScenes (x y z intensity
// ring), or columns that the caller names.
#include <algorithm>

#include "io/field_names.hpp"
#include "io/fit_columns.hpp"
#include "io/format.hpp"
#include "io/implausible_layout.hpp"
#include "io/records.hpp"

namespace io {
namespace {

constexpr std::int64_t kFloat = 4;

std::string record_text(std::int64_t columns) {
  return base::concat(columns * kFloat, "-byte points (", columns, " float32)");
}

RecordLayout layout_of(const std::vector<std::string>& names) {
  RecordLayout layout;
  // Names given by the caller are taken as they are; empty ones and _ are skipped columns.
  for (auto name = names.begin(); name != names.end(); ++name) {
    const bool skipped = name->empty() || *name == "_";
    ENSURE(skipped || std::find(names.begin(), name, *name) == name, "column ", *name,
           " is named twice");
    layout.fields.push_back({.name = *name, .is_skipped = skipped});
  }
  pack_offsets(layout);
  return layout;
}

std::vector<std::string> columns_of(const Source& source, const ReadOptions& options,
                                    bool is_nuscenes) {
  const std::int64_t bytes = source.size();
  if (!options.columns.empty()) {
    const auto columns = static_cast<std::int64_t>(options.columns.size());
    ENSURE(bytes % (columns * kFloat) == 0, bytes, " bytes are no whole number of ",
           record_text(columns));
    return options.columns;
  }
  if (is_nuscenes) {
    ENSURE(bytes % 20 == 0, bytes, " bytes are no whole number of ", record_text(5),
           "; --columns tells other layouts");
    return {"x", "y", "z", "intensity", "ring"};
  }
  ENSURE(bytes % 16 == 0 || bytes % 20 == 0, bytes, " bytes are no whole number of ",
         record_text(4), " or ", record_text(5), "; --columns tells other layouts");
  if (bytes % 16 == 0) return {"x", "y", "z", "intensity"};
  return {"x", "y", "z", "intensity", "ring"};
}

Cloud read_floats(const Source& source, const ReadOptions& options, bool is_nuscenes) {
  const auto names = columns_of(source, options, is_nuscenes);
  require_coordinates(names);
  const RecordLayout layout = layout_of(names);
  const std::int64_t points = source.size() / layout.bytes;
  Cloud cloud(points);
  RecordReader reader(layout, points);
  FileStream stream(source, 0, source.size());
  reader.read_all(stream);
  reader.move_into(cloud);
  const std::string doubt =
      implausible_layout(source, static_cast<std::int64_t>(names.size()), cloud);
  if (!doubt.empty()) cloud.warnings.push_back("implausible layout: " + doubt);
  return cloud;
}

Cloud read_kitti(const Source& source, const ReadOptions& options) {
  return read_floats(source, options, false);
}
Cloud read_nuscenes(const Source& source, const ReadOptions& options) {
  return read_floats(source, options, true);
}

std::vector<std::string> write_floats(Sink& sink, const Cloud& cloud,
                                      const std::vector<std::string>& names) {
  std::vector<std::string> losses;
  Cloud selected(cloud.size());
  for (const std::string& name : names) {
    const Column* column = cloud.find(name);
    if (column == nullptr || column->field.count != 1) {
      losses.push_back("field " + name + " is missing: written as 0");
      selected.add(Field{.name = name}, base::Tensor::zeros({cloud.size()}, base::DType::f32));
    } else {
      selected.add(column->field, column->values);
    }
  }
  for (const auto& column : cloud.columns()) {
    if (selected.find(column->field.name) == nullptr || column->field.count != 1) {
      losses.push_back("field " + column->field.name + " is dropped");
    }
  }
  report_lost_extras(cloud, {}, losses);
  static constexpr base::DType kTypes[] = {base::DType::f32};
  const Cloud floats = fit_columns(selected, kTypes, holds_one_element, losses);
  write_records(sink, floats);
  return losses;
}

std::vector<std::string> write_kitti(Sink& sink, const Cloud& cloud, const WriteOptions&) {
  return write_floats(sink, cloud, {"x", "y", "z", "intensity"});
}
std::vector<std::string> write_nuscenes(Sink& sink, const Cloud& cloud, const WriteOptions&) {
  return write_floats(sink, cloud, {"x", "y", "z", "intensity", "ring"});
}

}  // namespace

const Format kKittiFormat{
    .name = "kitti",
    .extensions = {".bin"},
    .read = read_kitti,
    .write = write_kitti,
    .reading = "256 KiB",
    .notes =
        "float32 x y z intensity, no header; 5 columns where the size divides by 20 only; "
        "`--columns` tells others",
    .has_header = false};
const Format kNuscenesFormat{.name = "nuscenes",
                             .extensions = {".pcd.bin"},
                             .read = read_nuscenes,
                             .write = write_nuscenes,
                             .reading = "256 KiB",
                             .notes = "float32 x y z intensity ring, no header",
                             .has_header = false};

}  // namespace io
