// E57: all scans of a file, their poses applied. libE57Format, which leaks and trusts what it
// decodes, reads them in a process of its own.
#include "io/formats/e57.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "io/formats/e57_header.hpp"
#include "io/formats/e57_scans.hpp"
#include "io/visit_field.hpp"

#ifdef SPARSECONV_OWN_PROCESS
#include "io/formats/own_process.hpp"
#endif

namespace io {
namespace {

bool has(const std::vector<E57Field>& fields, std::string_view name) {
  return std::any_of(fields.begin(), fields.end(),
                     [&](const E57Field& field) { return field.name == name; });
}

bool is_cartesian(const E57Scan& scan) {
  return has(scan.fields, "x") && has(scan.fields, "y") && has(scan.fields, "z");
}

// Range, azimuth and elevation (radians) become x, y, z.
void add_cartesian(Cloud& cloud) {
  const Column &range = cloud.get("sphericalRange"), &azimuth = cloud.get("sphericalAzimuth"),
               &elevation = cloud.get("sphericalElevation");
  // Doubles become doubles in their own memory.
  std::array<base::Tensor, 3> axes{range.values, azimuth.values, elevation.values};
  for (auto& axis : axes) {
    if (axis.dtype() != base::DType::f64)
      axis = base::Tensor::empty({cloud.size()}, base::DType::f64);
  }
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
Cloud finished_scan(Cloud cloud, const E57Scan& scan, bool is_one_of_several) {
  if (!is_cartesian(scan)) add_cartesian(cloud);
  if (!scan.has_pose && !is_one_of_several) return cloud;
  const auto is_double = [&](const char* name) {
    return cloud.get(name).field.type == base::DType::f64;
  };
  if (!is_double("x") || !is_double("y") || !is_double("z") || cloud.find("nx") != nullptr)
    return transformed(cloud, scan.pose);
  std::array<double*, 3> axes{};  // nobody else has these columns yet
  for (std::size_t a = 0; a < 3; ++a) {
    base::Tensor values = cloud.get(std::string(1, "xyz"[a])).values;
    axes[a] = values.data<double>();
  }
  for (std::int64_t i = 0; i < cloud.size(); ++i) {
    const auto moved = scan.pose.apply({axes[0][i], axes[1][i], axes[2][i]});
    for (std::size_t a = 0; a < 3; ++a) axes[a][i] = moved[a];
  }
  return cloud;
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

// Scans as they come. What they say of themselves may come from a process that a file has damaged,
// so it is checked here, too.
class Scans {
 public:
  explicit Scans(std::int64_t file_bytes) : file_bytes_(file_bytes) {}

  void begin(E57Scan scan) {
    const auto& fields = scan.fields;
    const bool is_spherical = has(fields, "sphericalRange") && has(fields, "sphericalAzimuth") &&
                              has(fields, "sphericalElevation");
    ENSURE(is_cartesian(scan) || is_spherical, "E57: scan ", scan.number,
           " has neither cartesian nor spherical coordinates");
    ENSURE(scan.points >= 0 &&
               scan.points <= file_bytes_ * 8 / static_cast<std::int64_t>(fields.size()),
           "E57: scan ", scan.number, " claims ", scan.points, " points, the file has ",
           file_bytes_, " bytes");
    columns_.clear();
    const bool is_moved = scan.has_pose || scan.of > 1;
    for (const E57Field& field : fields) {
      visit_field_type(field.type, []<class T>() {});  // Error where it is none
      // What will be moved is double from the start: there is no time at which both are held.
      const bool is_widened = is_moved && field.type == base::DType::f32 &&
                              (field.name == "x" || field.name == "y" || field.name == "z");
      columns_.push_back(
          base::Tensor::empty({scan.points}, is_widened ? base::DType::f64 : field.type));
    }
    filled_ = 0;
    heads_.push_back(std::move(scan));
  }

  // Column after column of the next `count` points.
  void put(const char* values, std::int64_t count) {
    ENSURE(!heads_.empty() && count <= heads_.back().points - filled_, "E57: scan ", heads_.size(),
           " holds more points than it claims");
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const base::DType type = heads_.back().fields[c].type;
      const std::int64_t bytes = base::bytes(type);
      if (columns_[c].dtype() == type) {
        std::memcpy(static_cast<char*>(columns_[c].data()) + filled_ * bytes, values,
                    static_cast<std::size_t>(count * bytes));
      } else {
        for (std::int64_t i = 0; i < count; ++i) {
          float value = 0;
          std::memcpy(&value, values + i * bytes, sizeof value);
          columns_[c].data<double>()[filled_ + i] = value;
        }
      }
      values += count * bytes;
    }
    filled_ += count;
  }

  void end() {
    const E57Scan& scan = heads_.back();
    ENSURE(filled_ == scan.points, "E57: scan ", scan.number, " claims ", scan.points, " points, ",
           filled_, " are there");
    Cloud cloud(scan.points);
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const base::DType type = columns_[c].dtype();
      cloud.add(Field{scan.fields[c].name, type, 1, ""}, std::move(columns_[c]));
    }
    clouds_.push_back(std::move(cloud));
  }

  Cloud joined() {
    ENSURE(!clouds_.empty(), "E57: the file has no scans (data3D is empty)");
    const auto scans = static_cast<std::int64_t>(clouds_.size());
    for (std::size_t i = 0; i < clouds_.size(); ++i)
      clouds_[i] = finished_scan(std::move(clouds_[i]), heads_[i], scans > 1);
    Cloud cloud = scans == 1 ? std::move(clouds_[0]) : concatenated(std::move(clouds_), "scan");
    cloud.clouds = scans;
    for (const E57Scan& scan : heads_) {
      for (const std::string& path : scan.left_out) {
        cloud.warnings.push_back(base::concat("E57: field ", path, " of scan ", scan.number,
                                              " is no number and is left out"));
      }
    }
    warn_about_invalid(cloud);
    return cloud;
  }

 private:
  std::int64_t file_bytes_;
  std::vector<E57Scan> heads_;
  std::vector<Cloud> clouds_;
  std::vector<base::Tensor> columns_;  // of the last scan
  std::int64_t filled_ = 0;            // points
};

#ifdef SPARSECONV_OWN_PROCESS
// What the library takes to open a file, and its tree of nodes: some 400 bytes an element, of which
// the shortest has four bytes of text.
constexpr std::uint64_t kLibraryBytes = 48 << 20, kBytesOfXml = 128;

// An answer is true and a scan, whose blocks follow, or false after the last one.
hdf5::Message message_of(const E57Scan& scan) {
  hdf5::Message message;
  message.put(true)
      .put(scan.number)
      .put(scan.of)
      .put(scan.points)
      .put(scan.has_pose)
      .put(scan.pose);
  message.put(scan.left_out).put(std::uint64_t{scan.fields.size()});
  for (const E57Field& field : scan.fields) message.put(field.name).put(field.type);
  return message;
}

E57Scan scan_of(hdf5::Message& message) {
  E57Scan scan{.number = message.take<std::int64_t>(),
               .of = message.take<std::int64_t>(),
               .points = message.take<std::int64_t>()};
  scan.has_pose = message.take<bool>();
  scan.pose = message.take<Pose>();
  scan.left_out = message.take<std::vector<std::string>>();
  for (auto fields = message.take<std::uint64_t>(); fields > 0; --fields) {
    auto name = message.take<std::string>();
    scan.fields.push_back({std::move(name), message.take<base::DType>()});
  }
  return scan;
}

// In the process that reads.
void serve_e57(int file, const hdf5::Channel& channel) {
  const auto send = [&](hdf5::Tag tag, std::string_view bytes) {
    ENSURE(channel.send(tag, bytes), "E57: nobody takes the points");
  };
  const auto begin = [&](const E57Scan& scan) {
    const auto row = static_cast<std::uint64_t>(e57_row_bytes(scan));
    hdf5::allow_for(static_cast<std::uint64_t>(scan.points) * row,
                    static_cast<std::uint64_t>(e57_block(scan)) * row);
    send(hdf5::Tag::answer, message_of(scan).bytes());
  };
  serve_library("E57", channel, [&] {
    const std::string path = path_of(file);
    read_e57_scans(
        path, Source(path).size(),
        {.scan = begin,
         .block = [&](std::string_view values, std::int64_t) { send(hdf5::Tag::block, values); },
         .end = [&] { send(hdf5::Tag::answer, {}); }});
    send(hdf5::Tag::answer, hdf5::Message().put(false).bytes());
  });
}

void read_scans(const Source& source, std::size_t xml_bytes, Scans& scans) {
  const HandedFile file(source);
  ask_library("E57", [&] {
    hdf5::Process process(
        serve_e57, file.descriptor(),
        {.memory = kLibraryBytes + kBytesOfXml * xml_bytes,
         .seconds = static_cast<unsigned>(2 + static_cast<std::uint64_t>(source.size()) /
                                                  hdf5::kBytesASecond)});
    std::vector<char> values;
    for (hdf5::Message head = process.answer(); head.take<bool>(); head = process.answer()) {
      const E57Scan scan = scan_of(head);
      scans.begin(scan);
      const auto row = static_cast<std::uint64_t>(e57_row_bytes(scan)),
                 most = row * static_cast<std::uint64_t>(e57_block(scan));
      while (const std::uint64_t bytes = process.next_block()) {
        ENSURE(bytes <= most && bytes % row == 0, "E57: the reading process gives a block of ",
               bytes, " bytes, points have ", row);
        values.resize(bytes);
        process.receive(values.data(), bytes);
        scans.put(values.data(), static_cast<std::int64_t>(bytes / row));
      }
      scans.end();
    }
  });
}
#else
void read_scans(const Source& source, std::size_t, Scans& scans) {
  read_e57_scans(source.path(), source.size(),
                 {.scan = [&](const E57Scan& scan) { scans.begin(scan); },
                  .block = [&](std::string_view values,
                               std::int64_t count) { scans.put(values.data(), count); },
                  .end = [&] { scans.end(); }});
}
#endif

}  // namespace

const bool kReadsE57 = true;

Cloud read_e57(const Source& source, const ReadOptions&) {
  const std::size_t xml_bytes = read_e57_xml(source).size();
  Scans scans(source.size());
  read_scans(source, xml_bytes, scans);
  return scans.joined();
}

}  // namespace io
