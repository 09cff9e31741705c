#include "io/hdf5_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "io/hdf5_types.hpp"

namespace io::hdf5 {
namespace {

// Chunks that were never written read as the fill value and take no space in the file: allowed up
// to this size.
constexpr std::uint64_t kMaxUnwrittenBytes = 1 << 20;
constexpr std::size_t kMaxVisited = 10000;  // objects listed; hard links may form cycles
constexpr int kMaxDepth = 32;
constexpr std::uint64_t kBlockBytes = 1 << 20;

Hdf5Dataset describe(hid_t dataset, const std::string& path) {
  const Handle type(H5Dget_type(dataset), H5Tclose), space(H5Dget_space(dataset), H5Sclose);
  if (!type.valid() || !space.valid()) fail("cannot read the type of ", path);
  Hdf5Dataset result{.path = path, .shape = extents(space), .type_name = describe_type(type)};
  if (const auto element = element_type(type)) {
    result.numeric = true;
    result.type = *element;
  }
  return result;
}

// Slices along the first axis that are read at once: whole rows of chunks, each of which is so
// unpacked once.
std::uint64_t slices_a_block(hid_t dataset, const Hdf5Dataset& info, std::uint64_t slice_bytes) {
  if (info.shape.empty()) return 1;
  const auto slices = static_cast<std::uint64_t>(info.shape[0]);
  std::uint64_t unit = 1;
  const Handle plan(H5Dget_create_plist(dataset), H5Pclose);
  hsize_t chunk[H5S_MAX_RANK] = {};
  if (plan.valid() && H5Pget_layout(plan) == H5D_CHUNKED &&
      H5Pget_chunk(plan, H5S_MAX_RANK, chunk) > 0) {
    unit = std::clamp<std::uint64_t>(chunk[0], 1, std::max<std::uint64_t>(slices, 1));
  }
  const std::uint64_t units = kBlockBytes / std::max<std::uint64_t>(slice_bytes, 1) / unit;
  return std::clamp<std::uint64_t>(units * unit, unit, std::max<std::uint64_t>(slices, 1));
}

}  // namespace

File::File(int descriptor) {
  struct stat status {};
  ENSURE(::fstat(descriptor, &status) == 0, "HDF5: cannot ask for the size of the file");
  file_bytes_ = static_cast<std::uint64_t>(status.st_size);
  // HDF5 takes names only. This one stands for the file that is open already, whatever happens to
  // its own name.
  const std::string name = base::concat("/proc/self/fd/", descriptor);
  ENSURE(::access(name.c_str(), R_OK) == 0, "HDF5: cannot open the file without /proc");
  file_ = Handle(H5Fopen(name.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  if (!file_.valid()) fail("cannot open as an HDF5 file of ", file_bytes_, " bytes");
}

bool File::exists(const std::string& object) const {
  if (object.empty() || object == "/") return true;
  for (std::size_t end = object.find('/', 1);; end = object.find('/', end + 1)) {
    const std::string part = object.substr(0, end);
    if (H5Lexists(file_, part.c_str(), H5P_DEFAULT) <= 0) return false;
    H5L_info_t info;
    if (H5Lget_info(file_, part.c_str(), &info, H5P_DEFAULT) < 0) return false;
    ENSURE(info.type != H5L_TYPE_EXTERNAL && info.type < H5L_TYPE_UD_MIN, "HDF5: ", part,
           " is a link into another file, which is not followed");
    if (end == std::string::npos) break;
  }
  return H5Oexists_by_name(file_, object.c_str(), H5P_DEFAULT) > 0;
}

Handle File::open_object(const std::string& path) const {
  if (!exists(path)) base::fail("HDF5: there is no ", path.empty() ? "/" : path);
  Handle object(H5Oopen(file_, path.empty() ? "/" : path.c_str(), H5P_DEFAULT), H5Oclose);
  if (!object.valid()) fail("cannot open ", path);
  return object;
}

Handle File::open_dataset(const std::string& path) const {
  Handle object = open_object(path);
  ENSURE(H5Iget_type(object) == H5I_DATASET, "HDF5: ", path, " is no dataset");
  return object;
}

Handle File::open_attribute(const std::string& object, const std::string& name) const {
  const Handle holder = open_object(object);
  Handle attribute(H5Aopen(holder, name.c_str(), H5P_DEFAULT), H5Aclose);
  if (!attribute.valid()) base::fail("HDF5: ", object, " has no attribute ", name);
  return attribute;
}

bool File::is_group(const std::string& object) const {
  return exists(object) && H5Iget_type(open_object(object)) == H5I_GROUP;
}

std::vector<std::string> File::names_in(const std::string& group) const {
  const Handle object = open_object(group);
  ENSURE(H5Iget_type(object) == H5I_GROUP, "HDF5: ", group, " is no group");
  H5G_info_t info;
  if (H5Gget_info(object, &info) < 0) fail("cannot list ", group);
  std::vector<std::string> names;
  for (hsize_t i = 0; i < info.nlinks && names.size() < kMaxVisited; ++i) {
    char name[1024];
    const auto length = H5Lget_name_by_idx(object, ".", H5_INDEX_NAME, H5_ITER_INC, i, name,
                                           sizeof(name), H5P_DEFAULT);
    if (length < 0) fail("cannot list ", group);
    names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void File::list(const std::string& group, int depth, std::size_t& visited,
                std::vector<Hdf5Dataset>& out) const {
  for (const std::string& name : names_in(group)) {
    if (++visited > kMaxVisited || depth > kMaxDepth) return;
    const std::string path = (group == "/" ? "" : group) + "/" + name;
    H5L_info_t info;
    if (H5Lget_info(file_, path.c_str(), &info, H5P_DEFAULT) < 0 || info.type != H5L_TYPE_HARD)
      continue;
    const Handle object = open_object(path);
    if (H5Iget_type(object) == H5I_DATASET) out.push_back(describe(object, path));
    if (H5Iget_type(object) == H5I_GROUP) list(path, depth + 1, visited, out);
  }
}

std::vector<Hdf5Dataset> File::datasets() const {
  std::vector<Hdf5Dataset> result;
  std::size_t visited = 0;
  list("/", 0, visited, result);
  std::sort(result.begin(), result.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return result;
}

Hdf5Dataset File::dataset(const std::string& path) const {
  return describe(open_dataset(path), path);
}

bool File::has_attribute(const std::string& object, const std::string& name) const {
  return exists(object) && H5Aexists(open_object(object), name.c_str()) > 0;
}

std::vector<double> File::attribute_numbers(const std::string& object,
                                            const std::string& name) const {
  const Handle attribute = open_attribute(object, name);
  const Handle type(H5Aget_type(attribute), H5Tclose), space(H5Aget_space(attribute), H5Sclose);
  ENSURE(element_type(type).has_value(), "HDF5: attribute ", name, " of ", object, " is ",
         describe_type(type), ", numbers are expected");
  const std::uint64_t count = element_count(name, extents(space));
  ENSURE(count <= std::max(file_bytes_, kMaxUnwrittenBytes), "HDF5: attribute ", name, " of ",
         object, " claims ", count, " numbers");
  std::vector<double> values(count);
  if (count > 0 && H5Aread(attribute, H5T_NATIVE_DOUBLE, values.data()) < 0) {
    fail("cannot read attribute ", name, " of ", object);
  }
  return values;
}

// Text of a dataset or attribute of strings, fixed or variable length, through `read`.
template <class Read>
std::vector<std::string> File::read_texts(hid_t type, hid_t space, const std::string& what,
                                          Read&& read) const {
  ENSURE(H5Tget_class(type) == H5T_STRING, "HDF5: ", what, " is ", describe_type(type),
         ", text is expected");
  const std::uint64_t count = element_count(what, extents(space));
  const std::uint64_t width = H5Tget_size(type);
  ENSURE(width == 0 || count <= std::max(file_bytes_, kMaxUnwrittenBytes) / width, "HDF5: ", what,
         " claims ", count, " texts of ", width, " bytes");
  std::vector<std::string> result;
  if (count == 0) return result;
  const Handle memory(H5Tcopy(type), H5Tclose);
  if (H5Tis_variable_str(type) > 0) {
    std::vector<char*> pointers(count, nullptr);
    if (!read(memory, pointers.data())) fail("cannot read ", what);
    for (const char* text : pointers) result.emplace_back(text == nullptr ? "" : text);
    H5Dvlen_reclaim(memory, space, H5P_DEFAULT, pointers.data());
    return result;
  }
  std::vector<char> buffer(count * width);
  if (!read(memory, buffer.data())) fail("cannot read ", what);
  const bool padded_with_spaces = H5Tget_strpad(type) == H5T_STR_SPACEPAD;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string text(buffer.data() + i * width, width);
    text.resize(std::min(text.find('\0'), text.size()));
    if (padded_with_spaces) text.resize(text.find_last_not_of(' ') + 1);
    result.push_back(std::move(text));
  }
  return result;
}

std::vector<std::string> File::attribute_texts(const std::string& object,
                                               const std::string& name) const {
  const Handle attribute = open_attribute(object, name);
  const Handle type(H5Aget_type(attribute), H5Tclose), space(H5Aget_space(attribute), H5Sclose);
  return read_texts(type, space, base::concat("attribute ", name, " of ", object),
                    [&](hid_t memory, void* out) { return H5Aread(attribute, memory, out) >= 0; });
}

std::vector<std::string> File::texts(const std::string& path) const {
  const Handle dataset = open_dataset(path);
  const Handle type(H5Dget_type(dataset), H5Tclose), space(H5Dget_space(dataset), H5Sclose);
  check_storage(dataset, path, H5Tget_size(type));
  return read_texts(type, space, path, [&](hid_t memory, void* out) {
    return H5Dread(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) >= 0;
  });
}

// Refuses data that the file cannot hold, before anything is allocated for it. Returns the bytes
// stored.
std::uint64_t File::check_storage(hid_t dataset, const std::string& path,
                                  std::uint64_t bytes) const {
  const Handle plan(H5Dget_create_plist(dataset), H5Pclose);
  if (!plan.valid()) fail("cannot read the layout of ", path);
  const H5D_layout_t layout = H5Pget_layout(plan);
  ENSURE(H5Pget_external_count(plan) == 0 && layout != H5D_VIRTUAL, "HDF5: ", path,
         " keeps its data in other files, which are not opened");
  const std::uint64_t stored = H5Dget_storage_size(dataset);
  ENSURE(stored <= file_bytes_, "HDF5: ", path, " claims ", stored, " stored bytes, the file has ",
         file_bytes_);
  std::uint64_t limit = stored;
  if (layout == H5D_CHUNKED) {
    limit = H5Pget_nfilters(plan) > 0 ? stored * kMaxRatio : stored;
    hsize_t chunk[H5S_MAX_RANK] = {};
    std::uint64_t chunk_elements = 1;
    const int rank = H5Pget_chunk(plan, H5S_MAX_RANK, chunk);
    for (int i = 0; i < rank; ++i) {
      const std::uint64_t extent = std::max<hsize_t>(chunk[i], 1);
      ENSURE(chunk_elements <= std::max(limit, kMaxUnwrittenBytes) / extent, "HDF5: ", path,
             " claims chunks of more than ", std::max(limit, kMaxUnwrittenBytes), " elements, ",
             stored, " bytes are stored");
      chunk_elements *= extent;
    }
  }
  ENSURE(bytes <= std::max(limit, kMaxUnwrittenBytes), "HDF5: ", path, " claims ", bytes,
         " bytes, ", stored, " are stored");
  return stored;
}

StoredData File::find_data(const std::string& path, std::optional<base::DType> as) const {
  const Handle dataset = open_dataset(path);
  StoredData data{.info = describe(dataset, path)};
  const Hdf5Dataset& info = data.info;
  ENSURE(info.numeric, "HDF5: ", path, " is ", info.type_name, ", numbers are expected");
  const std::uint64_t count = element_count(path, info.shape);
  const std::uint64_t stored =
      check_storage(dataset, path, count * static_cast<std::uint64_t>(base::bytes(info.type)));
  const auto width = static_cast<std::uint64_t>(base::bytes(as.value_or(info.type)));
  data.bytes = count * width;
  if (count == 0) return data;
  const std::uint64_t slices = info.shape.empty() ? 1 : static_cast<std::uint64_t>(info.shape[0]);
  const std::uint64_t slice_bytes = data.bytes / slices;
  data.block_bytes = slices_a_block(dataset, info, slice_bytes) * slice_bytes;
  const Handle type(H5Dget_type(dataset), H5Tclose), plan(H5Dget_create_plist(dataset), H5Pclose);
  const haddr_t address = H5Dget_offset(dataset);
  const bool is_plain = type.valid() && plan.valid() && H5Pget_layout(plan) == H5D_CONTIGUOUS &&
                        H5Tequal(type, memory_type(as.value_or(info.type))) > 0 &&
                        stored >= data.bytes && address != HADDR_UNDEF && address <= file_bytes_ &&
                        data.bytes <= file_bytes_ - address;
  if (is_plain) data.address = static_cast<std::int64_t>(address);
  return data;
}

void File::read_blocks(const StoredData& data, base::DType as,
                       const std::function<void(const char*, std::uint64_t)>& body) const {
  if (data.bytes == 0) return;
  const std::string& path = data.info.path;
  const Handle dataset = open_dataset(path), memory = memory_type(as);
  std::vector<char> buffer(data.block_bytes);
  if (data.info.shape.empty()) {
    if (H5Dread(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, buffer.data()) < 0)
      fail("cannot read ", path);
    return body(buffer.data(), buffer.size());
  }
  const Handle space(H5Dget_space(dataset), H5Sclose);
  std::vector<hsize_t> start(data.info.shape.size(), 0),
      count(data.info.shape.begin(), data.info.shape.end());
  const std::uint64_t slices = count[0], slice_bytes = data.bytes / slices;
  const std::uint64_t block = data.block_bytes / slice_bytes;
  for (std::uint64_t begin = 0; begin < slices; begin += block) {
    start[0] = begin;
    count[0] = std::min(block, slices - begin);
    const Handle target(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
                        H5Sclose);
    if (!target.valid() ||
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) <
            0 ||
        H5Dread(dataset, memory, target, space, H5P_DEFAULT, buffer.data()) < 0) {
      fail("cannot read ", path);
    }
    body(buffer.data(), count[0] * slice_bytes);
  }
}

}  // namespace io::hdf5
