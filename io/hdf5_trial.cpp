#include "io/hdf5_trial.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "io/hdf5_handle.hpp"

namespace io::hdf5 {
namespace {

constexpr std::uint64_t kReadWhole = 1 << 20;  // files, attributes and datasets up to here are read
constexpr int kMaxDepth = 32, kMaxObjects = 10000;

void read_elements(hid_t type, hid_t space, const std::function<void(hid_t, void*)>& read) {
  const hssize_t count = H5Sget_simple_extent_npoints(space);
  const std::size_t width = H5Tget_size(type);
  if (count <= 0 || width == 0 || static_cast<std::uint64_t>(count) > kReadWhole / width) return;
  std::vector<char> buffer(static_cast<std::size_t>(count) * width);
  read(type, buffer.data());
  if (H5Tdetect_class(type, H5T_VLEN) > 0 || H5Tis_variable_str(type) > 0) {
    H5Dvlen_reclaim(type, space, H5P_DEFAULT, buffer.data());
  }
}

void walk_attributes(hid_t object) {
  H5O_info_t info;
  if (H5Oget_info(object, &info) < 0) return;
  for (hsize_t i = 0; i < info.num_attrs && i < kMaxObjects; ++i) {
    const Handle attribute(
        H5Aopen_by_idx(object, ".", H5_INDEX_NAME, H5_ITER_INC, i, H5P_DEFAULT, H5P_DEFAULT),
        H5Aclose);
    if (!attribute.valid()) continue;
    const Handle type(H5Aget_type(attribute), H5Tclose), space(H5Aget_space(attribute), H5Sclose);
    if (!type.valid() || !space.valid()) continue;
    read_elements(type, space, [&](hid_t memory, void* out) { H5Aread(attribute, memory, out); });
  }
}

void walk_dataset(hid_t dataset, bool reads_data) {
  const Handle type(H5Dget_type(dataset), H5Tclose), space(H5Dget_space(dataset), H5Sclose),
      plan(H5Dget_create_plist(dataset), H5Pclose);
  if (!type.valid() || !space.valid() || !plan.valid()) return;
  const H5D_layout_t layout = H5Pget_layout(plan);
  if (layout == H5D_VIRTUAL || H5Pget_external_count(plan) != 0)
    return;  // never opened by the reader either
  H5Dget_storage_size(dataset);
#if H5_VERSION_GE(1, 10, 5)
  hsize_t chunks = 0;
  if (layout == H5D_CHUNKED) H5Dget_num_chunks(dataset, space, &chunks);
#endif
  if (!reads_data) return;
  read_elements(type, space, [&](hid_t memory, void* out) {
    H5Dread(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, out);
  });
}

void walk_object(hid_t object, bool reads_data, int depth, int& visited) {
  walk_attributes(object);
  if (H5Iget_type(object) == H5I_DATASET) return walk_dataset(object, reads_data);
  H5G_info_t group;
  if (H5Iget_type(object) != H5I_GROUP || depth > kMaxDepth || H5Gget_info(object, &group) < 0)
    return;
  for (hsize_t i = 0; i < group.nlinks && ++visited < kMaxObjects; ++i) {
    char name[1024];
    if (H5Lget_name_by_idx(object, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof(name),
                           H5P_DEFAULT) < 0)
      continue;
    H5L_info_t link;
    if (H5Lget_info(object, name, &link, H5P_DEFAULT) < 0 || link.type != H5L_TYPE_HARD) continue;
    const Handle child(H5Oopen(object, name, H5P_DEFAULT), H5Oclose);
    if (child.valid()) walk_object(child, reads_data, depth + 1, visited);
  }
}

}  // namespace

void walk_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  const Lock lock;
  const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  if (!file.valid()) return;
  const Handle root(H5Oopen(file, "/", H5P_DEFAULT), H5Oclose);
  int visited = 0;
  if (root.valid()) walk_object(root, bytes <= kReadWhole, 0, visited);
}

void try_in_child(const std::function<void()>& body, unsigned seconds) {
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  // A process an input is too slow to fuzz; crashes of the library are then seen as such.
  static_cast<void>(body);
  static_cast<void>(seconds);
#else
  const Lock lock;  // no other thread is inside the library while the process is copied
  const pid_t child = ::fork();
  if (child < 0) return;  // no process to spare: then without a trial
  if (child == 0) {
    const rlimit no_core{0, 0}, processor{seconds, seconds};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::setrlimit(RLIMIT_CPU, &processor);
    Lock::forget_in_child();
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::signal(fault, SIG_DFL);
    try {
      body();
    } catch (...) {  // the reader says it again
    }
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return;
  }
  ENSURE(!WIFSIGNALED(status), "HDF5: the file is damaged: the library ends with signal ",
         WTERMSIG(status), " (", ::strsignal(WTERMSIG(status)), ") on it");
  ENSURE(WEXITSTATUS(status) == 0, "HDF5: the file is damaged: the library gives up on it");
#endif
}

}  // namespace io::hdf5
