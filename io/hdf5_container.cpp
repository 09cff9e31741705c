#include "io/hdf5_container.hpp"

#include <algorithm>
#include <optional>

#include "io/hdf5_trial.hpp"
#include "io/hdf5_types.hpp"

namespace io {
namespace {

using hdf5::describe_type;
using hdf5::element_count;
using hdf5::element_type;
using hdf5::extents;
using hdf5::Handle;
using hdf5::Lock;
using hdf5::shape_text;

// Deflate cannot shrink bytes by more than 1032; nothing that HDF5 ships compresses real columns
// further.
constexpr std::uint64_t kMaxRatio = 1100;
// Chunks that were never written read as the fill value and take no space in the file: allowed up
// to this size.
constexpr std::uint64_t kMaxUnwrittenBytes = 1 << 20;
constexpr std::size_t kMaxVisited = 10000;  // objects listed; hard links may form cycles
constexpr int kMaxDepth = 32;
constexpr std::uint64_t kSlabBytes = 1 << 22;
constexpr unsigned kTrialSeconds =
    5;  // of processor time; describing the largest files takes milliseconds

}  // namespace

const bool kHasHdf5 = true;

struct Hdf5Reader::Impl {
  Handle file;
  std::uint64_t file_bytes = 0;

  // True when every link on the way exists. A link that leads into another file is an Error: a file
  // from a stranger must not open others.
  bool exists(const std::string& path) const {
    if (path.empty() || path == "/") return true;
    for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
      const std::string part = path.substr(0, end);
      if (H5Lexists(file, part.c_str(), H5P_DEFAULT) <= 0) return false;
      H5L_info_t info;
      if (H5Lget_info(file, part.c_str(), &info, H5P_DEFAULT) < 0) return false;
      ENSURE(info.type != H5L_TYPE_EXTERNAL && info.type < H5L_TYPE_UD_MIN, "HDF5: ", part,
             " is a link into another file, which is not followed");
      if (end == std::string::npos) break;
    }
    return H5Oexists_by_name(file, path.c_str(), H5P_DEFAULT) > 0;
  }

  Handle open_object(const std::string& path) const {
    if (!exists(path)) base::fail("HDF5: there is no ", path.empty() ? "/" : path);
    Handle object(H5Oopen(file, path.empty() ? "/" : path.c_str(), H5P_DEFAULT), H5Oclose);
    if (!object.valid()) hdf5::fail("cannot open ", path);
    return object;
  }

  Handle open_dataset(const std::string& path) const {
    Handle object = open_object(path);
    ENSURE(H5Iget_type(object) == H5I_DATASET, "HDF5: ", path, " is no dataset");
    return object;
  }

  Hdf5Dataset describe(hid_t dataset, const std::string& path) const {
    const Handle type(H5Dget_type(dataset), H5Tclose), space(H5Dget_space(dataset), H5Sclose);
    if (!type.valid() || !space.valid()) hdf5::fail("cannot read the type of ", path);
    Hdf5Dataset result{.path = path, .shape = extents(space), .type_name = describe_type(type)};
    if (const auto element = element_type(type)) {
      result.numeric = true;
      result.type = *element;
    }
    return result;
  }

  // Refuses data that the file cannot hold, before anything is allocated for it.
  void check_storage(hid_t dataset, const std::string& path, std::uint64_t bytes) const {
    const Handle plan(H5Dget_create_plist(dataset), H5Pclose);
    if (!plan.valid()) hdf5::fail("cannot read the layout of ", path);
    const H5D_layout_t layout = H5Pget_layout(plan);
    ENSURE(H5Pget_external_count(plan) == 0 && layout != H5D_VIRTUAL, "HDF5: ", path,
           " keeps its data in other files, which are not opened");
    const std::uint64_t stored = H5Dget_storage_size(dataset);
    ENSURE(stored <= file_bytes, "HDF5: ", path, " claims ", stored, " stored bytes, the file has ",
           file_bytes);
    std::uint64_t limit = stored;
    if (layout == H5D_CHUNKED) {
      limit = H5Pget_nfilters(plan) > 0 ? stored * kMaxRatio : stored;
      hsize_t chunk[H5S_MAX_RANK] = {};
      std::uint64_t chunk_elements = 1;
      const int rank = H5Pget_chunk(plan, H5S_MAX_RANK, chunk);
      for (int i = 0; i < rank; ++i) chunk_elements *= std::max<hsize_t>(chunk[i], 1);
      ENSURE(chunk_elements <= std::max(limit, kMaxUnwrittenBytes), "HDF5: ", path,
             " claims chunks of ", chunk_elements, " elements, ", stored, " bytes are stored");
    }
    ENSURE(bytes <= std::max(limit, kMaxUnwrittenBytes), "HDF5: ", path, " claims ", bytes,
           " bytes, ", stored, " are stored");
  }

