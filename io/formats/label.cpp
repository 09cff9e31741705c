// SemanticKITTI labels: a uint32 a point, class in the low 16 bits, instance in the high ones. Read
// together with the scan they belong to: the same stem beside the file or in ../velodyne.
#include <algorithm>
#include <cstring>

#include "io/fit_columns.hpp"
#include "io/format.hpp"

namespace io {
namespace {

std::filesystem::path scan_of(const std::filesystem::path& label) {
  const auto folder = label.parent_path();
  const auto name = label.stem().string();
  std::string tried;
  for (const auto& place : {folder, folder / ".." / "velodyne"}) {
    for (const char* extension :
         {".bin", ".pcd.bin", ".pcd", ".ply", ".npy", ".las", ".laz", ".xyz", ".txt", ".csv"}) {
      const auto candidate = place / (name + extension);
      std::error_code ignored;
      if (std::filesystem::is_regular_file(candidate, ignored)) return candidate;
    }
    tried += (tried.empty() ? "" : " and ") + (place / (name + ".bin")).lexically_normal().string();
  }
  base::fail("no scan for these labels: ", tried, " do not exist");
}

Cloud read_label(const Source& source, const ReadOptions& options) {
  ENSURE(source.size() % 4 == 0, source.size(), " bytes are no whole number of 4-byte labels");
  const std::int64_t labels = source.size() / 4;
  const auto scan = scan_of(source.path());
  ReadOptions scan_options = options;
  scan_options.format.clear();
  Cloud cloud = read(scan, scan_options);
  // read() has said what there is to say about the scan's values; the caller says it again for the
  // whole cloud.
  std::erase_if(cloud.warnings, [](const std::string& line) {
    return line == "0 points" || line.starts_with("non-finite values");
  });
  ENSURE(cloud.size() == labels, labels, " labels, but the scan ", scan.lexically_normal().string(),
         " has ", cloud.size(), " points");
  base::Tensor classes = base::Tensor::empty({labels}, base::DType::u16),
               instances = classes.clone();
  std::vector<std::uint32_t> block(static_cast<std::size_t>(std::min(labels, kChunkBytes / 4)));
  for (std::int64_t begin = 0; begin < labels; begin += kChunkBytes / 4) {
    const std::int64_t count = std::min(kChunkBytes / 4, labels - begin);
    source.read(begin * 4, block.data(), count * 4);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint32_t word = block[static_cast<std::size_t>(i)];
      classes.data<std::uint16_t>()[begin + i] = static_cast<std::uint16_t>(word & 0xffff);
      instances.data<std::uint16_t>()[begin + i] = static_cast<std::uint16_t>(word >> 16);
    }
  }
  cloud.add(Field{"label", base::DType::u16, 1, ""}, std::move(classes));
  cloud.add(Field{"instance", base::DType::u16, 1, ""}, std::move(instances));
  cloud.format = "label";
  return cloud;
}

std::vector<std::string> write_label(Sink& sink, const Cloud& cloud, const WriteOptions&) {
  const Column& label = cloud.get("label");
  ENSURE(holds_exactly(label, base::DType::u16),
         "field label has values that are no whole number in 0..65535");
  const Column* instance = cloud.find("instance");
  ENSURE(instance == nullptr || holds_exactly(*instance, base::DType::u16),
         "field instance has values that are no whole number in 0..65535");
  const base::Tensor classes = converted(label, base::DType::u16);
  const base::Tensor instances = instance != nullptr
                                     ? converted(*instance, base::DType::u16)
                                     : base::Tensor::zeros({cloud.size()}, base::DType::u16);
  for (std::int64_t i = 0; i < cloud.size(); ++i) {
    const std::uint32_t word = static_cast<std::uint32_t>(instances.data<std::uint16_t>()[i])
                                   << 16 |
                               classes.data<std::uint16_t>()[i];
    sink.write(&word, 4);
  }
  std::vector<std::string> losses;
  for (const auto& column : cloud.columns()) {
    const std::string& name = column->field.name;
    if (name != "label" && name != "instance") losses.push_back("field " + name + " is dropped");
  }
  return losses;
}

}  // namespace

const Format kLabelFormat{
    .name = "label",
    .extensions = {".label"},
    .read = read_label,
    .write = write_label,
    .reading = "1 MiB",
    .notes = "SemanticKITTI labels, read with their scan (same stem beside it or in ../velodyne)",
    .has_header = false,
    .writes_positions = false};

}  // namespace io
