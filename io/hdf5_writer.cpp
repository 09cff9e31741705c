#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "io/hdf5_container.hpp"
#include "io/hdf5_handle.hpp"
#include "io/sink.hpp"

namespace io {
namespace {

using hdf5::Handle;
using hdf5::Lock;

constexpr hsize_t kChunkElements = 1 << 16;
// Copying as many bytes takes longer than a call of the library; other files are written meanwhile.
constexpr hsize_t kWrittenWithoutLock = 1 << 14;

std::vector<hsize_t> to_hsize(const std::vector<std::int64_t>& shape) {
  return {shape.begin(), shape.end()};
}

Handle make_space(const std::vector<hsize_t>& extents) {
  Handle space(extents.empty()
                   ? H5Screate(H5S_SCALAR)
                   : H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
               H5Sclose);
  if (!space.valid()) hdf5::fail("cannot make a data space");
  return space;
}

// Waits until what was written has reached the disk. False, with errno, where that fails.
bool sync_to_disk(const std::filesystem::path& path, int flags) {
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool is_synced = ::fsync(descriptor) == 0;
  const int reason = errno;
  ::close(descriptor);
  errno = reason;
  return is_synced;
}

Handle make_text_type() {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  if (H5Tset_size(type, H5T_VARIABLE) < 0 || H5Tset_cset(type, H5T_CSET_UTF8) < 0)
    hdf5::fail("cannot make a text type");
  return type;
}

// Making a list of properties takes the library as long as making a dataset, so there is one of
// each for all files. Missing groups on the way are made; nothing carries a time, so that the same
// content is the same bytes.
struct Plans {
  // Not closed at the end of the program, when the library may be gone.
  const hid_t links = H5Pcreate(H5P_LINK_CREATE), values = H5Pcreate(H5P_DATASET_CREATE);

  Plans() {
    // Room for all values at once, which are written into it without the library.
    if (H5Pset_create_intermediate_group(links, 1) < 0 ||
        H5Pset_obj_track_times(values, false) < 0 ||
        H5Pset_alloc_time(values, H5D_ALLOC_TIME_EARLY) < 0 ||
        H5Pset_fill_time(values, H5D_FILL_TIME_NEVER) < 0)
      hdf5::fail("cannot set up datasets");
  }
};

// With the lock.
const Plans& plans() {
  static const Plans instance;
  return instance;
}

}  // namespace

struct Hdf5Writer::Impl {
  std::filesystem::path target, temporary;
  Handle file;
  int descriptor = -1;  // the library's own
  int compression = 0;