  void read_into(hid_t dataset, const std::string& path, hid_t memory, void* out) const {
    if (H5Dread(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) < 0)
      hdf5::fail("cannot read ", path);
  }

  Handle open_attribute(const std::string& object, const std::string& name) const {
    const Handle holder = open_object(object);
    Handle attribute(H5Aopen(holder, name.c_str(), H5P_DEFAULT), H5Aclose);
    if (!attribute.valid()) base::fail("HDF5: ", object, " has no attribute ", name);
    return attribute;
  }

  // Text of a dataset or attribute of strings, fixed or variable length, through `read`.
  template <class Read>
  std::vector<std::string> texts(hid_t type, hid_t space, const std::string& what,
                                 Read&& read) const {
    ENSURE(H5Tget_class(type) == H5T_STRING, "HDF5: ", what, " is ", describe_type(type),
           ", text is expected");
    const std::uint64_t count = element_count(what, extents(space));
    const std::uint64_t width = H5Tget_size(type);
    ENSURE(width == 0 || count <= std::max(file_bytes, kMaxUnwrittenBytes) / width, "HDF5: ", what,
           " claims ", count, " texts of ", width, " bytes");
    std::vector<std::string> result;
    if (count == 0) return result;
    const Handle memory(H5Tcopy(type), H5Tclose);
    if (H5Tis_variable_str(type) > 0) {
      std::vector<char*> pointers(count, nullptr);
      if (!read(memory, pointers.data())) hdf5::fail("cannot read ", what);
      for (const char* text : pointers) result.emplace_back(text == nullptr ? "" : text);
      H5Dvlen_reclaim(memory, space, H5P_DEFAULT, pointers.data());
      return result;
    }
    std::vector<char> buffer(count * width);
    if (!read(memory, buffer.data())) hdf5::fail("cannot read ", what);
    const bool padded_with_spaces = H5Tget_strpad(type) == H5T_STR_SPACEPAD;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::string text(buffer.data() + i * width, width);
      text.resize(std::min(text.find('\0'), text.size()));
      if (padded_with_spaces) text.resize(text.find_last_not_of(' ') + 1);
      result.push_back(std::move(text));
    }
    return result;
  }

  std::vector<std::string> names_in(const std::string& group) const {
    const Handle object = open_object(group);
    ENSURE(H5Iget_type(object) == H5I_GROUP, "HDF5: ", group, " is no group");
    H5G_info_t info;
    if (H5Gget_info(object, &info) < 0) hdf5::fail("cannot list ", group);
    std::vector<std::string> names;
    for (hsize_t i = 0; i < info.nlinks && names.size() < kMaxVisited; ++i) {
      char name[1024];
      const auto length = H5Lget_name_by_idx(object, ".", H5_INDEX_NAME, H5_ITER_INC, i, name,
                                             sizeof(name), H5P_DEFAULT);
      if (length < 0) hdf5::fail("cannot list ", group);
      names.emplace_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  void list(const std::string& group, int depth, std::size_t& visited,
            std::vector<Hdf5Dataset>& out) const {
    for (const std::string& name : names_in(group)) {
      if (++visited > kMaxVisited || depth > kMaxDepth) return;
      const std::string path = (group == "/" ? "" : group) + "/" + name;
      H5L_info_t info;
      if (H5Lget_info(file, path.c_str(), &info, H5P_DEFAULT) < 0 || info.type != H5L_TYPE_HARD)
        continue;
      const Handle object = open_object(path);
      if (H5Iget_type(object) == H5I_DATASET) out.push_back(describe(object, path));
      if (H5Iget_type(object) == H5I_GROUP) list(path, depth + 1, visited, out);
    }
  }
};

Hdf5Reader::Hdf5Reader(const std::filesystem::path& path) : impl_(std::make_unique<Impl>()) {
  const Lock lock;
  std::error_code error;
  // Opening a FIFO would wait for ever, and HDF5 reports a folder as a broken file.
  const auto status = std::filesystem::status(path, error);
  ENSURE(!error && std::filesystem::exists(status),
         "cannot open: ", error ? error.message() : "No such file or directory");
  ENSURE(std::filesystem::is_regular_file(status), "not a regular file");
  impl_->file_bytes = std::filesystem::file_size(path, error);
  hdf5::try_in_child([&] { hdf5::walk_file(path); }, kTrialSeconds);
  impl_->file = Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  if (!impl_->file.valid())
    hdf5::fail("cannot open as an HDF5 file of ", impl_->file_bytes, " bytes");
}

Hdf5Reader::~Hdf5Reader() = default;
Hdf5Reader::Hdf5Reader(Hdf5Reader&&) noexcept = default;

bool Hdf5Reader::has(const std::string& object) const {
  const Lock lock;
  return impl_->exists(object);
}

bool Hdf5Reader::is_group(const std::string& object) const {
  const Lock lock;
  return impl_->exists(object) && H5Iget_type(impl_->open_object(object)) == H5I_GROUP;
}

std::vector<std::string> Hdf5Reader::children(const std::string& group) const {
  const Lock lock;
  return impl_->names_in(group);
}

std::vector<Hdf5Dataset> Hdf5Reader::datasets() const {
  const Lock lock;
  std::vector<Hdf5Dataset> result;
  std::size_t visited = 0;
  impl_->list("/", 0, visited, result);
  std::sort(result.begin(), result.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return result;
}

Hdf5Dataset Hdf5Reader::dataset(const std::string& path) const {
  const Lock lock;
  return impl_->describe(impl_->open_dataset(path), path);
}

bool Hdf5Reader::has_attribute(const std::string& object, const std::string& name) const {
  const Lock lock;
  return impl_->exists(object) && H5Aexists(impl_->open_object(object), name.c_str()) > 0;
}

std::vector<double> Hdf5Reader::attribute_numbers(const std::string& object,
                                                  const std::string& name) const {
  const Lock lock;
  const Handle attribute = impl_->open_attribute(object, name);
  const Handle type(H5Aget_type(attribute), H5Tclose), space(H5Aget_space(attribute), H5Sclose);
  ENSURE(element_type(type).has_value(), "HDF5: attribute ", name, " of ", object, " is ",
         describe_type(type), ", numbers are expected");
  const std::uint64_t count = element_count(name, extents(space));
  ENSURE(count <= std::max(impl_->file_bytes, kMaxUnwrittenBytes), "HDF5: attribute ", name, " of ",
         object, " claims ", count, " numbers");
  std::vector<double> values(count);
  if (count > 0 && H5Aread(attribute, H5T_NATIVE_DOUBLE, values.data()) < 0) {
    hdf5::fail("cannot read attribute ", name, " of ", object);
  }
  return values;
}

std::vector<std::string> Hdf5Reader::attribute_texts(const std::string& object,
                                                     const std::string& name) const {
  const Lock lock;
  const Handle attribute = impl_->open_attribute(object, name);
  const Handle type(H5Aget_type(attribute), H5Tclose), space(H5Aget_space(attribute), H5Sclose);
  return impl_->texts(
      type, space, base::concat("attribute ", name, " of ", object),
      [&](hid_t memory, void* out) { return H5Aread(attribute, memory, out) >= 0; });
}

std::string Hdf5Reader::attribute_text(const std::string& object, const std::string& name) const {
  const auto texts = attribute_texts(object, name);
  ENSURE(texts.size() == 1, "HDF5: attribute ", name, " of ", object, " holds ", texts.size(),
         " texts, 1 is expected");
  return texts.front();
}

template <class T>
std::vector<T> Hdf5Reader::read(const std::string& path) const {
  const Lock lock;
  const Handle dataset = impl_->open_dataset(path);
  const Hdf5Dataset info = impl_->describe(dataset, path);
  ENSURE(info.numeric, "HDF5: ", path, " is ", info.type_name, ", numbers are expected");
  const std::uint64_t count = element_count(path, info.shape);
  impl_->check_storage(dataset, path, count * static_cast<std::uint64_t>(base::bytes(info.type)));
  std::vector<T> values(count);
  if (count > 0)
    impl_->read_into(dataset, path, hdf5::memory_type(base::dtype_v<T>), values.data());
  return values;
}

#include "io/hdf5_reader-inl.hpp"

base::Tensor Hdf5Reader::read_tensor(const std::string& path) const {
  const Lock lock;
  const Handle dataset = impl_->open_dataset(path);
  const Hdf5Dataset info = impl_->describe(dataset, path);
  ENSURE(info.numeric, "HDF5: ", path, " is ", info.type_name, ", numbers are expected");
  ENSURE(info.shape.size() <= base::Dims::kMaxRank, "HDF5: ", path, " has shape ",
         shape_text(info.shape), ", at most 6 axes are read");
  impl_->check_storage(
      dataset, path,
      element_count(path, info.shape) * static_cast<std::uint64_t>(base::bytes(info.type)));
  base::Dims shape;
  for (const std::int64_t extent : info.shape) shape.push_back(extent);
  base::Tensor tensor = base::Tensor::empty(shape, info.type);
  if (tensor.numel() > 0)
    impl_->read_into(dataset, path, hdf5::memory_type(info.type), tensor.data());
  return tensor;
}

void Hdf5Reader::check_size(const std::string& path) const {
  const Lock lock;
  const Handle dataset = impl_->open_dataset(path);
  const Hdf5Dataset info = impl_->describe(dataset, path);
  impl_->check_storage(
      dataset, path,
      element_count(path, info.shape) * static_cast<std::uint64_t>(base::bytes(info.type)));
}

void Hdf5Reader::read_slabs(const std::string& path,
                            const std::function<void(const void*, std::int64_t)>& body) const {
  const Lock lock;
  const Handle dataset = impl_->open_dataset(path);
  const Hdf5Dataset info = impl_->describe(dataset, path);
  ENSURE(info.numeric && !info.shape.empty(), "HDF5: ", path, " is no array of numbers");
  const auto element = static_cast<std::uint64_t>(base::bytes(info.type));
  const std::uint64_t total = element_count(path, info.shape) * element;
  impl_->check_storage(dataset, path, total);
  if (total == 0) return;
  const auto slabs = static_cast<std::uint64_t>(info.shape[0]), slab_bytes = total / slabs;
  const std::uint64_t block = std::clamp<std::uint64_t>(kSlabBytes / slab_bytes, 1, slabs);
  std::vector<char> buffer(block * slab_bytes);
  const Handle space(H5Dget_space(dataset), H5Sclose), memory = hdf5::memory_type(info.type);
  std::vector<hsize_t> start(info.shape.size(), 0), count(info.shape.begin(), info.shape.end());
  for (std::uint64_t begin = 0; begin < slabs; begin += block) {
    start[0] = begin;
    count[0] = std::min(block, slabs - begin);
    const Handle target(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
                        H5Sclose);
    if (!target.valid() ||
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) <
            0 ||
        H5Dread(dataset, memory, target, space, H5P_DEFAULT, buffer.data()) < 0) {
      hdf5::fail("cannot read ", path);
    }
    body(buffer.data(), static_cast<std::int64_t>(count[0]));
  }
}

std::string Hdf5Reader::read_text(const std::string& path) const {
  const Lock lock;
  const Handle dataset = impl_->open_dataset(path);
  const Handle type(H5Dget_type(dataset), H5Tclose), space(H5Dget_space(dataset), H5Sclose);
  impl_->check_storage(dataset, path, H5Tget_size(type));
  const auto texts = impl_->texts(type, space, path, [&](hid_t memory, void* out) {
    return H5Dread(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) >= 0;
  });
  ENSURE(texts.size() == 1, "HDF5: ", path, " holds ", texts.size(), " texts, 1 is expected");
  return texts.front();
}

}  // namespace io
