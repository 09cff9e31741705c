// E57 through libE57Format: all scans of the file, their poses applied. One file at a time: the XML
// parser below the library keeps global state.
#include <E57Format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>

#include "io/field_names.hpp"
#include "io/formats/e57.hpp"
#include "io/formats/e57_header.hpp"
#include "io/poses.hpp"
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

constexpr std::int64_t kBlock = 1 << 13;  // points read at a time

struct E57Field {
  std::string path;  // in the prototype
  std::string name;  // canonical
  base::DType type = base::DType::f64;
  int bits = 0;  // of a stored value
};

struct Scan {
  e57::CompressedVectorNode points;
  std::vector<E57Field> fields;
  Pose pose;
  bool has_pose = false;
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
std::vector<E57Field> fields_of(const e57::StructureNode& prototype,
                                std::vector<std::string>& left_out) {
  std::vector<E57Field> fields;
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < prototype.childCount(); ++i) {
    const e57::Node node = prototype.get(i);
    E57Field field{.path = node.elementName()};
    if (node.type() == TypeFloat) {
      const bool is_single = e57::FloatNode(node).precision() == PrecisionSingle;
      field.type = is_single ? base::DType::f32 : base::DType::f64;
      field.bits = is_single ? 32 : 64;
    } else if (node.type() == TypeInteger) {
      const e57::IntegerNode integer(node);
      field.type = type_of_range(integer.minimum(), integer.maximum());
      field.bits = bits_of_range(integer.minimum(), integer.maximum());
    } else if (node.type() == TypeScaledInteger) {
      const e57::ScaledIntegerNode integer(node);
      field.bits = bits_of_range(integer.minimum(), integer.maximum());
    } else {
      left_out.push_back(field.path);
      continue;
    }
    names.push_back(short_name(field.path));
    fields.push_back(std::move(field));
  }
  const auto canonical = canonical_names(names);
  for (std::size_t i = 0; i < fields.size(); ++i) fields[i].name = canonical[i];
  return fields;
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

bool has(const std::vector<E57Field>& fields, std::string_view name) {
  return std::any_of(fields.begin(), fields.end(),
                     [&](const E57Field& field) { return field.name == name; });
}

Scan read_scan(const e57::Node& node, std::int64_t number, std::int64_t file_bytes,
               std::vector<std::string>& left_out) {
  ENSURE(node.type() == TypeStructure, "E57: scan ", number, " is no structure");
  const e57::StructureNode structure(node);
  ENSURE(structure.isDefined("points") && structure.get("points").type() == TypeCompressedVector,
         "E57: scan ", number, " has no points");
  Scan scan{.points = e57::CompressedVectorNode(structure.get("points"))};
  ENSURE(scan.points.prototype().type() == TypeStructure, "E57: scan ", number,
         ": a record is no structure");
  scan.fields = fields_of(e57::StructureNode(scan.points.prototype()), left_out);
  // Constant fields take no bits at all: a count of such records is bounded as if they took one.
  std::int64_t bits = 0;
  for (const E57Field& field : scan.fields) bits += field.bits;
  const std::int64_t count = scan.points.childCount();
  ENSURE(count >= 0 && count <= file_bytes * 8 / std::max<std::int64_t>(bits, 1), "E57: scan ",
         number, " claims ", count, " points of ", bits, " bits, the file has ", file_bytes,
         " bytes");
  if (structure.isDefined("pose")) {
    scan.pose = read_pose(e57::StructureNode(structure.get("pose")));
    scan.has_pose = true;
  }
  return scan;
}

e57::SourceDestBuffer bind(const e57::ImageFile& file, const E57Field& field, base::Tensor& block) {
  std::unique_ptr<e57::SourceDestBuffer> buffer;
  visit_field_type(field.type, [&]<class T>() {
    if constexpr (!std::is_same_v<T, std::uint64_t>) {  // no range of E57 needs it
      buffer = std::make_unique<e57::SourceDestBuffer>(file, field.path, block.data<T>(), kBlock,
                                                       true, true);
    }
  });
  return *buffer;
}

Cloud read_points(e57::ImageFile& file, Scan& scan, std::int64_t number) {
  const std::int64_t count = scan.points.childCount();
  std::vector<base::Tensor> blocks, columns;
  std::vector<e57::SourceDestBuffer> buffers;
  for (const E57Field& field : scan.fields) {
    blocks.push_back(base::Tensor::empty({kBlock}, field.type));
    columns.push_back(base::Tensor::empty({count}, field.type));
    buffers.push_back(bind(file, field, blocks.back()));
  }
  std::int64_t filled = 0;
  if (count > 0 && !buffers.empty()) {
    e57::CompressedVectorReader reader = scan.points.reader(buffers);
    while (const std::int64_t got = reader.read()) {
      ENSURE(got <= count - filled, "E57: scan ", number, " holds more points than the ", count,
             " that it claims");
      for (std::size_t c = 0; c < columns.size(); ++c) {
        const std::int64_t bytes = base::bytes(scan.fields[c].type);
        std::copy_n(static_cast<const char*>(blocks[c].data()), got * bytes,
                    static_cast<char*>(columns[c].data()) + filled * bytes);
      }
      filled += got;
    }
    reader.close();
  }
  ENSURE(filled == count, "E57: scan ", number, " claims ", count, " points, ", filled,
         " are there");
  Cloud cloud(count);
  for (std::size_t c = 0; c < columns.size(); ++c) {
    cloud.add(Field{scan.fields[c].name, scan.fields[c].type, 1, ""}, std::move(columns[c]));
  }
  return cloud;
}

// Range, azimuth and elevation (radians) become x, y, z.
void add_cartesian(Cloud& cloud) {
  const Column &range = cloud.get("sphericalRange"), &azimuth = cloud.get("sphericalAzimuth"),
               &elevation = cloud.get("sphericalElevation");
  std::array<base::Tensor, 3> axes;
  for (auto& axis : axes) axis = base::Tensor::empty({cloud.size()}, base::DType::f64);
  for (std::int64_t i = 0; i < cloud.size(); ++i) {
    const double r = range.at(i), a = azimuth.at(i), e = elevation.at(i);
    axes[0].data<double>()[i] = r * std::cos(e) * std::cos(a);
    axes[1].data<double>()[i] = r * std::cos(e) * std::sin(a);
    axes[2].data<double>()[i] = r * std::sin(e);
  }
  for (std::size_t a = 0; a < 3; ++a) {
    cloud.add(Field{std::string(1, "xyz"[a]), base::DType::f64, 1, "m"}, std::move(axes[a]));
  }
  for (const char* name : {"sphericalRange", "sphericalAzimuth", "sphericalElevation"})
    cloud.remove(name);
}

// Of several scans all have coordinates in double, so that they can be joined.
Cloud finished_scan(e57::ImageFile& file, Scan& scan, std::int64_t number, bool is_one_of_several) {
  const bool is_cartesian = has(scan.fields, "x") && has(scan.fields, "y") && has(scan.fields, "z");
  const bool is_spherical = has(scan.fields, "sphericalRange") &&
                            has(scan.fields, "sphericalAzimuth") &&
                            has(scan.fields, "sphericalElevation");
  ENSURE(is_cartesian || is_spherical, "E57: scan ", number,
         " has neither cartesian nor spherical coordinates");
  Cloud cloud = read_points(file, scan, number);
  if (!is_cartesian) add_cartesian(cloud);
  return scan.has_pose || is_one_of_several ? transformed(cloud, scan.pose) : cloud;
}

void warn_about_invalid(Cloud& cloud) {
  const Column* state = cloud.find("invalid_state");
  if (state == nullptr) return;
  std::int64_t invalid = 0;
  for (std::int64_t i = 0; i < cloud.size(); ++i) invalid += state->at(i) != 0;
  if (invalid > 0) {
    cloud.warnings.push_back(base::concat(invalid, " of ", cloud.size(),
                                          " points are flagged invalid (field invalid_state)"));
  }
}

Cloud read_all_scans(e57::ImageFile& file, std::int64_t file_bytes) {
  const e57::StructureNode root = file.root();
  ENSURE(root.isDefined("/data3D") && root.get("/data3D").type() == TypeVector,
         "E57: the file has no scans (data3D)");
  const e57::VectorNode data(root.get("/data3D"));
  std::vector<std::string> left_out;
  std::vector<Cloud> clouds;
  std::vector<std::string> warnings;
  for (std::int64_t i = 0; i < data.childCount(); ++i) {
    left_out.clear();
    Scan scan = read_scan(data.get(i), i, file_bytes, left_out);
    for (const std::string& path : left_out) {
      warnings.push_back(
          base::concat("E57: field ", path, " of scan ", i, " is no number and is left out"));
    }
    clouds.push_back(finished_scan(file, scan, i, data.childCount() > 1));
  }
  ENSURE(!clouds.empty(), "E57: the file has no scans (data3D is empty)");
  Cloud joined =
      clouds.size() == 1 ? std::move(clouds[0]) : concatenated(std::move(clouds), "scan");
  joined.clouds = static_cast<std::int64_t>(data.childCount());
  joined.warnings.insert(joined.warnings.end(), warnings.begin(), warnings.end());
  warn_about_invalid(joined);
  return joined;
}

// What the library says, without the file's name.
std::string reason(const e57::E57Exception& error, const Source& source) {
  std::string context = error.context();
  const std::string name = "fileName=" + source.path().string();
  for (std::size_t at; (at = context.find(name)) != std::string::npos;)
    context.erase(at, name.size());
  std::replace(context.begin(), context.end(), '\n', ' ');
  return e57::Utilities::errorCodeToString(error.errorCode()) +
         (context.empty() ? "" : " (" + context + ")");
}

}  // namespace

const bool kReadsE57 = true;

Cloud read_e57(const Source& source, const ReadOptions&) {
  static_cast<void>(read_e57_xml(source));
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  try {
    e57::ImageFile file(source.path().string(), "r");
    Cloud cloud = read_all_scans(file, source.size());
    file.close();
    return cloud;
  } catch (const e57::E57Exception& error) {
    base::fail("E57: ", reason(error, source));
  }
}

}  // namespace io