  Handle create_dataset(const std::string& path, hid_t type,
                        const std::vector<hsize_t>& extents) const {
    const Handle space = make_space(extents);
    const bool has_elements =
        std::all_of(extents.begin(), extents.end(), [](hsize_t n) { return n > 0; });
    Handle plan;  // where it is not that of plain values
    if (!has_elements || extents.empty() || compression > 0 || H5Tget_class(type) == H5T_STRING) {
      plan = Handle(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
      H5Pset_obj_track_times(plan, false);
    }
    if (compression > 0 && !extents.empty() && has_elements) {
      std::vector<hsize_t> chunk = extents;
      hsize_t inner = 1;
      for (std::size_t i = 1; i < extents.size(); ++i) inner *= extents[i];
      chunk[0] = std::clamp<hsize_t>(kChunkElements / std::max<hsize_t>(inner, 1), 1, extents[0]);
      if (H5Pset_chunk(plan, static_cast<int>(chunk.size()), chunk.data()) < 0 ||
          H5Pset_shuffle(plan) < 0 ||
          H5Pset_deflate(plan, static_cast<unsigned>(compression)) < 0) {
        hdf5::fail("cannot compress ", path);
      }
    }
    Handle dataset(H5Dcreate2(file, path.c_str(), type, space, plans().links,
                              plan.valid() ? hid_t{plan} : plans().values, H5P_DEFAULT),
                   H5Dclose);
    if (!dataset.valid()) hdf5::fail("cannot create ", path);
    return dataset;
  }

  void write_values(const std::string& path, base::DType type, const void* values,
                    const std::vector<hsize_t>& extents) const {
    haddr_t place = HADDR_UNDEF;
    hsize_t bytes = static_cast<hsize_t>(base::bytes(type));
    for (const hsize_t extent : extents) bytes *= extent;
    {
      const Lock lock;
      const Handle stored = hdf5::memory_type(type);
      const Handle dataset = create_dataset(path, stored, extents);
      if (bytes == 0) return;
      if (compression == 0 && bytes >= kWrittenWithoutLock) place = H5Dget_offset(dataset);
      if (place == HADDR_UNDEF) {
        if (H5Dwrite(dataset, stored, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
          hdf5::fail("cannot write ", path);
        return;
      }
    }
    write_at(static_cast<off_t>(place), static_cast<const char*>(values), bytes, path);
  }

  // Values as they are stored, to where the library has set room apart for them.
  void write_at(off_t place, const char* values, std::size_t bytes, const std::string& path) const {
    while (bytes > 0) {
      const ssize_t written = ::pwrite(descriptor, values, bytes, place);
      if (written < 0 && errno == EINTR) continue;
      ENSURE(written > 0, "HDF5: cannot write ", path, ": ",
             std::generic_category().message(written < 0 ? errno : ENOSPC));
      values += written;
      place += written;
      bytes -= static_cast<std::size_t>(written);
    }
  }

  void set_attribute(const std::string& object, const std::string& name, hid_t type,
                     const std::vector<hsize_t>& extents, const void* values) const {
    const Handle holder(H5Oopen(file, object.c_str(), H5P_DEFAULT), H5Oclose);
    if (!holder.valid()) hdf5::fail("cannot set attribute ", name, ": there is no ", object);
    if (H5Aexists(holder, name.c_str()) > 0) H5Adelete(holder, name.c_str());
    const Handle space = make_space(extents);
    const Handle attribute(H5Acreate2(holder, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT),
                           H5Aclose);
    if (!attribute.valid()) hdf5::fail("cannot create attribute ", name, " of ", object);
    const bool is_empty = !extents.empty() && extents[0] == 0;
    if (!is_empty && H5Awrite(attribute, type, values) < 0)
      hdf5::fail("cannot write attribute ", name, " of ", object);
  }

  void discard() {
    if (temporary.empty()) return;
    file.reset();
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    temporary.clear();
  }
  ~Impl() { discard(); }
};

Hdf5Writer::Hdf5Writer(const std::filesystem::path& path) : impl_(std::make_unique<Impl>()) {
  const Lock lock;
  impl_->target = path;
  impl_->temporary = temporary_beside(path);
  const bool is_taken = std::filesystem::exists(impl_->temporary);
  impl_->file =
      Handle(H5Fcreate(impl_->temporary.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
  if (!impl_->file.valid()) {
    // A file of that name that was there before is another's; one that is there now is empty.
    if (is_taken) impl_->temporary.clear();
    hdf5::fail("cannot create a file in ",
               path.has_parent_path() ? path.parent_path().string() : ".");
  }
  void* handle = nullptr;
  if (H5Fget_vfd_handle(impl_->file, H5P_DEFAULT, &handle) < 0)
    hdf5::fail("cannot write to ", impl_->temporary.string());
  impl_->descriptor = *static_cast<const int*>(handle);
}

Hdf5Writer::~Hdf5Writer() = default;
Hdf5Writer::Hdf5Writer(Hdf5Writer&&) noexcept = default;

void Hdf5Writer::set_compression(int level) {
  ENSURE(level >= 0 && level <= 9, "HDF5: compression level ", level, " is not in 0..9");
  impl_->compression = level;
}

template <class T>
void Hdf5Writer::write(const std::string& path, std::span<const T> values,
                       const std::vector<std::int64_t>& shape) {
  base::Dims dims;
  for (const std::int64_t extent : shape) dims.push_back(extent);
  ENSURE(base::checked_product(dims) == static_cast<std::int64_t>(values.size()), "HDF5: ", path,
         ": ", values.size(), " values do not fill the shape ", base::to_string(dims));
  impl_->write_values(path, base::dtype_v<T>, values.data(), to_hsize(shape));
}

#include "io/hdf5_writer-inl.hpp"

void Hdf5Writer::write_tensor(const std::string& path, const base::Tensor& tensor) {
  ENSURE(tensor.device().is_cpu(), "HDF5: ", path, ": the tensor is on ",
         base::to_string(tensor.device()), ", it must be on the CPU");
  const base::Dims& shape = tensor.shape();
  impl_->write_values(path, tensor.dtype(), tensor.data(), {shape.begin(), shape.end()});
}

void Hdf5Writer::write_text(const std::string& path, const std::string& text) {
  const Lock lock;
  const Handle type = make_text_type();
  const Handle dataset = impl_->create_dataset(path, type, {});
  const char* pointer = text.c_str();
  if (H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &pointer) < 0)
    hdf5::fail("cannot write ", path);
}

void Hdf5Writer::set_attribute(const std::string& object, const std::string& name,
                               std::int64_t value) {
  const Lock lock;
  impl_->set_attribute(object, name, H5T_NATIVE_INT64, {}, &value);
}

void Hdf5Writer::set_attribute(const std::string& object, const std::string& name,
                               const std::vector<std::int64_t>& values) {
  const Lock lock;
  impl_->set_attribute(object, name, H5T_NATIVE_INT64, {values.size()}, values.data());
}

void Hdf5Writer::set_attribute(const std::string& object, const std::string& name,
                               const std::vector<double>& values) {
  const Lock lock;
  impl_->set_attribute(object, name, H5T_NATIVE_DOUBLE, {values.size()}, values.data());
}

void Hdf5Writer::set_attribute(const std::string& object, const std::string& name,
                               const std::string& text) {
  const Lock lock;
  const char* pointer = text.c_str();
  impl_->set_attribute(object, name, make_text_type(), {}, &pointer);
}

void Hdf5Writer::set_attribute(const std::string& object, const std::string& name,
                               const std::vector<std::string>& texts) {
  const Lock lock;
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  impl_->set_attribute(object, name, make_text_type(), {pointers.size()}, pointers.data());
}

void Hdf5Writer::create_group(const std::string& path) {
  const Lock lock;
  if (path.empty() || path == "/") return;
  const Handle plan(H5Pcreate(H5P_GROUP_CREATE), H5Pclose);
  H5Pset_obj_track_times(plan, false);
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (H5Lexists(impl_->file, part.c_str(), H5P_DEFAULT) <= 0) {
      const Handle group(H5Gcreate2(impl_->file, part.c_str(), H5P_DEFAULT, plan, H5P_DEFAULT),
                         H5Gclose);
      if (!group.valid()) hdf5::fail("cannot create group ", part);
    }
    if (end == std::string::npos) return;
  }
}

void Hdf5Writer::commit(Commit how) {
  ENSURE(!impl_->temporary.empty(), "HDF5: commit called twice");
  {
    const Lock lock;
    const bool flushed = H5Fflush(impl_->file, H5F_SCOPE_GLOBAL) >= 0;
    const std::string reason = flushed ? "" : hdf5::last_error();
    if (!impl_->file.reset() || !flushed) {
      impl_->discard();
      base::fail("HDF5: cannot finish writing", reason.empty() ? "" : ": ", reason);
    }
  }
  if (how == Commit::synced && !sync_to_disk(impl_->temporary, O_RDONLY)) {
    const std::string failure = std::generic_category().message(errno);
    impl_->discard();
    base::fail("cannot write to the disk: ", failure);
  }
  std::error_code error;
  std::filesystem::rename(impl_->temporary, impl_->target, error);
  if (error) {
    impl_->discard();
    base::fail("cannot rename the finished file: ", error.message());
  }
  impl_->temporary.clear();
  if (how == Commit::synced) {
    // The file is whole under its name; some file systems cannot sync a folder.
    const std::filesystem::path folder = impl_->target.parent_path();
    sync_to_disk(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
  }
}

}  // namespace io
