// One file at a time: the XML parser below the library keeps global state.
#include "io/formats/e57_scans.hpp"

#include <E57Format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>

#include "io/field_names.hpp"
#include "io/visit_field.hpp"

namespace io {
namespace {

// Names of libE57Format 2; version 3 has others and deprecates these.
#ifdef SPARSECONV_E57_2
constexpr auto TypeInteger = e57::E57_INTEGER, TypeScaledInteger = e57::E57_SCALED_INTEGER,
               TypeFloat = e57::E57_FLOAT, TypeCompressedVector = e57::E57_COMPRESSED_VECTOR,
               TypeStructure = e57::E57_STRUCTURE, TypeVector = e57::E57_VECTOR;
constexpr auto PrecisionSingle = e57::E57_SINGLE;
#else
using e57::PrecisionSingle;
using e57::TypeCompressedVector;
using e57::TypeFloat;
using e57::TypeInteger;
using e57::TypeScaledInteger;
using e57::TypeStructure;
using e57::TypeVector;
#endif

struct StoredField {
  std::string path;  // in the prototype
  int bits = 0;      // of a stored value
};

struct Scan {
  e57::CompressedVectorNode points;
  std::vector<StoredField> stored;  // one a field
  E57Scan head;
};

int bits_of_range(std::int64_t low, std::int64_t high) {
  int bits = 0;
  for (auto range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low); range != 0;
       range >>= 1)
    ++bits;
  return bits;
}

base::DType type_of_range(std::int64_t low, std::int64_t high) {
  using enum base::DType;
  if (low >= 0) return high <= 0xff ? u8 : high <= 0xffff ? u16 : high <= 0xffffffff ? u32 : i64;
  const auto within = [&](std::int64_t limit) { return low >= -limit - 1 && high <= limit; };
  return within(0x7f) ? i8 : within(0x7fff) ? i16 : within(0x7fffffff) ? i32 : i64;
}

// The canonical names of what the standard (and its extension for normals) calls otherwise.
std::string short_name(const std::string& path) {
  static constexpr std::pair<const char*, const char*> kNames[] = {
      {"cartesianX", "x"},
      {"cartesianY", "y"},
      {"cartesianZ", "z"},
      {"colorRed", "r"},
      {"colorGreen", "g"},
      {"colorBlue", "b"},
      {"timeStamp", "time"},
      {"returnIndex", "return_number"},
      {"returnCount", "number_of_returns"},
      {"rowIndex", "row"},
      {"columnIndex", "column"},
      {"cartesianInvalidState", "invalid_state"},
      {"sphericalInvalidState", "invalid_state"}};
  for (const auto& [long_name, name] : kNames) {
    if (path == long_name) return name;
  }
  return path.substr(path.find(':') == std::string::npos ? 0 : path.find(':') + 1);
}

// Numbers of a record. Texts and nested structures have no place in a cloud.
void find_fields(const e57::StructureNode& prototype, Scan& scan) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < prototype.childCount(); ++i) {
    const e57::Node node = prototype.get(i);
    StoredField stored{.path = node.elementName()};
    E57Field field;
    if (node.type() == TypeFloat) {
      const bool is_single = e57::FloatNode(node).precision() == PrecisionSingle;
      field.type = is_single ? base::DType::f32 : base::DType::f64;
      stored.bits = is_single ? 32 : 64;
    } else if (node.type() == TypeInteger) {
      const e57::IntegerNode integer(node);
      field.type = type_of_range(integer.minimum(), integer.maximum());
      stored.bits = bits_of_range(integer.minimum(), integer.maximum());
    } else if (node.type() == TypeScaledInteger) {
      const e57::ScaledIntegerNode integer(node);
      stored.bits = bits_of_range(integer.minimum(), integer.maximum());
    } else {
      scan.head.left_out.push_back(stored.path);
      continue;
    }
    names.push_back(short_name(stored.path));
    scan.stored.push_back(std::move(stored));
    scan.head.fields.push_back(std::move(field));
  }
  const auto canonical = canonical_names(names);
  for (std::size_t i = 0; i < canonical.size(); ++i) scan.head.fields[i].name = canonical[i];
}

double number_at(const e57::StructureNode& node, const char* path) {
  const e57::Node child = node.get(path);
  if (child.type() == TypeFloat) return e57::FloatNode(child).value();
  if (child.type() == TypeScaledInteger) return e57::ScaledIntegerNode(child).scaledValue();
  ENSURE(child.type() == TypeInteger, "E57: ", path, " of a pose is not a number");
  return static_cast<double>(e57::IntegerNode(child).value());
}

Pose read_pose(const e57::StructureNode& node) {
  Pose pose;
  if (node.isDefined("rotation")) {
    const e57::StructureNode q(node.get("rotation"));
    double w = number_at(q, "w"), x = number_at(q, "x"), y = number_at(q, "y"),
           z = number_at(q, "z");
    const double length = std::sqrt(w * w + x * x + y * y + z * z);
    ENSURE(std::isfinite(length) && length > 0, "E57: the rotation of a pose is no quaternion: ", w,
           " ", x, " ", y, " ", z);
    w /= length, x /= length, y /= length, z /= length;
    pose.rotation = {{{1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)},
                      {2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)},
                      {2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)}}};
  }
  if (node.isDefined("translation")) {
    const e57::StructureNode t(node.get("translation"));
    pose.translation = {number_at(t, "x"), number_at(t, "y"), number_at(t, "z")};
  }
  return pose;
}

Scan find_scan(const e57::Node& node, std::int64_t number, std::int64_t file_bytes) {
  ENSURE(node.type() == TypeStructure, "E57: scan ", number, " is no structure");
  const e57::StructureNode structure(node);
  ENSURE(structure.isDefined("points") && structure.get("points").type() == TypeCompressedVector,
         "E57: scan ", number, " has no points");
  Scan scan{.points = e57::CompressedVectorNode(structure.get("points"))};
  ENSURE(scan.points.prototype().type() == TypeStructure, "E57: scan ", number,
         ": a record is no structure");
  scan.head.number = number;
  find_fields(e57::StructureNode(scan.points.prototype()), scan);
  // Constant fields take no bits at all: a count of such records is bounded as if they took one.
  std::int64_t bits = 0;
  for (const StoredField& field : scan.stored) bits += std::max(field.bits, 1);
  const std::int64_t count = scan.points.childCount();
  ENSURE(count >= 0 && count <= file_bytes * 8 / std::max<std::int64_t>(bits, 1), "E57: scan ",
         number, " claims ", count, " points of ", bits, " bits, the file has ", file_bytes,
         " bytes");
  scan.head.points = count;
  if (structure.isDefined("pose")) {
    scan.head.pose = read_pose(e57::StructureNode(structure.get("pose")));
    scan.head.has_pose = true;
  }
  return scan;
}

e57::SourceDestBuffer bind(const e57::ImageFile& file, const StoredField& field,
                           base::Tensor& block) {
  std::unique_ptr<e57::SourceDestBuffer> buffer;
  visit_field_type(block.dtype(), [&]<class T>() {
    if constexpr (!std::is_same_v<T, std::uint64_t>) {  // no range of E57 needs it
      buffer = std::make_unique<e57::SourceDestBuffer>(
          file, field.path, block.data<T>(), static_cast<std::size_t>(block.size(0)), true, true);
    }
  });
  return *buffer;
}

void read_points(e57::ImageFile& file, Scan& scan, const TakeE57& take) {
  const std::int64_t count = scan.head.points, block = e57_block(scan.head);
  if (count == 0 || scan.stored.empty()) return;
  std::vector<base::Tensor> columns;
  std::vector<e57::SourceDestBuffer> buffers;
  for (std::size_t i = 0; i < scan.stored.size(); ++i)
    columns.push_back(base::Tensor::empty({block}, scan.head.fields[i].type));
  for (std::size_t i = 0; i < scan.stored.size(); ++i)
    buffers.push_back(bind(file, scan.stored[i], columns[i]));
  std::string values;
  std::int64_t filled = 0;
  e57::CompressedVectorReader reader = scan.points.reader(buffers);
  while (const std::int64_t got = reader.read()) {
    ENSURE(got <= count - filled, "E57: scan ", scan.head.number, " holds more points than the ",
           count, " that it claims");
    values.clear();
    for (std::size_t c = 0; c < columns.size(); ++c) {
      values.append(static_cast<const char*>(columns[c].data()),
                    static_cast<std::size_t>(got * base::bytes(scan.head.fields[c].type)));
    }
    take.block(values, got);
    filled += got;
  }
  reader.close();
}

// What the library says, without the file's name.
std::string reason(const e57::E57Exception& error, const std::filesystem::path& path) {
  std::string context = error.context();
  const std::string name = "fileName=" + path.string();
  for (std::size_t at; (at = context.find(name)) != std::string::npos;)
    context.erase(at, name.size());
  std::replace(context.begin(), context.end(), '\n', ' ');
  return e57::Utilities::errorCodeToString(error.errorCode()) +
         (context.empty() ? "" : " (" + context + ")");
}

}  // namespace

void read_e57_scans(const std::filesystem::path& path, std::int64_t file_bytes,
                    const TakeE57& take) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  try {
    e57::ImageFile file(path.string(), "r");
    const e57::StructureNode root = file.root();
    ENSURE(root.isDefined("/data3D") && root.get("/data3D").type() == TypeVector,
           "E57: the file has no scans (data3D)");
    const e57::VectorNode data(root.get("/data3D"));
    for (std::int64_t i = 0; i < data.childCount(); ++i) {
      Scan scan = find_scan(data.get(i), i, file_bytes);
      scan.head.of = data.childCount();
      take.scan(scan.head);
      read_points(file, scan, take);
      take.end();
    }
    file.close();
  } catch (const e57::E57Exception& error) {
    base::fail("E57: ", reason(error, path));
  }
}

}  // namespace io
